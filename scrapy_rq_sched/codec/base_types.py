"""Values as their base types: a subclass that equals its base type is stored as the base type.

Text that lxml returns, an ``IntEnum``, an ``OrderedDict`` or BeautifulSoup's ``NavigableString`` are of no
type that JSON or MessagePack has, and equal to one that they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_EXACT = frozenset({str, int, bool, float, bytes, type(None)})
#: How each base type reads its own value, whatever a subclass has made of its methods.
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
    stays as it is, and so does any other object: the serializer refuses both.

    :return: *value* itself, if there is nothing to replace.
    :raises RecursionError: if *value* holds itself.
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
    # A key that is found by another hash would not be found again.
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
    except Exception:  # the comparison is the user's code: what it cannot compare is refused by its type
        return False


def _differs(one: Any, other: Any) -> bool:
    return one is not other
