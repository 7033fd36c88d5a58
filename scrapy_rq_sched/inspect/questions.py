"""Ask Redis many bounded questions in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from .. import connection
from ..frontier.entries import Entries, Kind, Part, fields_of, part_of
from .view import View

T = TypeVar("T")

#: Bytes that are read of a name or a number, at most.
LONGEST = 1000


class Question(NamedTuple):
    """A command, and the meaning of its reply.

    :param ask: adds the command to a pipeline.
    :param read: returns the answer; the reply is None if Redis refused the command, as for a key of a wrong
        type.
    """

    ask: Callable[[Any, Entries], object]
    read: Callable[[Any], Any] = lambda reply: reply


def command(name: str, *args: Any, **options: Any) -> Question:
    """Ask with a method of redis-py; the answer is its reply."""
    return Question(lambda pipe, _: getattr(pipe, name)(*args, **options))


def count(name: str, *args: Any, **options: Any) -> Question:
    """Ask with a method of redis-py that returns a number; the answer is 0 if Redis refuses."""
    return command(name, *args, **options)._replace(read=lambda reply: int(reply or 0))


def part(kind: Kind, key: str, most: int, longest: int = LONGEST) -> Question:
    """Ask for the first *most* entries of *key*; the answer is a :class:`Part`."""
    return Question(
        lambda pipe, entries: entries.ask(pipe, kind, key, most, longest),
        lambda reply: part_of(reply, kind, most) if reply else Part([], True),
    )


def fields(keys: Mapping[str, str], names: str, longest: int = LONGEST) -> Question | Mapping[str, Question]:
    """Ask for some fields of each of *keys*; the answer has their values, by the name of the key."""
    nothing: list[bytes | None] = [None] * len(names.split())

    def read(reply: Any) -> dict[str, list[bytes | None]]:
        found = fields_of(reply, names) if reply else []
        found += [nothing] * (len(keys) - len(found))
        return dict(zip(keys, found, strict=True))

    def ask(pipe: Any, entries: Entries) -> None:
        entries.ask_fields(pipe, list(keys.values()), names, longest)

    return Question(ask, read) if keys else {}


def asked(view: View, group: Callable[..., T], **questions: Question | Mapping[str, Question]) -> T:
    """Return the answers as a *group*, which has a field for each question, or for a dict of questions.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    flat = [one for some in questions.values() for one in _each(some)]
    try:
        replies = iter(_replies(view, flat))
    except connection.NoScriptError:  # Redis was started again since the view was made
        Entries(view.server).load(view.keys.requests)
        replies = iter(_replies(view, flat))
    answers = (question.read(reply) for question, reply in zip(flat, replies, strict=True))
    return group(
        **{
            name: next(answers) if isinstance(some, Question) else {key: next(answers) for key in some}
            for name, some in questions.items()
        }
    )


def _each(some: Question | Mapping[str, Question]) -> Sequence[Question]:
    return [some] if isinstance(some, Question) else list(some.values())


def _replies(view: View, questions: Sequence[Question]) -> list[Any]:
    pipe, entries = view.pipeline(), Entries(view.server)
    for question in questions:
        question.ask(pipe, entries)
    replies = pipe.execute(raise_on_error=False)
    for reply in replies:
        is_refused = isinstance(reply, connection.ResponseError)
        if isinstance(reply, connection.NoScriptError) or (
            isinstance(reply, connection.RedisError) and not is_refused
        ):
            raise reply
    return [None if isinstance(reply, Exception) else reply for reply in replies]
