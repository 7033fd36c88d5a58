"""The items of a pool in a list or set of the user's own in Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..codec.pools import item_in
from ..codec.values import text_of
from ..errors import SettingError


def items_at(server: Any, key: str) -> Iterator[Any]:
    """Yield the items at *key*; none if it is empty.

    :raises SettingError: if it is neither a list nor a set, or if an element is not valid.
    """
    if not key:
        return
    kind = text_of(server.type(key))
    if kind == "list":
        found = server.lrange(key, 0, -1)
    elif kind == "set":
        found = sorted(server.smembers(key))
    elif kind == "none":
        found = []
    else:
        raise SettingError(
            f"FRONTIER_POOLS: key {key!r} has the items of a pool, and must be a list or a set, not a {kind}"
        )
    for element in found:
        try:
            yield item_in(text_of(element))
        except ValueError as error:
            raise SettingError(f"FRONTIER_POOLS: an element of key {key!r}: {error}") from None
