"""A key of a frontier: its name, its contents, and how scripts get it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Use(Enum):
    """How a script gets a key."""

    #: In ``KEYS``.
    ARGUMENT = 1
    #: In ``KEYS``, as a prefix: the script appends the name of a worker or a slot. The prefix itself is
    #: never a key.
    PREFIX = 2
    #: The script derives it from a key in ``KEYS``.
    DERIVED = 3
    #: The scripts of the frontier do not use it; or it comes last in ``KEYS``, as the seeds' keys do.
    NONE = 4


class Key(NamedTuple):
    """A key of a frontier.

    :param name: the name in scripts, in capitals there; empty if no script names it.
    :param place: the name in Redis, with the templates of :class:`Keys`.
    :param types: the types that it may have, as Redis calls them.
    :param holds: its contents, in Markdown.
    :param lasting: whether it stays when a crawl finishes. The other keys are removed then, or expire.
    :param follows: for a prefix, the part that a script appends: ``id`` (of a worker) or ``slot``.
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
        """The key's name for people, of a spider with the default names of keys."""
        roots = {name: f"<spider>:{name}" for name in ("requests", "dupefilter", "start_urls", "places")}
        return self.place.format(prefix="<spider>", slot_states="<spider>:slots:state", **roots) + (
            f"<{self.follows}>" if self.use is Use.PREFIX else ""
        )
