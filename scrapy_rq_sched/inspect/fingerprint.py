"""The fingerprint of a URL, as the workers of a frontier make it."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from ..components import fingerprints_by, load_dupefilter, load_fingerprints
from ..errors import InspectionError, PayloadError, SeedError, UnknownCodeError
from ..seeds import request_from_seed
from .view import View


class Fingerprinter:
    """Makes fingerprints as the workers of *view*'s frontier do.

    :raises InspectionError: if they make them in a way that is not known here.
    """

    def __init__(self, view: View) -> None:
        spidercls: Any = view.spidercls or type("_Spider", (Spider,), {"name": view.spider})
        self._spider: Spider = object.__new__(spidercls)  # its __init__ may need what only a crawl has
        self._spider.name = view.spider
        crawler = Crawler(spidercls, view.scrapy_settings)
        crawler.addons.load_settings(crawler.settings)  # one may bring a fingerprinter
        try:
            cls: Any = load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"])
            crawler.request_fingerprinter = build_from_crawler(cls, crawler)
            dupefilter = load_dupefilter(crawler, view.server, view.keys.dupefilter)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise InspectionError(f"REQUEST_FINGERPRINTER_CLASS cannot be loaded: {error}") from error
        ours = fingerprints_by(dupefilter, crawler)
        theirs = view.meta.get("REQUEST_FINGERPRINTER_CLASS", ours)
        if ours != theirs:
            raise InspectionError(
                f"The fingerprints of spider {view.spider!r} are made by {theirs}, and here by {ours}. Run "
                "this in the project of its workers, or say -s REQUEST_FINGERPRINTER_CLASS=…"
            )
        self._make = load_fingerprints(crawler, dupefilter, 0).of

    def request(self, text: str) -> Request:
        """Return the request of a URL, or of a JSON object with any of ``Request``'s fields.

        :raises InspectionError: if it is neither.
        """
        try:
            return request_from_seed(text.encode("utf-8", "surrogateescape"), self._spider)
        except (SeedError, UnknownCodeError) as error:
            raise InspectionError(
                f"{text!r} is no URL, nor a JSON object that describes a request: {error}"
            ) from error

    def of_fields(self, fields: dict[str, Any]) -> str:
        """Return the fingerprint of the request that *fields* describes; empty if there is none."""
        wanted = {
            name: fields[name]
            for name in ("url", "method", "body", "headers", "encoding", "meta")
            if name in fields
        }
        try:
            return self.of(Request(**wanted))
        except (ValueError, TypeError, PayloadError):
            return ""

    def of(self, request: Request) -> str:
        """Return the fingerprint of *request*, in hexadecimal."""
        return str(self._make(request))
