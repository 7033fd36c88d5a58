"""Make requests from seeds. A seed is a URL, or a JSON object with fields of ``Request``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy import FormRequest, Request, Spider

from ..errors import PayloadError, SeedError, UnknownCodeError, a_type
from . import json_bounds, log_safety, request
from .groups import followed_by
from .needs import needs_of

#: The fields of a JSON seed, each with its possible types.
FIELDS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "method": (str,),
    "headers": (dict, list),
    "body": (str,),
    "cookies": (dict, list),
    "meta": (dict,),
    "cb_kwargs": (dict,),
    "callback": (str,),
    "errback": (str,),
    "priority": (int,),
    "dont_filter": (bool,),
    "encoding": (str,),
    "flags": (list,),
}

#: Fields of a seed that are not fields of the form, with FRONTIER_SEED_FORM_DATA.
_NOT_OF_A_FORM = frozenset({"url", "method", "meta"})

_URL_FIRST = re.compile(rb'\s*\{\s*"url"\s*:\s*("(?:[^"\\]|\\.)*")')


#: Schemes for which a URL must have a host.
_SCHEMES_WITH_HOST = ("http", "https", "ftp", "s3")


def request_from_seed(
    data: bytes, spider: Spider, encoding: str = "utf-8", form_data: bool = False
) -> Request:
    """Return the request for a seed.

    The request is not filtered as a duplicate, unless the seed has ``"dont_filter": false``.

    :param data: the seed, as it is in Redis.
    :param encoding: the encoding of the seed (``REDIS_ENCODING``).
    :param form_data: whether fields besides ``url``, ``method`` and ``meta`` are form data, as in
        scrapy-redis (``FRONTIER_SEED_FORM_DATA``).
    :raises SeedError: if the seed is not valid. The message gives the reason.
    :raises UnknownCodeError: if the seed names a callback that *spider* lacks.
    """
    try:
        text = data.decode(encoding).strip()
    except UnicodeError as error:
        raise SeedError(f"not text in {encoding}: {error}") from error
    fields = _fields_of(text, form_data) if text.startswith("{") else {"url": text}
    form = {name: value for name, value in fields.items() if form_data and name not in _NOT_OF_A_FORM}
    fields = {name: value for name, value in fields.items() if name not in form}
    try:
        made = request.request_from_dict({"dont_filter": True, **fields}, spider)
        if form_data:
            made = FormRequest(made.url, method=made.method, meta=made.meta, formdata=form, dont_filter=True)
    except (PayloadError, TypeError, ValueError) as error:  # a value may have a type that a form cannot have
        raise SeedError(str(error)) from error
    try:
        parts = urlsplit(made.url)
    except ValueError as error:  # with the meta key verbatim_url, Scrapy accepts any text
        raise SeedError(f"url {fields['url']!r} is not valid: {error}") from error
    if not parts.scheme:
        raise SeedError(f"url {fields['url']!r} has no scheme")
    if parts.scheme in _SCHEMES_WITH_HOST and not parts.hostname:
        raise SeedError(f"url {fields['url']!r} has no host")
    try:
        needs_of(made)
        followed_by(made)
    except ValueError as error:
        raise SeedError(str(error)) from error
    return made


def requests_of_seed(
    data: bytes, spider: Spider, encoding: str, form_data: bool = False
) -> Iterator[Request]:
    """Yield the requests of a seed, made by the spider's ``make_request_from_data`` if it has one.

    If that method returns None, the seed has no requests.

    :raises SeedError: if the seed is not valid. The message gives the reason.
    :raises UnknownCodeError: if the seed names a callback that *spider* lacks.
    """
    make = getattr(spider, "make_request_from_data", None)
    if make is None:
        yield request_from_seed(data, spider, encoding, form_data)
        return
    try:
        made = make(data)
        for item in made if isinstance(made, Iterable) else [] if made is None else [made]:
            if not isinstance(item, Request):
                raise SeedError(f"make_request_from_data must return requests, not {a_type(type(item))}")
            problem = log_safety.problem_of(item)
            if problem:
                raise SeedError(problem)
            yield item
    except (SeedError, UnknownCodeError):
        raise
    except Exception as error:  # the user's code may raise anything; the seed is set aside
        raise SeedError(f"make_request_from_data raised {type(error).__name__}: {error}") from error


def _fields_of(text: str, form_data: bool) -> dict[str, Any]:
    try:
        fields = json_bounds.loads(text)
    except (ValueError, RecursionError) as error:
        raise SeedError(f"not JSON: {error}") from error
    if "url" not in fields:
        raise SeedError("it has no url")
    for name, value in fields.items():
        if form_data and name not in _NOT_OF_A_FORM:
            continue
        if name not in FIELDS:
            raise SeedError(f"unknown field {name!r}. The known fields are {', '.join(FIELDS)}")
        if not isinstance(value, FIELDS[name]) or (isinstance(value, bool) and name != "dont_filter"):
            raise SeedError(f"{name} must be {a_type(*FIELDS[name])}, not {a_type(type(value))}")
    return dict(fields)


def url_of_seed(text: str) -> str:
    """Return the URL in a seed; empty if the seed cannot be read."""
    if not text.startswith("{"):
        return text
    try:
        return url_in(json_bounds.loads(text))
    except (ValueError, RecursionError):
        return ""


def url_at_beginning(data: bytes) -> str:
    """Return the URL in the beginning of a JSON object; empty if it is not the first field, or is cut."""
    found = _URL_FIRST.match(data)
    try:
        return url_in({"url": json_bounds.loads(found[1])}) if found else ""
    except ValueError:
        return ""


def url_in(fields: Any) -> str:
    """Return the URL in a request's or a seed's dict; empty if it has no URL."""
    url = fields.get("url") if isinstance(fields, dict) else None
    return url if isinstance(url, str) else ""
