"""Name the slot of a request so that the name can be part of a Redis key."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

#: Characters that stay unescaped in a name, besides those that :func:`urllib.parse.quote` never escapes. None
#: of them is a separator in a lease, a wildcard of ``redis-cli keys``, or the beginning of a hash tag.
SAFE = "!$&()+,/:;="
#: The longest name, in characters. ``meta["download_slot"]`` may come from a page.
LONGEST = 200
#: The name of the slot of requests without a host, such as ``data:,``. No host has this name.
NO_HOST = "-"


class AssignedSlot(str):
    """A slot that the downloader has written into ``meta["download_slot"]``, and not the user.

    Redirects and requests with ``meta=response.meta`` inherit it, although it is another host's slot.
    As text it is like any other, and copies of ``meta`` keep the class.
    """

    __slots__ = ()

    def __copy__(self) -> AssignedSlot:
        return self

    def __deepcopy__(self, memo: object) -> AssignedSlot:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # a pickle needs nothing of this package


def forget_assigned_slot(request: Request) -> None:
    """Remove a slot from *request* that the downloader has assigned to it or to the request it comes from."""
    if isinstance(request.meta.get("download_slot"), AssignedSlot):
        del request.meta["download_slot"]


def slot_of(request: Request) -> str:
    """Return the name of *request*'s slot, by Scrapy's rule: ``meta["download_slot"]``, or else the host.

    This is the rule of ``Downloader.get_slot_key``, without ``CONCURRENT_REQUESTS_PER_IP``. A slot that the
    downloader has assigned does not count.
    """
    slot = request.meta.get("download_slot")
    if slot is not None and not isinstance(slot, AssignedSlot):
        return slot_name(str(slot))
    try:
        return slot_name(urlparse_cached(request).hostname or "")
    except ValueError:  # not a valid URL, such as http://[::1: its download will fail
        return NO_HOST


def slot_name(slot: str) -> str:
    """Return the name of Scrapy's *slot*: printable ASCII without spaces, of limited length.

    The name of a host's slot is the host name. Different slots have different names.
    """
    if slot in ("", NO_HOST):
        return "%2D" if slot else NO_HOST
    name = quote(slot, safe=SAFE, errors="surrogatepass").replace("~", "%7E")
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(slot.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{name[: LONGEST - len(digest) - 1]}~{digest}"
