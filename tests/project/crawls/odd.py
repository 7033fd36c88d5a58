"""Requests with one odd value each, beside ordinary ones: what they do to a crawl."""

from __future__ import annotations

import decimal
import fractions
import os
from pathlib import Path

import scrapy

from .graph import _sleep, page_url
from .record import record

#: Pages whose requests are ordinary.
ORDINARY = 50
#: From here on, pages that yield an odd request; and from there on, those that such a request is for.
CARRIERS, ODD = 1_000_000, 2_000_000


class Text(str):
    """A subclass with nothing of its own."""


class Number(int):
    """A subclass with nothing of its own."""


VALUES = {
    "None": None,
    "digits": "10",
    "bytes": b"x",
    "fraction": 1.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "Decimal": decimal.Decimal(1),
    "Fraction": fractions.Fraction(1, 2),
    "large": 10**400,
    "negative": -(10**400),
    "too large to be written": 10**5000,
    "True": True,
    "object": object(),
    "list": [1, "x"],
    "dict": {"x": 1},
    "set": {1},
    "tuple": (1, "x"),
    "function": lambda *arguments, **named: None,
    "text subclass": Text("text"),
    "integer subclass": Number(7),
    "huge text": "x" * 2_000_000,
    "surrogate": "\ud800",
    "NUL": "\x00",
}


def _url(value, base):
    # Text follows the address, so that it is one.
    return f"{base}?{value}" if isinstance(value, str) else value


#: How a request gets the value where it is not that of a field, but within one.
WITHIN = {
    "a value of meta": lambda value: {"meta": {"odd": value}},
    "a key of meta": lambda value: {"meta": {value: "odd"}},
    "a list in meta": lambda value: {"meta": {"odd": [{"value": value}]}},
    "a value of cb_kwargs": lambda value: {"cb_kwargs": {"odd": value}},
    "a header": lambda value: {"headers": {"X-Odd": value}},
    "a name of a header": lambda value: {"headers": {value: "odd"}},
    "a cookie": lambda value: {"cookies": {"odd": value}},
    "a flag": lambda value: {"flags": [value]},
}
FIELDS = [*scrapy.Request.attributes, *WITHIN]


#: Scrapy compares priorities, which this and nan cannot be: where both wait, its own queue stands still.
NOT_COMPARED = ("priority", "Decimal")


def odd_request(field, value, after, url):
    """Return the request, if there is such a one; *after*: the value is set when it has been made."""
    if field in WITHIN:
        return scrapy.Request(url, **WITHIN[field](value))
    if field == "url":
        value = _url(value, url)
    if not after:
        return scrapy.Request(**{"url": url, field: value})
    request = scrapy.Request(url)
    setattr(request, field, value)
    return request


class OddSpider(scrapy.Spider):
    """Yields each odd request from a page of its own, so that what it breaks is nobody else's."""

    name = "odd"
    field = ""
    workers = "1"

    async def start(self):
        # Not before all are there: the crawl is short, and who comes after its end begins another.
        while Path(os.environ["RECORD"]).read_text().count(" opened ") < int(self.workers):
            await _sleep(0.02)
        yield scrapy.Request(page_url(0))

    def parse(self, response, **named):
        record("parsed", response.url)
        number = int(response.url.partition("?")[0].rpartition("/")[2])
        if number == 0:
            for ordinary in range(1, ORDINARY + 1):
                yield scrapy.Request(page_url(ordinary))
            for carrier in range(CARRIERS, CARRIERS + 2 * len(VALUES)):
                yield scrapy.Request(page_url(carrier))
        elif CARRIERS <= number < ODD:
            which, after = divmod(number - CARRIERS, 2)
            name, value = [*VALUES.items()][which]
            if (self.field, name) != NOT_COMPARED:
                yield odd_request(self.field, value, bool(after), page_url(ODD + number - CARRIERS))
