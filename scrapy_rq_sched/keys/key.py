"""A key of a frontier: what it is called, what is in it, and how a script comes to know it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Use(Enum):
    """How a script comes to know a key."""

    #: It is in ``KEYS``.
    ARGUMENT = 1
    #: It is in ``KEYS``; the name of a worker or a slot follows, and the key by itself is never there.
    PREFIX = 2
    #: The script makes it of one that is in ``KEYS``.
    DERIVED = 3
    #: It is none of the scripts of the frontier that uses it, or it comes last, as the seeds' keys do.
    NONE = 4


class Key(NamedTuple):
    """A key of a frontier.

    :param name: what it is called in scripts, there in capitals; empty if it is in none.
    :param place: what it is called in Redis, by the templates of :class:`Keys`.
    :param types: what types it may have, as Redis calls them.
    :param holds: what is in it, in Markdown.
    :param lasting: whether it stays when a crawl ends; of the others each is removed then, or has a time to
        live.
    :param follows: if it is what other keys begin with, what follows.
    """

    name: str
    place: str
    types: tuple[str, ...]
    holds: str
    use: Use = Use.NONE
    lasting: bool = False
    follows: str = "id"

    @property
    def label(self) -> str:
        """The key of a spider whose keys have their usual names, for people."""
        roots = {name: f"<spider>:{name}" for name in ("requests", "dupefilter", "start_urls", "places")}
        return self.place.format(prefix="<spider>", slot_states="<spider>:slots:state", **roots) + (
            f"<{self.follows}>" if self.use is Use.PREFIX else ""
        )
