"""Fingerprints of requests, with a cache by URL for requests in which only the URL matters.

Most links of a page were also on earlier pages, and to calculate a fingerprint takes longer than all other
work on a link.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scrapy import Request
from scrapy.utils.request import RequestFingerprinter
from w3lib.url import canonicalize_url

#: The attributes that Scrapy's fingerprinter reads. If it reads others, there is no cache.
_LOOKED_AT = frozenset({"url", "method", "body", "meta"})
_META_LOOKED_AT = "verbatim_url"
_ALL_OF_META = object()
#: The longest URL in the cache, in characters: many longer URLs would take hundreds of megabytes.
_LONGEST = 2000


class ScrapyRedisFingerprinter:
    """Makes the same fingerprints as scrapy-redis 0.9, to continue a crawl with its dupefilter.

    Set ``REQUEST_FINGERPRINTER_CLASS`` to ``"scrapy_rq_sched.fingerprints.ScrapyRedisFingerprinter"``, and
    keep this setting as long as the old fingerprints must be valid: they cannot be converted. A fingerprint
    is the SHA-1 of the method, the canonical URL and the body, as JSON.
    """

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of *request*: 20 bytes."""
        parts = {"body": request.body.hex(), "method": request.method, "url": canonicalize_url(request.url)}
        return hashlib.sha1(json.dumps(parts).encode()).digest()  # noqa: S324 - not for security


class Fingerprints:
    """Makes fingerprints, with a cache for the latest URLs.

    :param make: a function that returns a request's fingerprint, in hexadecimal.
    :param size: the number of URLs in the cache; 0 for no cache.
    """

    def __init__(self, make: Callable[[Request], str], size: int) -> None:
        self._make = make
        self._size = size
        self._of_url: OrderedDict[str, str] = OrderedDict()

    def of(self, request: Request) -> str:
        """Return the fingerprint of *request*."""
        if not self._size or request.method != "GET" or request.body or _META_LOOKED_AT in request.meta:
            return self._make(request)
        if len(request.url) > _LONGEST:
            return self._make(request)
        known = self._of_url
        fingerprint = known.get(request.url)
        if fingerprint is None:
            fingerprint = known[request.url] = self._make(request)
            if len(known) > self._size:
                known.popitem(last=False)
        return fingerprint


class _Meta(Mapping[Any, Any]):
    """An empty meta that records which keys are read, and whether all are read."""

    def __init__(self, asked_for: set[Any]) -> None:
        self._asked_for = asked_for

    def __getitem__(self, key: Any) -> Any:
        self._asked_for.add(key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        self._asked_for.add(_ALL_OF_META)
        return iter(())

    def __len__(self) -> int:
        self._asked_for.add(_ALL_OF_META)
        return 0


def only_url_matters(fingerprinter: Any) -> bool:
    """Return whether all ``GET`` requests without a body have the same fingerprint if they have the same URL.

    It is so with Scrapy's own fingerprinter, which uses ``meta["verbatim_url"]`` and nothing else in meta. A
    later version of Scrapy may use more, so the function records which attributes the fingerprinter reads.
    """
    if type(fingerprinter) is ScrapyRedisFingerprinter:
        return True
    if type(fingerprinter) is not RequestFingerprinter:
        return False
    attributes: set[str] = set()
    keys: set[Any] = set()
    request = Request("https://www.example.org/?b=1&a=2#c")
    answers = {name: getattr(request, name) for name in _LOOKED_AT} | {"meta": _Meta(keys)}

    class Watched(Request):
        def __getattribute__(self, name: str) -> Any:
            attributes.add(name)
            return answers[name] if name in answers else super().__getattribute__(name)

    watched = Watched(request.url)
    attributes.clear()  # without the attributes that the constructor reads
    try:
        fingerprinter.fingerprint(watched)
    except Exception:  # it needs more than the URL
        return False
    return attributes <= _LOOKED_AT and keys <= {_META_LOOKED_AT}
