"""Store a request with any serializer so that it is restored unchanged, or refuse it."""

from __future__ import annotations

from typing import Any

from ..codec.base_types import to_base_types
from ..errors import PayloadError, UnserializableRequestError
from . import Serializer, blame, serializer_name


def dump(serializer: Serializer, obj: dict[str, Any]) -> bytes:
    """Return *obj* as bytes from which ``load`` restores an equal object.

    If *serializer* refuses or would change *obj*, the function tries again with base types that equal its
    values.

    :raises UnserializableRequestError: if this fails as well.
    """
    try:
        return _dump(serializer, obj)
    except UnserializableRequestError as refusal:
        try:
            as_base_types = to_base_types(obj)
        except RecursionError:
            raise refusal from None
        if as_base_types is obj:
            raise
    return _dump(serializer, as_base_types)


def _dump(serializer: Serializer, obj: dict[str, Any]) -> bytes:
    if getattr(serializer, "faithful", False):
        return bytes(serializer.dumps(obj))
    try:
        written = serializer.dumps(obj)
        written = written.encode() if isinstance(written, str) else bytes(written)
        same = _same(serializer.loads(written), obj)
    except Exception as error:  # any serializer's code may raise anything; the request stays in memory
        raise UnserializableRequestError(blame(serializer.dumps, obj, error)) from error
    if not same:
        raise UnserializableRequestError("the serializer does not return it unchanged")
    return written


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return _same([*one.items()], [*other.items()])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def load(serializer: Serializer, data: bytes) -> Any:
    """Return the object in *data*.

    :raises PayloadError: if *serializer* cannot read *data*.
    """
    try:
        return serializer.loads(data)
    except Exception as error:  # a serializer may raise anything; the entry is set aside
        raise PayloadError(f"not {serializer_name(serializer)}: {error}") from error
