"""A module that nothing imports."""

from scrapy import Request

from .record import record

record("sprung", "import")


class UnimportedRequest(Request):
    """A request class, for all that it matters."""
