"""Base types: an instance of a subclass that equals its base type is stored as the base type.

JSON and MessagePack have no type for lxml's text, an ``IntEnum``, an ``OrderedDict`` or BeautifulSoup's
``NavigableString``. But each of these equals a value of a base type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_EXACT = frozenset({str, int, bool, float, bytes, type(None)})
#: How to read the value of each base type, even if a subclass overrides its methods.
_READ: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (list, lambda value: [to_base_types(item) for item in list.__iter__(value)]),
    (dict, lambda value: _dict_of(dict(dict.items(value)))),
)


def to_base_types(value: Any) -> Any:
    """Return *value* with each instance of a subclass replaced by an equal instance of its base type.

    The base types are str, int, float, bytes, list and dict. An instance that does not equal its base type
    is not replaced, and neither is any other object: the serializer refuses both.

    :return: *value* itself, if nothing was replaced.
    :raises RecursionError: if *value* contains itself.
    """
    kind = type(value)
    if kind in _EXACT:
        return value
    if kind is dict:
        return _dict_of(value)
    if kind is list:
        items = [to_base_types(item) for item in value]
        return items if any(map(_differs, items, value)) else value
    return _base_of(value)


def _dict_of(value: dict[Any, Any]) -> dict[Any, Any]:
    result, same = {}, True
    for key, item in value.items():
        base_key = key if type(key) in _EXACT else _key_of(key)
        base_item = item if type(item) in _EXACT else to_base_types(item)
        same = same and base_key is key and base_item is item
        result[base_key] = base_item
    return value if same else result


def _key_of(key: Any) -> Any:
    base = _base_of(key)
    # With another hash, the key could not be looked up any more.
    return base if base is not key and hash(base) == hash(key) else key


def _base_of(value: Any) -> Any:
    for kind, read in _READ:
        if isinstance(value, kind):
            base = read(value)
            return base if _equals(base, value) else value
    return value


def _equals(base: Any, value: Any) -> bool:
    try:
        return bool(base == value)
    except Exception:  # the user's comparison failed: the serializer refuses the value
        return False


def _differs(one: Any, other: Any) -> bool:
    return one is not other
