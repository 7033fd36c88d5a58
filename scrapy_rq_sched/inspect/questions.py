"""Ask Redis many bounded questions in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import connection
from ..frontier.entries import Entries, Kind, Part, fields_of, part_of
from ..keys import never
from .view import View

#: Bytes that are read of a name or a number, at most.
LONGEST = 1000


class Questions:
    """Collects the commands of one round trip."""

    def __init__(self, view: View) -> None:
        self._pipe = view.pipeline()
        self._entries = Entries(view.server)
        # A question needs a key, also if there is nothing to ask for.
        self._no_key = never(view.keys.requests)
        self._readers: list[tuple[str, Callable[[Any], Any]]] = []

    def ask(self, name: str, read: Callable[[Any], Any] = lambda reply: reply) -> Any:
        """Return the pipeline for one command; its reply gets this *name*, when *read* has changed it."""
        self._readers.append((name, read))
        return self._pipe

    def part(self, name: str, kind: Kind, key: str, count: int, longest: int = LONGEST) -> None:
        """Ask for the first *count* entries of *key*; the reply is a :class:`Part`."""

        def read(reply: Any) -> Part:
            return part_of(reply, kind, count) if reply else Part([], True)

        self._entries.ask(self.ask(name, read), kind, key, count, longest)

    def fields(self, name: str, keys: Sequence[str], names: str, longest: int = LONGEST) -> None:
        """Ask for some fields of each of *keys*; the reply has a list of their values for each."""
        nothing: list[bytes | None] = [None] * len(names.split())

        def read(reply: Any) -> list[list[bytes | None]]:
            found = fields_of(reply, names) if reply else []
            return found + [nothing] * (len(keys) - len(found))

        self._entries.ask_fields(self.ask(name, read), keys or [self._no_key], names, longest)

    def replies(self) -> dict[str, Any]:
        """Return the replies by name; None if Redis refused the command, as for a key of a wrong type.

        :raises redis.exceptions.NoScriptError: if the server has to load a script first.
        """
        replies = self._pipe.execute(raise_on_error=False)
        for reply in replies:
            is_refused = isinstance(reply, connection.ResponseError)
            if isinstance(reply, connection.NoScriptError) or (
                isinstance(reply, connection.RedisError) and not is_refused
            ):
                raise reply
        replies = [None if isinstance(reply, Exception) else reply for reply in replies]
        return {name: read(reply) for (name, read), reply in zip(self._readers, replies, strict=True)}


def asked(view: View, ask: Callable[[Questions], None]) -> dict[str, Any]:
    """Return the replies to the questions that *ask* asks."""
    questions = Questions(view)
    ask(questions)
    try:
        return questions.replies()
    except connection.NoScriptError:  # Redis was started again since the view was made
        Entries(view.server).load(view.keys.requests)
        questions = Questions(view)
        ask(questions)
        return questions.replies()
