"""Turn a request into a dict of the fields that differ from ``Request``'s defaults, and back.

Scrapy's own ``request_from_dict`` can read the dict. Bytes that are text are stored as text if this restores
the same request, so that people can read a JSON entry in ``redis-cli``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Headers

from ..errors import (
    PayloadError,
    UnknownCallbackError,
    UnknownClassError,
    UnserializableRequestError,
    a_type,
    shown,
)
from . import log_safety
from .values import class_path

#: A field that makes two equal requests two members of a sorted set. Scrapy ignores it.
NONCE = "_nonce"

_PLAIN_FIELDS = ("meta", "cb_kwargs", "flags", "cookies")
_KNOWN_FIELDS = frozenset(Request.attributes) | {"_class", NONCE}
_SET_BY_REQUEST = frozenset(getattr(Request("data:,"), "__dict__", {}))
# Types that Request does not check, or misinterprets.
_TYPES: dict[str, type | tuple[type, ...]] = {
    "url": str,
    "method": str,
    "headers": (dict, list),
    "body": (str, bytes),
    "cookies": (dict, list),
    "meta": dict,
    "cb_kwargs": dict,
    "flags": list,
    "priority": int,
    "dont_filter": bool,
    "encoding": str,
}


def request_to_dict(request: Request, spider: Spider, nonce: str | None = None) -> dict[str, Any]:
    """Return *request* as a dict, without the fields that have their default.

    :param nonce: a unique text, to distinguish this request from an equal request.
    :raises UnserializableRequestError: if its callback or errback is not a method of *spider*, or if it has
        an attribute that would not be restored.
    """
    url = request.url
    data: dict[str, Any] = {"url": url}
    # A request that a worker would refuse is not stored. Some encodings give plain text unsafe bytes.
    is_plain = url.isprintable() and request.encoding == "utf-8"
    for field in ("callback", "errback"):
        function = getattr(request, field)
        if function is not None:
            data[field] = _method_name(spider, field, function)
    if request.method != "GET":
        if request.method != str(request.method).upper():
            raise UnserializableRequestError(f"method is {shown(request.method)}, which Request would change")
        data["method"] = request.method
        is_plain = False
    if request.headers:
        data["headers"] = headers = _headers_to_dict(request)
        is_plain = is_plain and log_safety.are_plain(headers)
    if request.body:
        data["body"] = _text_or_bytes(request.body, request.encoding)
    for field in _PLAIN_FIELDS:
        value = getattr(request, field)
        if value:
            if not isinstance(value, _TYPES[field]):
                raise UnserializableRequestError(_wrong_type(field, value))
            data[field] = value
    problem = _unsafe(data.get("meta", {}))
    if not problem and (not is_plain or "cookies" in data or "cb_kwargs" in data):
        problem = log_safety.problem_of(request)
    if problem:
        raise UnserializableRequestError(problem)
    if not isinstance(request.priority, int):
        raise UnserializableRequestError(_wrong_type("priority", request.priority))
    if request.priority:
        data["priority"] = request.priority
    if request.dont_filter:
        data["dont_filter"] = True
    if request.encoding != "utf-8":
        data["encoding"] = request.encoding
    if type(request) is not Request:
        _add_subclass_fields(request, data)
    if type(request) is not Request or request.encoding != "utf-8" or _own_attributes(request):
        # The class, or escaping the URL in this encoding, may change a field.
        _check_unchanged(request, request_from_dict(data, spider))
    if nonce is not None:
        data[NONCE] = nonce
    return data


def request_from_dict(data: Any, spider: Spider) -> Request:
    """Return the request that *data* describes, with the callbacks of *spider*.

    The function makes only objects of ``Request`` classes that were already imported, and uses only methods
    of the spider as callbacks. So data in Redis cannot make a worker run other code.

    :raises PayloadError: if *data* does not describe a request.
    :raises UnknownCodeError: if *data* names a callback or a class that *spider* lacks.
    """
    if not isinstance(data, dict):
        raise PayloadError(f"it must be a dict with a url, not {a_type(type(data))}")
    if not isinstance(data.get("url"), str):
        raise PayloadError(_wrong_type("url", data.get("url")))
    cls = _request_class(data["_class"]) if "_class" in data else Request
    known = _KNOWN_FIELDS if cls is Request else _KNOWN_FIELDS.union(cls.attributes)
    if not known.issuperset(data):
        # Ignoring a field would change the request.
        raise PayloadError(f"unknown fields {sorted(map(str, data.keys() - known))}")
    for field, types in _TYPES.items():
        if field in data and not isinstance(data[field], types):
            raise PayloadError(_wrong_type(field, data[field]))
    has_plain_headers = "headers" not in data
    if not has_plain_headers:
        has_plain_headers = log_safety.are_plain(data["headers"]) and "encoding" not in data
        if not has_plain_headers:
            _check_headers(data["headers"])
    problem = _unsafe(data.get("meta", {}))
    if problem:
        raise PayloadError(problem)
    kwargs = {name: value for name, value in data.items() if name in cls.attributes}
    for field in ("callback", "errback"):
        if kwargs.get(field) is not None:
            kwargs[field] = find_callback(spider, kwargs[field])
    try:
        made = cls(**kwargs)
    except Exception as error:  # a Request class may raise anything
        raise PayloadError(f"{type(error).__name__}: {error}") from error
    problem = ""
    if not data["url"].isprintable():  # Request escapes most of it
        problem = log_safety.of_url(made.url)
    if "method" in data:
        problem = problem or log_safety.of_method(made.method)
    if not has_plain_headers:
        problem = problem or log_safety.of_headers(made.headers)
    if "cookies" in data:
        problem = problem or log_safety.of_cookies(data["cookies"])
    if "cb_kwargs" in data:
        problem = problem or log_safety.of_arguments(data["cb_kwargs"])
    if problem:
        raise PayloadError(problem)
    return made


def _wrong_type(field: str, value: Any) -> str:
    types = _TYPES[field]
    allowed = types if isinstance(types, tuple) else (types,)
    return f"{field} must be {a_type(*allowed)}, not {a_type(type(value))}"


def find_callback(spider: Spider, name: Any) -> Callable[..., Any]:
    """Return the method of *spider* called *name*.

    :raises UnknownCallbackError: if *spider* has no such method, or if it is a private method of ``Spider``.
    """
    method = _method(spider, name) if isinstance(name, str) else None
    if method is None:
        raise UnknownCallbackError(f"spider {spider.name!r} has no callback {name!r}")
    return method


def _method(spider: Spider, name: str) -> Callable[..., Any] | None:
    inner = name.startswith("_") and hasattr(Spider, name)
    if inner or (name.startswith("__") and name.endswith("__")):
        return None
    attribute = _attribute(spider, name)
    # isroutine() is also true for a cached property, which cannot be called.
    if not (inspect.isroutine(attribute) and callable(attribute)):
        return None
    method = getattr(spider, name)
    return method if inspect.ismethod(method) and method.__self__ is spider else None


def _attribute(spider: Spider, name: str) -> Any:
    # Like inspect.getattr_static, in a tenth of its time. getattr() would run the code of a property.
    for cls in type(spider).__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    return vars(spider).get(name)


def _method_name(spider: Spider, field: str, function: Any) -> str:
    name: str | None = getattr(function, "__name__", None)
    if name is not None and getattr(function, "__self__", None) is spider:
        if _method(spider, name) == function:
            return name
        # The spider may have the method under another name, for example because of a decorator.
        for known in dir(spider):
            if _method(spider, known) == function:
                return known
    raise UnserializableRequestError(f"{field} {shown(function)} is not a method of the spider")


def _text_or_bytes(value: bytes, encoding: str) -> str | bytes:
    try:
        text = value.decode(encoding)
        return text if text.encode(encoding) == value and bool(text) == bool(value) else value
    except (UnicodeError, LookupError):
        return value


def _headers_to_dict(request: Request) -> dict[Any, Any]:
    if not isinstance(request.headers, Headers):  # assigned by the user; newer versions of Scrapy convert it
        raise UnserializableRequestError(
            f"headers must be a Headers object, not {a_type(type(request.headers))}"
        )
    headers: dict[Any, Any] = {}
    for name, values in dict.items(request.headers):
        texts = [_text_or_bytes(value, request.encoding) for value in values]
        text = _text_or_bytes(name, request.encoding)
        if text != text.title():
            # Headers converts names to title case, which differs for text and for bytes.
            text = name
            if name != name.title():
                raise UnserializableRequestError(f"headers has the name {name!r}, which Headers would change")
        headers[text] = texts[0] if len(texts) == 1 else texts
    return headers


def _unsafe(meta: dict[Any, Any]) -> str:
    """Return the problem with a key in *meta* by which Scrapy would write a file or run code; or ``""``."""
    if "ftp_local_filename" in meta:
        return "meta['ftp_local_filename'] would make Scrapy write a file"
    if "." in str(meta.get("referrer_policy", "")):
        return "meta['referrer_policy'] would make Scrapy import and call the object that it names"
    if "download_slot" in meta or "proxy" in meta or "bindaddress" in meta:
        return log_safety.of_meta(meta)
    return ""


def _check_headers(headers: Any) -> None:
    pairs = headers.items() if isinstance(headers, dict) else headers
    for pair in pairs:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2):
            raise PayloadError("headers must be a dict, or a list of pairs")
        if not isinstance(pair[0], (str, bytes)):
            raise PayloadError(f"the name of a header must be a str, not {a_type(type(pair[0]))}")
        values = pair[1] if isinstance(pair[1], (list, tuple)) else [pair[1]]
        for value in values:
            if value is not None and not isinstance(value, (str, bytes, int)):
                raise PayloadError(
                    f"header {pair[0]!r} must be a str, bytes or an int, not {a_type(type(value))}"
                )


def _check_unchanged(request: Request, back: Request) -> None:
    for field in request.attributes:
        if getattr(request, field) != getattr(back, field):
            value = shown(getattr(request, field))
            raise UnserializableRequestError(f"{field} would not be restored as {value}")
    before, after = _own_attributes(request), _own_attributes(back)
    for name in before.keys() | after.keys():
        if not (name in before and name in after and _is_equal(before[name], after[name])):
            raise UnserializableRequestError(
                f"the attribute {name!r} of {type(request).__name__} would not be restored. The class must "
                "list it in its 'attributes', and accept it as an argument"
            )


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # the user's comparison failed: the value counts as changed
        return False


def _own_attributes(request: Request) -> dict[str, Any]:
    """Return the attributes of *request* that ``Request`` does not define."""
    # Before Scrapy 2.19, a Request has a __dict__ with the attributes that __init__ sets.
    own = {
        name: value for name, value in getattr(request, "__dict__", {}).items() if name not in _SET_BY_REQUEST
    }
    for cls in type(request).__mro__[: -len(Request.__mro__)]:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{cls.__name__.lstrip('_')}{slot}" if slot[:2] == "__" != slot[-2:] else slot
            if hasattr(request, name):
                own[name] = getattr(request, name)
    return own


def _add_subclass_fields(request: Request, data: dict[str, Any]) -> None:
    cls = type(request)
    data["_class"] = class_path(cls)
    if _find_class(data["_class"]) is not cls:
        raise UnserializableRequestError(
            f"class {data['_class']} must be defined at the top level of a module"
        )
    # A subclass may have other defaults than Request (JsonRequest: POST), so these fields are always stored.
    for field in ("method", "priority", "dont_filter", "encoding"):
        data[field] = getattr(request, field)
    for field in cls.attributes:
        if field not in Request.attributes:
            data[field] = getattr(request, field)


def _request_class(path: Any) -> type[Request]:
    cls = _find_class(path)
    if not (inspect.isclass(cls) and issubclass(cls, Request)):
        error = UnknownClassError if cls is None and _names_a_class(path) else PayloadError
        raise error(f"_class {path!r} is not a Request class that the spider has imported")
    return cls


def _names_a_class(path: Any) -> bool:
    """Return whether *path* may be the path of a class that only another worker has."""
    parts = path.split(".") if isinstance(path, str) else []
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def _find_class(path: Any) -> Any:
    if not isinstance(path, str):
        return None
    module, _, name = path.rpartition(".")
    # Neither importing the module nor calling its __getattr__: data in Redis must not make code run.
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)
