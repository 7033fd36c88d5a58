"""A request as a dict of the fields that differ from ``Request``'s defaults, and back.

The dict is one that Scrapy's own ``request_from_dict`` understands. Text is kept as text where
that gives the same request back, so that a JSON entry can be read in ``redis-cli``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider

from .errors import PayloadError, UnknownCallbackError, UnserializableRequestError

#: Makes two otherwise equal requests two members of a sorted set. Scrapy ignores the field.
NONCE = "_nonce"

_PLAIN_FIELDS = ("meta", "cb_kwargs", "flags", "cookies")
_KNOWN_FIELDS = frozenset(Request.attributes) | {"_class", NONCE}


def request_to_dict(request: Request, spider: Spider, nonce: str | None = None) -> dict[str, Any]:
    """Return *request* as a dict, without the fields that have their default.

    :param nonce: what tells this request from an equal one, if there may be one.
    :raises UnserializableRequestError: if its callback or errback is not a method of *spider*.
    """
    data: dict[str, Any] = {"url": request.url}
    for field in ("callback", "errback"):
        function = getattr(request, field)
        if function is not None:
            data[field] = _method_name(spider, field, function)
    if request.method != "GET":
        data["method"] = request.method
    if request.headers:
        data["headers"] = _headers_to_dict(request)
    if request.body:
        data["body"] = _text_or_bytes(request.body, request.encoding)
    for field in _PLAIN_FIELDS:
        value = getattr(request, field)
        if value:
            data[field] = value
    if request.priority:
        data["priority"] = request.priority
    if request.dont_filter:
        data["dont_filter"] = True
    if request.encoding != "utf-8":
        data["encoding"] = request.encoding
    if type(request) is not Request:
        _add_subclass_fields(request, data)
    if nonce is not None:
        data[NONCE] = nonce
    return data


def request_from_dict(data: Any, spider: Spider) -> Request:
    """Return the request that *data* describes, with the callbacks of *spider*.

    Only a class that is a ``Request`` and is imported already is made, and only methods of the
    spider become callbacks: what is in Redis cannot have other code run.

    :raises PayloadError: if *data* does not describe a request.
    :raises UnknownCallbackError: if *spider* lacks a callback that it names.
    """
    if not isinstance(data, dict) or not isinstance(data.get("url"), str):
        raise PayloadError(f"not a dict with a url, but {type(data).__name__}")
    cls = _request_class(data["_class"]) if "_class" in data else Request
    known = _KNOWN_FIELDS if cls is Request else _KNOWN_FIELDS.union(cls.attributes)
    if not known.issuperset(data):
        # Left out without a word, a field would change the request.
        raise PayloadError(f"unknown fields {sorted(map(str, data.keys() - known))}")
    kwargs = {name: value for name, value in data.items() if name in cls.attributes}
    for field in ("callback", "errback"):
        if kwargs.get(field) is not None:
            kwargs[field] = find_callback(spider, kwargs[field])
    try:
        return cls(**kwargs)
    except Exception as error:  # a Request class may raise anything
        raise PayloadError(f"{type(error).__name__}: {error}") from error


def find_callback(spider: Spider, name: Any) -> Callable[..., Any]:
    """Return the method of *spider* called *name*.

    :raises UnknownCallbackError: if there is none, or if it is one of ``Spider``'s own inner ones.
    """
    method = getattr(spider, name, None) if isinstance(name, str) else None
    inner = isinstance(name, str) and name.startswith("_") and hasattr(Spider, name)
    if inner or not inspect.ismethod(method) or method.__self__ is not spider:
        raise UnknownCallbackError(f"spider {spider.name!r} has no callback {name!r}")
    return method


def _method_name(spider: Spider, field: str, function: Any) -> str:
    name: str | None = getattr(function, "__name__", None)
    if name is not None and getattr(function, "__self__", None) is spider:
        if getattr(spider, name, None) == function:
            return name
        # A method that the spider also has under another name, as a decorator may leave it.
        for other, method in inspect.getmembers(spider, inspect.ismethod):
            if method == function:
                return other
    raise UnserializableRequestError(f"{field} {function!r} is not a method of the spider")


def _text_or_bytes(value: bytes, encoding: str) -> str | bytes:
    try:
        text = value.decode(encoding)
        return text if text.encode(encoding) == value else value
    except (UnicodeError, LookupError):
        return value


def _headers_to_dict(request: Request) -> dict[Any, Any]:
    headers: dict[Any, Any] = {}
    for name, values in request.headers.items():
        texts = [_text_or_bytes(value, request.encoding) for value in values]
        headers[_text_or_bytes(name, request.encoding)] = texts[0] if len(texts) == 1 else texts
    return headers


def _add_subclass_fields(request: Request, data: dict[str, Any]) -> None:
    cls = type(request)
    data["_class"] = f"{cls.__module__}.{cls.__qualname__}"
    if _find_class(data["_class"]) is not cls:
        raise UnserializableRequestError(f"class {data['_class']} is not at the top of a module")
    # A subclass may have defaults of its own (JsonRequest: POST), so what Request leaves out
    # has to be said.
    data["method"] = request.method
    for field in cls.attributes:
        if field not in Request.attributes:
            data[field] = getattr(request, field)


def _request_class(path: Any) -> type[Request]:
    cls = _find_class(path)
    if not (inspect.isclass(cls) and issubclass(cls, Request)):
        raise PayloadError(f"_class {path!r} is not a Request class that the spider has imported")
    return cls


def _find_class(path: Any) -> Any:
    module, _, name = str(path).rpartition(".")
    # Not imported on Redis's word: to import a module is to run it.
    return getattr(sys.modules.get(module), name, None)
