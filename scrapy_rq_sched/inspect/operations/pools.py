"""Add items to a pool (``FRONTIER_POOLS``), remove them, let one rest, or retire it.

An item may be secret: no message shows more of it than its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from ...codec.names import quoted
from ...codec.pools import LONGEST_REST, Pool, entries, item_in, name_of, proxy_of, quoted_pool
from ...errors import InspectionError, SettingError, frontier_command, one_line, shown
from ...frontier.pool_key import items_at
from ...frontier.scripts import register
from ..pools import Item, Pools
from ..view import View
from ..wording import counted
from .operation import Mood, Operation

T = TypeVar("T")

#: Items in one operation, at most; in one call of the script; and how many of them a sentence names.
MOST, STEP, NAMED = 10_000, 200, 10
#: Characters of a reason, at most.
LONGEST_REASON = 200
#: The reason if an operator gives none.
NO_REASON = "an operator wants it"
#: The name of an item of the kind key: see ``codec/pools.py``.
_KEY = re.compile(r"key-[0-9a-f]{8}")


class _Entry(NamedTuple):
    """An item to add: its name, value and limits in Redis. Without a value, it is there, and keeps it."""

    name: str
    value: str = ""
    limits: str = ""


def add_items(view: View, name: str, texts: Sequence[str]) -> Operation:
    """Add items to the pool *name*. An item that is there is used again, and no longer rests or is retired.

    :param texts: the items, each a text or a JSON object; or the name of an item that is there, or that the
        settings have. The count is that of the items.
    :raises InspectionError: if an item is not valid. The message shows nothing of it.
    """
    pools = Pools(view)
    pool = _pool(view, pools, name)
    known = set(pools.items_of(pool.wire_name))
    if not 0 < len(texts) <= MOST:
        raise InspectionError(f"Give 1 to {MOST:,} items, not {len(texts):,}")
    of_settings = _of_settings(view, pool)
    found: dict[str, _Entry] = {}
    for number, text in enumerate(texts, 1):
        try:
            entry = _entry(pool, text, known, of_settings)
        except ValueError as error:
            which = f"Item {number:,} of {len(texts):,}" if len(texts) > 1 else "The item"
            raise InspectionError(
                f"{which} is refused, and nothing is added: {error}. It is not shown here"
            ) from None
        if entry.name in found:
            raise InspectionError(
                f"Nothing is added: two of the items are named {shown_name(entry.name)}. Give each a name of "
                "its own in the field name"
            )
        found[entry.name] = entry
    again = sum(one.name in known for one in found.values())

    def do() -> int:
        for some in _steps(list(found.values())):
            _change(view, "add", pool.wire_name, pool.limits, str(len(some)), *chain.from_iterable(some))
        return len(found)

    def sentence(count: int, mood: Mood) -> str:
        names = _named(list(found))
        if again == count:
            return f"{counted(count, 'item')} of pool {shown(name)} {mood.be(count)} used again: {names}"
        has = f". {counted(again, 'item')} of these {mood.was if again == 1 else mood.were} there before"
        return f"{counted(count, 'item')} {mood.be(count)} added to pool {shown(name)}: {names}" + (
            f"{has}, and {mood.is_ if again == 1 else 'are'} used again" if again else ""
        )

    return Operation(sentence, lambda: len(found), do)


def remove_items(view: View, name: str, items: Sequence[str]) -> Operation:
    """Remove *items* from the pool *name*. The settings do not add them again. The count is theirs.

    A request that has such an item keeps it until its end.

    :param items: their names.
    """
    found = list(dict.fromkeys(_find(view, name, item).name for item in items))
    if not found:
        raise InspectionError("Give the names of the items")
    again = frontier_command("pool", view.spider, "add", shlex.quote(name), "ITEM")

    def do() -> int:
        for some in _steps(found):
            _change(view, "remove", quoted_pool(name), str(len(some)), *map(quoted, some))
        return len(found)

    return Operation(
        lambda count, mood: (
            f"{counted(count, 'item')} {mood.be(count)} removed from pool {shown(name)}, and the settings do "
            f"not add {'it' if count == 1 else 'them'} again: {_named([quoted(item) for item in found])}"
        ),
        lambda: len(found),
        do,
        f"To add an item again: {again}",
    )


def rest_item(
    view: View, name: str, item: str, seconds: float, reason: str = "", period: str = ""
) -> Operation:
    """Let no request have an item of the pool *name* for a number of *seconds*; 0 ends its rest.

    :param item: its name, and :param reason: why it rests, which everybody sees.
    :param period: the same time in words.
    """
    if not 0 <= seconds <= LONGEST_REST:
        raise InspectionError(
            f"The time of a rest must be 0 s to {LONGEST_REST:,.0f} s ({LONGEST_REST // 86_400:.0f} days)"
        )
    its = _find(view, name, item)
    if its.retired:
        raise InspectionError(
            f"Item {shown(its.name)} of pool {shown(name)} is retired, so it cannot rest: "
            f"{one_line(its.retired)}. {_again(view, name, its.name)}"
        )
    time = period or f"{seconds:,.0f} s"

    def sentence(count: int, mood: Mood) -> str:
        item = f"Item {shown(its.name)} of pool {shown(name)}"
        if not seconds:
            return f"{item} {mood.will} no longer rest"
        return f"{item} {mood.will} rest for {time}: no request begins with it"

    end = frontier_command("pool", view.spider, "rest", shlex.quote(name), shlex.quote(its.name), "0")
    return _of_item(
        view,
        its,
        sentence,
        ("rest", str(round(1000 * seconds)), _reason(reason)),
        f"To end it: {end}" if seconds else "",
    )


def retire_item(view: View, name: str, item: str, reason: str = "") -> Operation:
    """Take an item of the pool *name* out of use until an operator adds it again.

    :param item: its name, and :param reason: why, which everybody sees.
    """
    its = _find(view, name, item)
    if its.retired:
        raise InspectionError(
            f"Item {shown(its.name)} of pool {shown(name)} is already retired: {one_line(its.retired)}"
        )
    return _of_item(
        view,
        its,
        lambda count, mood: (
            f"Item {shown(its.name)} of pool {shown(name)} {mood.is_} retired: no request begins with it"
        ),
        ("retire", _reason(reason)),
        _again(view, name, its.name),
    )


def shown_name(name: str) -> str:
    """Return the name of an item, as it stands in Redis, for a message."""
    return shown(unquote(name))


def _of_item(
    view: View, its: Item, sentence: Callable[[int, Mood], str], change: tuple[str, ...], hint: str
) -> Operation:
    deed, *arguments = change

    def do() -> int:
        if not _change(view, deed, quoted_pool(its.pool), quoted(its.name), *arguments):
            raise InspectionError(
                f"Item {shown(its.name)} of pool {shown(its.pool)} was removed or retired just now"
            )
        return 1

    return Operation(sentence, lambda: 1, do, hint)


def _pool(view: View, pools: Pools, name: str) -> Pool:
    """Return the pool *name* of the settings; or one that fits what Redis has.

    :raises InspectionError: if neither has it.
    """
    for pool in view.settings.pools:
        if pool.name == name:
            return pool
    known = pools.names()
    if name in known:
        # Without the settings, only the names of the items tell that their values must not be names.
        items = pools.items_of(quoted_pool(name))
        is_of_keys = any(_KEY.fullmatch(item) for item in items)
        return Pool(name, kind="key" if is_of_keys else "")
    names = sorted({pool.name for pool in view.settings.pools} | set(known))
    listed = f"The pools are {', '.join(map(shown, names))}" if names else "There are no pools"
    # The name is not shown: it may be an item, given without a pool.
    raise InspectionError(
        f"Spider {view.spider!r} has no pool of this name. {listed}. To have a new one, add it to "
        "FRONTIER_POOLS, and start a worker"
    )


def _of_settings(view: View, pool: Pool) -> dict[str, _Entry]:
    """Return the items of *pool* that the settings here have, by name; none if they cannot be read."""
    with suppress(SettingError):
        return {one[0]: _Entry(*one) for one in entries(pool, items_at(view.server, pool.key))}
    return {}


def _entry(pool: Pool, text: str, known: Collection[str], of_settings: dict[str, _Entry]) -> _Entry:
    """Return an item to add.

    :raises ValueError: if it is not valid. The message shows nothing of it.
    """
    value = item_in(text)
    if isinstance(value, str) and value:
        name = quoted(value)
        if name in of_settings:
            return of_settings[name]
        if name in known:
            return _Entry(name)
        if of_settings and all(one.value.startswith("{") for one in of_settings.values()):
            raise ValueError("the items of this pool are JSON objects, and none of them has this name")
    if pool.kind == "proxy" or (isinstance(value, str) and "://" in value):
        proxy_of(value)
    return _Entry(*pool.entry(value))


def _find(view: View, name: str, item: str) -> Item:
    """Return an item of the pool *name*, by its name or its value.

    :raises InspectionError: if the pool lacks it. The message shows nothing of a value.
    """
    pools = Pools(view)
    pool = _pool(view, pools, name)
    with suppress(ValueError):
        for one in (item.strip(), name_of(item_in(item), pool.kind)):
            if (found := pools.item(name, one)) is not None:
                return found
    names = frontier_command("pool", view.spider)
    raise InspectionError(f"Pool {shown(name)} has no item of this name. To list its items: {names}")


def _again(view: View, name: str, item: str) -> str:
    command = frontier_command("pool", view.spider, "add", shlex.quote(name), shlex.quote(item))
    return f"To use it again: {command}"


def _reason(text: str) -> str:
    return one_line(text.strip() or NO_REASON)[:LONGEST_REASON]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(map(shown_name, names[:NAMED])) + more


def _steps(items: list[T]) -> Iterator[list[T]]:
    """Yield *items* in parts, each for one call of the script."""
    for begin in range(0, len(items), STEP):
        yield items[begin : begin + STEP]


def _change(view: View, *arguments: str) -> int:
    return int(register(view.server, "pools")(view.keys.all(), list(arguments)))
