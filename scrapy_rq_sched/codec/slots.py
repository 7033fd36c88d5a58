"""The slot of a request, by a name that can be part of a key in Redis."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

#: Characters that stand for themselves in a name, besides those that :func:`urllib.parse.quote` leaves alone.
#: None of them separates the parts of a lease, or begins a pattern of ``redis-cli keys`` or a hash tag.
SAFE = "!$&()+,/:;="
#: Characters of the longest name. ``meta`` comes from pages.
LONGEST = 200
#: The name of the slot of requests without a host, such as ``data:,``. No host has it.
NO_HOST = "-"


def slot_of(request: Request) -> str:
    """Return the name of *request*'s slot, by Scrapy's rule: ``meta["download_slot"]``, or else its host.

    It is the rule of ``Downloader.get_slot_key``, but for ``CONCURRENT_REQUESTS_PER_IP``.
    """
    slot = request.meta.get("download_slot")
    if slot is not None:
        return slot_name(str(slot))
    try:
        return slot_name(urlparse_cached(request).hostname or "")
    except ValueError:  # no valid URL, such as http://[::1: what becomes of it, the downloader says
        return NO_HOST


def slot_name(slot: str) -> str:
    """Return the name of the slot that Scrapy calls *slot*: printable ASCII, without spaces, and not long.

    A host name is its own name. Different slots have different names.
    """
    if slot in ("", NO_HOST):
        return "%2D" if slot else NO_HOST
    name = quote(slot, safe=SAFE, errors="surrogatepass").replace("~", "%7E")
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(slot.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{name[: LONGEST - len(digest) - 1]}~{digest}"
