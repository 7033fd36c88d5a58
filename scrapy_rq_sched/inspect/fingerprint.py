"""Make the same fingerprint of a URL as the workers of a frontier."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter

from ..assembly.dupefilter import fingerprints_by, load_dupefilter, load_fingerprints
from ..codec.seeds import request_from_seed
from ..codec.values import class_path
from ..errors import InspectionError, SeedError, UnknownCodeError
from ..fingerprints import ScrapyRedisFingerprinter, only_url_matters
from .view import View

#: The fingerprinters that use the canonical URL.
_SCRAPYS = {class_path(cls) for cls in (RequestFingerprinter, ScrapyRedisFingerprinter)}


class Fingerprinter:
    """Makes the same fingerprints as the workers of *view*'s frontier.

    :raises InspectionError: if the workers use a fingerprinter that this process does not have.
    """

    def __init__(self, view: View) -> None:
        spidercls: Any = view.spidercls or type("_Spider", (Spider,), {"name": view.spider})
        self._spider: Spider = object.__new__(spidercls)  # its __init__ may need a running crawl
        self._spider.name = view.spider
        crawler = Crawler(spidercls, view.scrapy_settings)
        crawler.spider, self._spider.crawler = self._spider, crawler
        self._spider.settings = crawler.settings
        try:
            crawler.addons.load_settings(crawler.settings)  # an add-on may set a fingerprinter
            cls: Any = load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"])
            crawler.request_fingerprinter = build_from_crawler(cls, crawler)
            dupefilter = load_dupefilter(crawler, self._spider, view.server, view.keys.dupefilter)
        except Exception as error:  # an add-on's code, or the user's, may raise anything
            raise InspectionError(
                f"The fingerprinter of spider {view.spider!r} cannot be made outside a crawl: "
                f"{type(error).__name__}: {error}"
            ) from error
        ours = fingerprints_by(dupefilter, crawler)
        theirs = view.meta.get("REQUEST_FINGERPRINTER_CLASS", ours)
        if ours != theirs:
            raise InspectionError(
                f"The workers of spider {view.spider!r} make fingerprints with {theirs}, but this command "
                f"would use {ours}. Run it in the project of the workers, or add -s "
                "REQUEST_FINGERPRINTER_CLASS=…"
            )
        self._make = load_fingerprints(crawler, dupefilter, 0).of
        #: Whether a fingerprint depends only on the canonical URL, the method and the body.
        self.is_of_url = only_url_matters(getattr(dupefilter, "fingerprinter", None)) and ours in _SCRAPYS

    def request(self, text: str) -> Request:
        """Make a request of a URL, or of a JSON object with any of ``Request``'s fields.

        :raises InspectionError: if *text* is neither.
        """
        try:
            return request_from_seed(text.encode("utf-8", "surrogateescape"), self._spider)
        except (SeedError, UnknownCodeError) as error:
            raise InspectionError(
                f"{text!r} is neither a valid URL nor a JSON object that describes a request: {error}"
            ) from error

    def of_fields(self, fields: dict[str, Any]) -> str:
        """Return the fingerprint of the request that *fields* describes; empty if it cannot be made."""
        wanted = {
            name: fields[name]
            for name in ("url", "method", "body", "headers", "encoding", "meta")
            if name in fields
        }
        try:
            return self.of(Request(**wanted))
        except (ValueError, TypeError, LookupError):
            return ""

    def of(self, request: Request) -> str:
        """Return the fingerprint of *request*, in hexadecimal.

        :raises InspectionError: if the fingerprinter cannot make one.
        """
        try:
            return str(self._make(request))
        except Exception as error:  # a custom fingerprinter may raise anything
            raise InspectionError(
                f"The fingerprinter cannot make a fingerprint of {request}: {type(error).__name__}: {error}"
            ) from error
