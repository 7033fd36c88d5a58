"""The fields of a request, hostile and not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from .hostile import numbers, texts, values

GOOD = "http://graph.test/1"
#: Keys of ``meta`` that Scrapy or this package reads.
META = (
    "download_slot",
    "download_timeout",
    "download_maxsize",
    "download_delay",
    "verbatim_url",
    "referrer_policy",
    "proxy",
    "cookiejar",
    "depth",
    "dont_merge_cookies",
    "max_retry_times",
    "handle_httpstatus_list",
    "http_user",
    "ftp_local_filename",
    "ftp_user",
    "bindaddress",
    "is_start_request",
    "redirect_urls",
    "frontier",
    "_class",
)


def urls() -> st.SearchStrategy[str]:
    """Return URLs: good ones, and hostile texts in each part of one."""
    scheme = st.sampled_from(["http", "https", "file", "data", "ftp", "s3", "javascript", "HTTP", "x", ""])
    host = st.one_of(st.sampled_from(["graph.test", "[::1]", "[", "a:99999", "u:p@h", ""]), texts(6))
    good = st.integers(0, 10**6).map("http://graph.test/{}".format)
    return st.one_of(good, st.builds("{}://{}/{}".format, scheme, host, texts()), texts())


def headers() -> st.SearchStrategy[Any]:
    """Return headers, as a dict or as pairs."""
    names = st.one_of(st.sampled_from(["Referer", "Cookie", "Host", "Content-Length", "X-A"]), texts(5))
    some = st.one_of(texts(), st.none(), st.integers(-1, 10), st.lists(texts(), max_size=2))
    whole = st.dictionaries(names, some, min_size=1, max_size=3)
    return st.one_of(whole, whole, st.lists(st.tuples(names, some).map(list), max_size=2))


def meta() -> st.SearchStrategy[Any]:
    """Return ``meta``."""
    keys = st.one_of(st.sampled_from(META), texts(5))
    return st.dictionaries(keys, st.one_of(st.just(True), texts(), values()), max_size=3)


def cookies() -> st.SearchStrategy[Any]:
    """Return cookies, as a dict or as a list of dicts."""
    fields = st.sampled_from(["name", "value", "domain", "path", "secure"])
    whole = st.dictionaries(fields, st.one_of(texts(), values()), max_size=4)
    return st.one_of(st.dictionaries(texts(4), texts(), max_size=2), st.lists(whole, max_size=2), values())


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "url": urls(),
    "method": st.one_of(st.sampled_from(["GET", "POST", "get", "PUT"]), texts(5)),
    "headers": headers(),
    "body": texts(),
    "cookies": cookies(),
    "meta": meta(),
    "cb_kwargs": st.dictionaries(texts(4), values(), max_size=2),
    "callback": st.one_of(st.sampled_from(["parse", "other", "nowhere", "__init__", "_parse"]), texts(5)),
    "errback": st.one_of(st.sampled_from(["failed", "nowhere"]), texts(5)),
    "priority": st.one_of(st.integers(), numbers()),
    "dont_filter": st.booleans(),
    "encoding": st.one_of(st.sampled_from(["utf-8", "latin-1", "utf-16", "idna", "hex", "rot13"]), texts(5)),
    "flags": st.lists(texts(), max_size=2),
    "_class": st.one_of(
        st.sampled_from(["scrapy.http.request.form.FormRequest", "scrapy.Request", "os.system"]), texts(5)
    ),
}


#: Fields that a seed may have.
OF_SEEDS = tuple(name for name in FIELDS if name not in ("url", "_class"))


@st.composite
def requests(draw: st.DrawFn, names: Sequence[str] = OF_SEEDS) -> dict[str, Any]:
    """Return the fields of a request: most are of the type that they must have, and most requests are valid.

    :param names: of the fields besides the URL.
    """
    fields: dict[str, Any] = {"url": draw(st.one_of(*[st.just(GOOD)] * 3, urls()))}
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3]))):
        name = draw(st.sampled_from(names))
        fields[name] = draw(FIELDS[name])
    if draw(st.integers(0, 15)) == 0:
        fields[draw(st.one_of(st.sampled_from([*FIELDS]), texts(5)))] = draw(values())
    return fields
