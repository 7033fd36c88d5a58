"""Deny requests to a host, or to URLs of a pattern, for all workers; and allow them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

from ...codec.patterns import matcher
from ...codec.values import text_of, whole_of
from ...errors import FrontierError, InspectionError, frontier_command
from ...frontier.scripts import register
from ..view import View
from ..wording import counted
from .operation import Mood, Observer, Operation
from .waiting import remove_waiting

#: How many hosts and patterns may be denied: each worker compares each request with all of them.
MOST = 1000
#: How many characters each of them may have.
LONGEST = 2000


class Denied(NamedTuple):
    """An entry of the deny-list.

    :param text: a host, or a pattern of URLs.
    :param since: since when it is denied, in seconds since 1970.
    """

    text: str
    since: float

    @property
    def time(self) -> str:
        """The time, as text, in UTC."""
        return f"{datetime.fromtimestamp(self.since, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def denied(view: View) -> list[Denied]:
    """Return the deny-list of *view*'s frontier, in the order of the alphabet."""
    found: Iterator[tuple[bytes, bytes]] = view.server.hscan_iter(view.keys.denied)
    return sorted(Denied(text_of(text), whole_of(text_of(time)) / 1000) for text, time in found)


def deny(view: View, observer: Observer, text: str) -> Operation:
    """Let no worker begin a request to a host and its subdomains, or to the URLs of a pattern.

    Its waiting requests are removed, and do not count as seen. If this is not possible now, because workers
    take from the middle of a list, the workers drop them. The count is that of the waiting requests.

    :param text: a host, or a pattern of whole URLs.
    :raises InspectionError: if *text* is neither, or the list is full.
    """
    text = text.strip()
    match, known = matcher(text), {one.text for one in denied(view)}
    if len(text) > LONGEST or (text not in known and len(known) >= MOST):
        raise InspectionError(
            f"At most {MOST:,} hosts and patterns may be denied, each with at most {LONGEST:,} characters. "
            f"To see the list: {frontier_command('denied', view.spider)}"
        )
    left: list[str] = []

    def removal() -> Operation | None:
        return remove_waiting(view, observer, match, forgets=True) if view.exists else None

    def look() -> int:
        operation = removal()
        return 0 if operation is None else operation.plan().touched

    def do() -> int:
        # First of all, whatever keeps the waiting requests from being removed.
        _change(view, text, denies=True)
        try:
            operation = removal()
            return 0 if operation is None else operation.do().touched
        except FrontierError as error:  # such as a list from which workers take
            observer.warn(f"The waiting requests stay in the queue until workers drop them: {error}")
            left.append("workers drop its waiting requests when they come to them")
            return 0

    def sentence(count: int, mood: Mood) -> str:
        requests = f"{counted(count, 'waiting request')} {mood.be(count)} removed"
        rest = left[0] if left else requests
        return f"No worker {mood.will} begin a request of {text} from now on, and {rest}"

    return Operation(
        sentence,
        look,
        do,
        f"To allow it again: {frontier_command('allow', view.spider, shlex.quote(text))}",
    )


def allow(view: View, text: str) -> Operation:
    """Let workers begin requests again that :func:`deny` has denied.

    :param text: the same text as then.
    :raises InspectionError: if it is not denied.
    """
    text = text.strip()
    if not view.server.hexists(view.keys.denied, text):
        raise InspectionError(
            f"{text!r} is not denied for spider {view.spider!r}. To see what is: "
            f"{frontier_command('denied', view.spider)}"
        )
    return Operation(
        lambda count, mood: (
            f"Requests of {text} {mood.will} be crawled again, if a page links to them or a seed names them"
        ),
        lambda: 1,
        lambda: _change(view, text, denies=False),
    )


def _change(view: View, text: str, denies: bool) -> int:
    return int(register(view.server, "deny")(view.keys.all(), [int(denies), text]))
