"""Fingerprints of requests, remembered by URL where nothing but the URL matters.

Most links on a page were on the pages before. To make the fingerprint of one takes longer than all that
is done with it afterwards.
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

#: What Scrapy's own fingerprinter looks at; where it looks at anything else, nothing is remembered.
_LOOKED_AT = frozenset({"url", "method", "body", "meta"})
_META_LOOKED_AT = "verbatim_url"
_ALL_OF_META = object()
#: The longest URL that is remembered, in characters: many longer ones would be hundreds of megabytes.
_LONGEST = 2000


class ScrapyRedisFingerprinter:
    """Fingerprints as scrapy-redis 0.9 makes them, to go on with what it has seen.

    Set ``REQUEST_FINGERPRINTER_CLASS`` to ``"scrapy_rq_sched.fingerprints.ScrapyRedisFingerprinter"``, and
    leave it for as long as those fingerprints are to hold: none can be converted. It is the SHA-1 of the
    method, the canonical URL and the body, as JSON.
    """

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of *request*, of 20 bytes."""
        parts = {"body": request.body.hex(), "method": request.method, "url": canonicalize_url(request.url)}
        return hashlib.sha1(json.dumps(parts).encode()).digest()  # noqa: S324 - not a secret: to be the same


class Fingerprints:
    """Makes fingerprints, and remembers those of the latest URLs.

    :param make: returns a request's fingerprint, in hexadecimal.
    :param size: how many URLs to remember; 0 for none.
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
    """An empty meta that notes which keys are asked for, and whether all are."""

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
    """Return whether all ``GET`` requests of a URL, with no body, have the same fingerprint.

    So it is with Scrapy's own fingerprinter, unless a later version looks at more than this one does:
    that is found out by letting it look. ``meta["verbatim_url"]`` matters to it, and nothing else in meta.
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
    attributes.clear()  # what it takes to make one does not count
    try:
        fingerprinter.fingerprint(watched)
    except Exception:  # whatever it needs that is not there, it is more than the URL
        return False
    return attributes <= _LOOKED_AT and keys <= {_META_LOOKED_AT}
