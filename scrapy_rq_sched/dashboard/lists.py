"""The lists that the dashboard shows of a frontier. Each has a bounded length, and costs Redis little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from ..codec.failed_request import FailedRequest
from ..codec.patterns import Pattern
from ..codec.values import text_of
from ..connection import server_of
from ..errors import frontier_command
from ..failed import FailedRequests
from ..frontier.entries import SHOWN, Entries
from ..inspect import View, as_json
from ..inspect.entries import Reader
from ..inspect.failed_groups import grouped, host_of
from ..inspect.largest_slots import LONGEST, MOST, LargestSlots
from ..inspect.operations.deny import denied
from ..inspect.operations.failed import set_aside
from ..inspect.pools import Pools
from ..inspect.queues import Queues
from ..inspect.slots import Slots

#: Latest entries of the failed list that are grouped and searched; and hosts that are shown of a group.
MOST_FAILED, MOST_HOSTS = 1000, 20
#: Items of pools to show.
MOST_ITEMS = 500
#: Leases of a worker to show.
MOST_HELD = 200
#: Next requests to show.
MOST_NEXT = 20
#: With ``FRONTIER_ORDER = "priority"`` the next request may be in any slot. Up to this number, all are
#: compared.
MOST_TURNS = 200


class SlotsFound:
    """The slots with the most requests, and the blocked ones."""

    def __init__(self) -> None:
        self._largest = LargestSlots()

    def read(self, view: View) -> dict[str, Any]:
        """Read the next part of the slots, and return those found so far."""
        if not view.exists:
            self._largest = LargestSlots()
            return {"total": 0, "looked_at": 0, "slots": [], "denied": _denied(view)}
        look = self._largest.look(view)
        # Those with the latest turns include the blocked ones.
        entries, start = Entries(view.server), max(0, look.total - MOST)
        _, pieces = entries.step("zset", view.keys.slots, start, MOST, LONGEST)
        last = {text_of(piece.data) for piece in pieces if not piece.is_cut}
        statuses = Slots(view).read([*look.waiting, *(last - look.waiting.keys())])
        shown = [one for one in statuses if one.waiting or one.blocked_for]
        shown.sort(key=lambda one: (not one.blocked_for, -one.waiting, one.slot))
        slots = [as_json.slot(one) for one in shown]
        return {
            "total": look.total,
            "looked_at": look.looked_at,
            "slots": slots,
            "denied": _denied(view),
        }


def _denied(view: View) -> list[dict[str, Any]]:
    return [one._asdict() for one in denied(view)]


def items_of_pools(view: View) -> dict[str, Any]:
    """Return the first items of pools, without their values: at most :data:`MOST_ITEMS`."""
    items = list(Pools(view).read(most=MOST_ITEMS + 1))
    return {"items": [asdict(one) for one in items[:MOST_ITEMS]], "has_more": len(items) > MOST_ITEMS}


def held_by(view: View, worker: str) -> dict[str, Any]:
    """Return the leases of *worker*, those held longest first: at most :data:`MOST_HELD`."""
    found = list(islice(Reader(view, SHOWN).held(worker), MOST_HELD + 1))
    held = sorted(found[:MOST_HELD], key=lambda one: one.since)
    return {"held": [as_json.held(one) for one in held], "has_more": len(found) > MOST_HELD}


class FailedFound:
    """The latest entries of the failed list. They are read again when the list has changed."""

    def __init__(self) -> None:
        self._mark: Any = None
        self._entries: list[FailedRequest] = []
        self._failed: FailedRequests | None = None
        self._about: dict[str, Any] = {}

    def read(self, view: View) -> dict[str, Any]:
        """Read the latest :data:`MOST_FAILED` entries, and return their groups, as :meth:`counts` does."""
        mark = _mark_of(view)
        if mark != self._mark:
            self._failed, problem = set_aside(view)
            self._entries = self._failed.latest(MOST_FAILED)[::-1]
            self._about = {"total": mark[0], "looked_at": len(self._entries), "problem": problem}
            self._about["counts"] = self.counts()
            self._mark = mark
        return self._about

    def counts(self, url: str | None = None) -> list[dict[str, Any]]:
        """Return the number of entries for each kind of error, with their hosts, of those that were read.

        :param url: only entries with a URL of this pattern.
        """
        if self._failed is None:
            return []
        oldest_first = list(self._chosen(url=url))[::-1]
        groups = grouped(self._failed, oldest_first, lambda entry: entry.error)
        return [
            {
                "error": error,
                "count": group.count,
                "latest": group.latest,
                "hosts": [{"host": h, "count": n} for h, n in group.hosts.most_common(MOST_HOSTS)],
                "more_hosts": max(0, len(group.hosts) - MOST_HOSTS),
            }
            for error, group in groups.items()
        ]

    def page(self, offset: int, limit: int, **chosen: str | None) -> dict[str, Any]:
        """Return a page of the entries that :meth:`read` found, the latest first.

        :param chosen: return only entries with exactly this ``reason``, this kind of ``error``, this ``id``,
            this ``host``, or a ``url`` of this pattern.
        """
        failed, found = self._failed, list(self._chosen(**chosen))
        shown = [as_json.failed(failed, one) for one in found[offset : offset + limit]] if failed else []
        return {"total": len(found), "offset": offset, "failed": shown}

    def _chosen(
        self,
        reason: str | None = None,
        error: str | None = None,
        id: str | None = None,
        host: str | None = None,
        url: str | None = None,
    ) -> Iterator[FailedRequest]:
        pattern, failed = None if url is None else Pattern(url), self._failed
        for one in self._entries:
            if reason not in (None, one.reason) or error not in (None, one.error) or id not in (None, one.id):
                continue
            if failed is not None and (pattern or host is not None):
                its_url = failed.url_of(one)
                if (pattern and not pattern.matches(its_url)) or host not in (None, host_of(its_url)):
                    continue
            yield one


def _mark_of(view: View) -> tuple[int, object, object]:
    """Return the length of the failed list of *view*'s frontier, and values that change with the list."""
    key, entries = view.keys.failed, Entries(view.server)
    length = int(server_of(view.server, view.keys.requests).llen(key))
    first, last = (entries.step("failed", key, place, 1, 1000)[1] for place in (0, -1))
    return length, first, last


def next_requests(view: View) -> dict[str, Any]:
    """Return the next requests, and a remark on their order; empty if it is exact."""
    server, keys = server_of(view.server, view.keys.requests), view.keys
    turns = int(server.zcard(keys.slots))
    problem = ""
    if turns > MOST_TURNS and view.settings.order == "priority":
        view = replace(view, settings=replace(view.settings, order="slots"))
        problem = (
            f"With {turns:,} slots, this page shows requests in the order of the slots' turns, not by "
            f"priority. For the order by priority: {frontier_command('peek', view.spider)}"
        )
    entries = Queues(view).next(MOST_NEXT)
    requests = [{"place": place, **as_json.entry(one)} for place, one in enumerate(entries, 1)]
    return {"problem": problem, "requests": requests}
