"""What a request is given with the items that it has: a proxy, cookies, headers; and how it loses that again.

A retry, a redirect, and a request that a callback makes of its page's request have it, too. It is taken from
them before they are stored: they are crawled with another item, and much of it is secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from scrapy import Request

from ..codec.pools import GIVEN, POOL, POOL_ITEM, Pool, PoolItem, proxy_of

#: The fields that Scrapy's middleware makes of a proxy.
_FIELDS = ("_auth_proxy", "_scheme_proxy")

#: The fields that callbacks pass on to other requests.
_PASSED_ON = ("proxy", "cookiejar")


class Gifts:
    """Give requests what the items of *pools* are for, and take it from the copies of these requests.

    :ivar keeps_cookies: whether Scrapy's ``CookiesMiddleware`` makes the header ``Cookie`` anew.
    """

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools
        self._has_proxies = any(pool.kind == "proxy" for pool in pools.values())
        # The headers that were given, of which code of the spider may have made copies.
        self._headers: dict[str, set[bytes]] = {}
        # The same for the fields of meta.
        self._fields: dict[str, set[str]] = {}
        # Those that a request without a pool gets, too, or that it must not have.
        self._always = {name for pool in pools.values() if pool.is_for_worker for name in pool.headers}
        self._always |= {
            name for pool in pools.values() for name in pool.headers if name.lower() == "authorization"
        }
        self.keeps_cookies = False

    def give(self, request: Request, items: Iterable[PoolItem]) -> None:
        """Give *request* what *items* are for, at least one. What it has already counts; then the first item.

        :raises ValueError: if an item lacks what its pool's settings need.
        """
        meta, headers = list[str](), list[str]()
        items = list(items)
        request.meta[GIVEN] = {"meta": meta, "headers": headers, "pools": [item.pool for item in items]}
        request.meta[POOL_ITEM] = items[0]
        for item in items:
            pool = self._pools.get(item.pool, Pool(item.pool))
            for name, value in self._fields_for(pool, item).items():
                if name not in request.meta:
                    request.meta[name] = value
                    if name in _PASSED_ON:
                        self._fields.setdefault(name, set()).add(value)
                    meta.append(name)
            # A key that one site is to have must not go to another, to which it redirects.
            for name, template in () if _has_changed_host(request) else pool.headers.items():
                value = pool.filled(template, item)
                request.headers[name] = value
                self._headers.setdefault(name, set()).add(value.encode())
                headers.append(name)
        if not request.meta.get("dont_merge_cookies"):
            headers.append("Cookie")
        if "proxy" in meta:
            meta.extend(_FIELDS)
            headers.append("Proxy-Authorization")

    def _fields_for(self, pool: Pool, item: PoolItem) -> dict[str, str]:
        """Return the fields of ``meta`` that *item* is for."""
        fields: dict[str, str] = {}
        if pool.kind == "proxy":
            fields["proxy"] = proxy_of(item.value)
        for name, template in pool.meta.items():
            fields[name] = pool.filled(template, item)
        if pool.kind == "cookiejar" or pool.keeps_cookies:
            fields.setdefault("cookiejar", jar_of(item))
        return fields

    def take_back(self, request: Request) -> bool:
        """Take from *request* what the request that it was copied from was given.

        :return: whether it has chosen an item, which is taken from it, too.
        """
        meta, headers = request.meta, request.headers
        given, item = meta.pop(GIVEN, None), meta.get(POOL_ITEM)
        if isinstance(given, dict):
            for name in given.get("meta", ()):
                meta.pop(name, None)
            for name in given.get("headers", ()):
                headers.pop(name, None)
        if given is not None or isinstance(item, PoolItem):
            meta.pop(POOL_ITEM, None)
        if meta.get(POOL) is not None:
            # A callback has passed on fields of its page's meta, and this request has another item.
            for name, values in self._fields.items():
                if isinstance(value := meta.get(name), str) and value in values:
                    del meta[name]
        if headers and self._pools:
            self._take_headers(request)
        return given is None and isinstance(item, PoolItem)

    def _take_headers(self, request: Request) -> None:
        """Take the headers from a copy with another ``meta``, which does not tell what was given."""
        has_pool = request.meta.get(POOL) is not None
        for name, values in self._headers.items():
            if (has_pool or name in self._always) and request.headers.get(name) in values:
                request.headers.pop(name)
        if self.keeps_cookies and not request.meta.get("dont_merge_cookies"):
            request.headers.pop("Cookie", None)
        if self._has_proxies and "proxy" not in request.meta:
            request.headers.pop("Proxy-Authorization", None)


def jar_of(item: PoolItem) -> str:
    """Return the key in ``meta["cookiejar"]`` of the cookies of *item*."""
    return f"{item.pool}/{item}"


def _has_changed_host(request: Request) -> bool:
    """Return whether *request* is the redirect of a request to another host, or is no longer encrypted."""
    first = urlsplit((request.meta.get("redirect_urls") or [request.url])[0])
    its = urlsplit(request.url)
    return bool(first.netloc != its.netloc) or (first.scheme, its.scheme) == ("https", "http")
