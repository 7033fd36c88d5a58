"""A row of the table of keys: the name of a key in Redis, its type, its contents, and who uses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import Self

if TYPE_CHECKING:
    from . import Keys

#: In the place of a key: an attribute of :class:`Keys`, or a part that each of several keys has.
_PARTS = re.compile(r"{(\w+)}|(<\w+>)")


class Use(Enum):
    """How a script gets a key."""

    #: In ``KEYS``.
    ARGUMENT = 1
    #: In ``KEYS``, as a prefix: the script appends the name of a worker or a slot. The prefix itself is
    #: never a key.
    PREFIX = 2
    #: The script derives it from another key.
    DERIVED = 3
    #: The scripts of the frontier do not use it; or it comes last in ``KEYS``, as the seeds' keys do.
    NONE = 4


class Row:
    """A key of a frontier, or all keys of a pattern.

    :ivar name: the name in Python, and in scripts, in capitals there.
    :param place: the name in Redis. ``{name}`` stands for another attribute of :class:`Keys`, ``<part>`` for
        a part in which the keys of a pattern differ.
    :param types: the types that it may have, as Redis calls them.
    :param holds: its contents, in Markdown.
    :param lasting: whether it stays when a crawl finishes. The other keys are removed then, or expire.
    :param template: the attribute of :class:`Keys` with the setting that can rename the key.
    """

    name = ""

    def __init__(
        self,
        place: str,
        types: tuple[str, ...],
        holds: str,
        use: Use = Use.NONE,
        lasting: bool = False,
        template: str = "",
    ) -> None:
        self.place = place
        self.types = types
        self.holds = holds
        self.use = use
        self.lasting = lasting
        self._template = template

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def of(self, keys: Any, *parts: object) -> str:
        """Return the key's name in Redis, among *keys*; without *parts*, the prefix of a pattern."""
        if template := getattr(keys, self._template, ""):
            return str(keys.of(template))
        remaining = iter(parts)

        def fill(found: re.Match[str]) -> str:
            if not found[1]:
                return str(next(remaining, ""))
            value = getattr(keys, found[1])
            return str(value("") if callable(value) else value)

        return _PARTS.sub(fill, self.place)

    def label(self, keys: Any) -> str:
        """Return the name for people, among *keys*: with the parts as the place has them."""
        return self.of(keys, *(part for _, part in _PARTS.findall(self.place) if part))


class Key(Row):
    """A key, which is an attribute of :class:`Keys`."""

    @overload
    def __get__(self, keys: None, owner: type) -> Self: ...
    @overload
    def __get__(self, keys: Keys, owner: type) -> str: ...
    def __get__(self, keys: Keys | None, owner: type) -> Self | str:
        return self if keys is None else self.of(keys)


class KeyPattern(Row):
    """All keys of a pattern. Its attribute of :class:`Keys` is a function, which gets the parts."""

    @overload
    def __get__(self, keys: None, owner: type) -> Self: ...
    @overload
    def __get__(self, keys: Keys, owner: type) -> Callable[..., str]: ...
    def __get__(self, keys: Keys | None, owner: type) -> Self | Callable[..., str]:
        return self if keys is None else partial(self.of, keys)
