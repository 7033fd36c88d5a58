"""Groups of requests (``meta["group"]``), and requests that wait for them (``meta["after"]``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from scrapy import Request

from ..codec.groups import (
    AFTER,
    GROUP,
    followed_by,
    groups_of,
    inherited_by,
    is_grouped,
    named_after,
    note_waited,
)
from ..codec.names import joined, names_in, shown
from ..errors import one_line
from ..frontier.messages import Batch
from ..frontier.replies import GroupNews, Part, Reply
from .outbox import Outbox

logger = logging.getLogger(__name__)

_RENAME = "If this field has nothing to do with groups of requests, give it another name"
#: How many different news of groups a worker logs.
MOST_LINES = 100
#: What a warning says of a group.
_NEWS = {
    "never": "Requests that wait for group %s begin at once: no request of this group was found before them",
    "circle": (
        "A request that waits for group %s is moved to the failed list: it would wait for itself, because "
        "this group waits for one of its own groups"
    ),
    "dropped": (
        "The requests that wait for group %s are moved to the failed list, because requests of the group "
        "were set aside (%d). To crawl such requests nevertheless, set FRONTIER_GROUP_FAILED to 'run'"
    ),
    "stuck": (
        "Group %s counts as finished, though not all of its requests were crawled: another program has "
        "removed them from Redis, or they wait for requests that wait for this group"
    ),
}


class Groups(Part):
    """Tells the frontier in which groups a request is, and the spider which groups have finished.

    :param outbox: the requests on their way to the frontier.
    :ivar are_kept: whether the queue keeps groups. A queue of the user's own does not.
    :ivar stats: Scrapy's statistics collector.
    :ivar send_signal: sends the signal ``group_finished`` with a group's name, and how many of its requests
        were set aside.
    :ivar uses_groups: called when the first request of a group is about to be crawled.
    :ivar closing: whether the spider closes, so that it should get no signals.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.are_kept = True
        self.stats: Any = None
        self.send_signal: Callable[[str, int], Any] = lambda name, failed: None
        self.uses_groups: Callable[[], None] | None = None
        self.closing = False
        self._has_warned = False
        self._logged: set[GroupNews] = set()
        self._last_member = 0
        # Of the requests that are only in memory: those that are begun; and the members that have left their
        # groups, and the finished groups that the spider was told, each with the number of the push
        # with which Redis may know it.
        self._begun: dict[Request, int] = {}
        self._left: list[tuple[int, int]] = []
        self._heard: list[tuple[int, str]] = []
        self._taken = 0
        self._reported: set[int] = set()
        self._confirmed: set[str] = set()
        # The signals that are being sent, or are not confirmed yet.
        self._known: set[str] = set()

    def of(self, request: Request) -> tuple[str, str, int]:
        """Return the groups of *request*, those for which it waits, and its number among the grouped ones.

        Sets and tuples of groups in its ``meta`` become lists, so that they can be stored. Values that are
        not valid are ignored, with a warning: other code may use these fields for something else.
        """
        meta = request.meta
        if not is_grouped(meta):
            return "", "", 0
        if not self.are_kept:
            self._warn()
            return "", "", 0
        groups, after, waited = self._groups_of(request), frozenset[str](), frozenset[str]()
        try:
            after, waited = followed_by(request), named_after(request)
        except ValueError as error:
            self._ignore(request, f"{error}. {_RENAME}")
        if common := groups & waited:
            self._ignore(request, f"it waits for group {shown(common)}, and would wait for itself")
            groups -= common
        for field in (GROUP, AFTER):
            if isinstance(meta.get(field), (set, frozenset)):
                meta[field] = sorted(meta[field], key=str)
            elif isinstance(meta.get(field), tuple):
                meta[field] = list(meta[field])
        self._last_member += bool(groups)
        return joined(groups), joined(after), self._last_member if groups else 0

    def _groups_of(self, request: Request) -> frozenset[str]:
        """Return the groups of *request*; if they are not valid, only those of its page, with a warning."""
        try:
            return groups_of(request)
        except ValueError as error:
            self._ignore(request, f"{error}. {_RENAME}")
            return inherited_by(request)

    def cannot_wait(self, request: Request, after: str) -> None:
        """Log that *request*, which is only in memory, does not wait for *after*, if these are any groups."""
        if after:
            self._ignore(request, f"it cannot be stored in Redis to wait for group {shown(names_in(after))}")

    def _ignore(self, request: Request, problem: str) -> None:
        self.stats.inc_value("frontier/groups_ignored")
        if self.stats.get_value("frontier/groups_ignored") == 1:
            logger.warning(
                "Groups in the meta of %s are ignored: %s. More of such requests are only counted: "
                "frontier/groups_ignored",
                *(one_line(request), one_line(problem)),
            )

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                'meta["group"] and meta["after"] are ignored: SCHEDULER_QUEUE_CLASS has its own push or pop, '
                "so requests begin in any order"
            )

    def begins(self, request: Request, member: int = 0) -> None:
        """Note that *request* is about to be crawled; *member*: its number, if it is only in memory.

        It has waited for its groups, and its retries need not wait again.
        """
        if not is_grouped(request.meta):
            return
        note_waited(request)
        if member:
            self._begun[request] = member
        if self.uses_groups is not None:
            self.uses_groups()
            self.uses_groups = None

    def finished(self, request: Request) -> None:
        """Note that the engine has finished *request*."""
        if self._begun and (member := self._begun.pop(request, 0)):
            self.left(member)

    def left(self, member: int) -> None:
        """Note that a request that was only in this worker's memory has left its groups."""
        if member:
            self._left.append((self._outbox.enqueued, member))

    def heard(self, name: str) -> None:
        """Note that the spider was told that a group has finished, and what it has yielded is enqueued."""
        self._heard.append((self._outbox.enqueued, name))

    @property
    def has_news(self) -> bool:
        """Whether there is something to send, besides what goes with requests of the outbox."""
        taken = self._outbox.taken
        return any(number <= taken for number, _ in (*self._left, *self._heard))

    @property
    def is_quiet(self) -> bool:
        """Whether no signal is being sent, and Redis knows of all that were sent."""
        return not (self._known or self._left)

    def fill(self, batch: Batch) -> None:
        """Report what the pushes of this batch, or of earlier ones, may have led to."""
        self._taken = taken = self._outbox.taken
        self._reported = {member for number, member in self._left if number <= taken}
        self._confirmed = {name for number, name in self._heard if number <= taken}
        batch.left_memory, batch.groups_acked = sorted(self._reported), sorted(self._confirmed)
        batch.is_closing = self.closing

    def applied(self, reply: Reply) -> None:
        """Forget what the frontier knows now. If it has not stored all pushes, it has ignored this news."""
        if self._outbox.taken < self._taken:
            self._reported, self._confirmed = set(), set()
        self._left = [(number, member) for number, member in self._left if member not in self._reported]
        self._heard = [(number, name) for number, name in self._heard if name not in self._confirmed]
        self._known -= self._confirmed
        self._reported, self._confirmed = set(), set()

    def rolled_back(self) -> None:
        """Wait for all pushes, because older ones are sent again before them."""
        last = self._outbox.enqueued
        self._left = [(last, member) for _, member in self._left]
        self._heard = [(last, name) for _, name in self._heard]

    def tell(self, reply: Reply) -> None:
        """Log the news of groups, and send the signals of the finished ones."""
        for news in reply.group_news:
            if news not in self._logged and len(self._logged) < MOST_LINES:
                self._logged.add(news)
                self._log(news)
                if len(self._logged) == MOST_LINES:
                    logger.warning("This worker has logged %d news of groups, and logs no more", MOST_LINES)
        for name, failed in reply.groups_finished:
            if name not in self._known:
                self._known.add(name)
                self.stats.inc_value("frontier/groups_finished")
                self.send_signal(name, failed)

    def _log(self, news: GroupNews) -> None:
        group = one_line(shown(names_in(news.name)))
        text = _NEWS[news.kind]
        logger.warning(text, *((group, news.failed) if "%d" in text else (group,)))
