"""How a crawl stands, in the words of the terminal: for ``status``, ``workers`` and ``crawl``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..codec.names import shown
from ..errors import frontier_command
from ..inspect import Status
from ..inspect.cause import cause_of
from ..inspect.limit import LIMITS
from ..inspect.rates import BUCKET, peak_of_latest, rates_of
from ..inspect.status import PoolCounts, UnmetNeeds, Worker
from ..inspect.wording import counted, crawl_command
from . import crawl_text
from .formats import duration, number, rate, single_line, size, sparkline, time_until, when
from .output import Fields, Part, Styled, Table
from .states import in_state

#: Blocks of a sparkline, and the seconds that they stand for together, at most.
_BLOCKS, _SPARKLINE = 30, 600
HOUR = 3600

_COUNTS = ("WAITING", "LEASED", "DELAYED", "FAILED", "SEEDS", "SEEN", "PAGES", "ITEMS")
_OVERVIEW = ("SPIDER", "STATE", *_COUNTS, "PAGES/S", "WORKERS", "LEFT")
#: The columns of the workers' table: heading, cell, rank. On a narrow terminal, the column of rank 1 is left
#: out first, and one of rank 0 never.
_COLUMNS: tuple[tuple[str, Callable[[Worker, Status], str], int], ...] = (
    ("WORKER", lambda worker, _: worker.name, 0),
    ("HOST", lambda worker, _: worker.host or "-", 2),
    ("PID", lambda worker, _: str(worker.pid or "-"), 3),
    ("VERSION", lambda worker, _: worker.version or "-", 1),
    ("STATE", lambda worker, _: _state_of(worker), 0),
    ("ITEM", lambda worker, _: ", ".join(worker.items.values()) or "-", 6),
    ("PAGES", lambda worker, _: number(worker.pages), 0),
    ("IN HAND", lambda worker, _: number(worker.in_hand), 0),
    ("JOINED", lambda worker, _: when(worker.joined), 4),
    ("LAST HEARD", lambda worker, status: _heard(worker, status), 5),
)


def statuses_table(statuses: list[Status]) -> Table:
    """Return a table with a row for each of *statuses*."""
    rows = []
    for status in statuses:
        last = status.last_crawl if status.state == "finished" else None
        did = status if status.pages or last is None else last
        rows.append(
            [
                status.spider,
                in_state(status.state),
                number(status.waiting),
                number(status.leased),
                number(status.delayed),
                Styled(number(status.failed), "red" if status.failed else ""),
                number(status.seeds),
                number(status.seen),
                number(did.pages),
                number(did.items),
                rate(status.per_second) if status.alive else "-",
                str(status.alive),
                time_left(status) or "-",
            ]
        )
    dispensable = ("SEEN", "DELAYED", "LEASED", "SEEDS", "ITEMS", "LEFT")
    return Table(_OVERVIEW, rows, texts=("SPIDER",), dispensable=dispensable)


def status_text(status: Status) -> list[Part]:
    """Return all that `status SPIDER` shows."""
    if status.state == "finished" and not status.workers:
        return [Fields(_finished(status))]
    pairs = [
        ("spider", status.spider),
        ("state", _state(status)),
        *progress(status),
        ("waiting", _with_size(status.waiting, status.waiting_bytes) + _growth(status)),
        *([("slots", _slots(status))] if status.slots else []),
        *([("not shared", status.unshared_share)] if status.unshared_share else []),
        *[("needs", unmet(one, status.now)) for one in status.unmet],
        *[(f"pool {pool.name}", items_of(pool, status.spider)) for pool in status.pools],
        *([("dropped", f"{number(status.capped)} (FRONTIER_MAX_PAGES)")] if status.capped else []),
        *([("read in part", status.cut)] if status.cut else []),
        ("leased", number(status.leased)),
        ("delayed", number(status.delayed)),
        *([("following", _following(status))] if status.following else []),
        *([("signals", _signals(status))] if status.unsent_signals else []),
        ("failed", _failed(status)),
        ("seeds", number(status.seeds)),
        ("seen", _with_size(status.seen, status.seen_bytes)),
        ("pages", pages(status)),
        *items_and_errors(status),
        *([("statuses", crawl_text.statuses(status.statuses))] if status.statuses else []),
        *_time_left(status),
        *limit(status),
        *([("places", _places(status))] if status.max_workers else []),
        *pace(status),
        *_last_crawl(status),
    ]
    if status.workers or status.in_line:
        return [Fields(pairs), "", workers_table(status)]
    if status.state in ("new", "stopped", "paused", "draining"):
        return [Fields(pairs), "", f"No worker is alive. Start one: {crawl_command(status.spider)}"]
    return [Fields(pairs)]


def status_line(status: Status) -> str:
    """Return how a crawl stands, in one line."""
    last = status.last_crawl if status.state == "finished" else None
    left = time_left(status)
    parts = [
        counted(status.pages or (last.pages if last else 0), "page"),
        *([f"{rate(status.per_second)} a second"] if status.alive else []),
        f"{number(status.waiting)} waiting",
        f"{number(status.leased)} leased",
        f"{number(status.failed)} failed",
        counted(status.alive, "worker"),
        *([f"{left} left"] if left else []),
        *([] if status.limit == "none" else [f"limited by {status.limit}"]),
    ]
    return f"{single_line(status.spider)} {status.state}: {', '.join(parts)}"


def workers_table(status: Status) -> Table:
    """Return a table with a row for each worker."""
    workers = (*status.workers, *status.in_line)
    has_items = any(worker.items for worker in workers)
    columns = [column for column in _COLUMNS if column[0] != "ITEM" or has_items]
    rows = [[cell(worker, status) for _, cell, _ in columns] for worker in workers]
    ranked = sorted((rank, heading) for heading, _, rank in columns if rank)
    return Table([its[0] for its in columns], rows, dispensable=[heading for _, heading in ranked])


def _heard(worker: Worker, status: Status) -> str:
    return f"{duration(status.now - worker.heard)} ago" if worker.heard else "-"


def progress(status: Status) -> list[tuple[str, str]]:
    """Return the share of the pages that were done, among the requests that are known by now."""
    total = status.pages + status.left
    if not status.pages or status.state in ("new", "finished"):
        return []
    share = f"{100 * status.pages // total} % of {counted(total, 'known request')}"
    return [("progress", Styled(share, "green", status.pages / total))]


def pages(status: Status) -> str:
    """Return how many pages were done, and how fast if a worker is alive."""
    text = _with_rate(status, status.pages, status.per_second)
    is_older = status.history and status.now - status.history[0].second >= HOUR - 2 * BUCKET
    is_older = is_older and _goes_on(status)
    return text + (f", {number(status.per_hour)} in the last hour" if is_older else "")


def items_and_errors(status: Status) -> list[tuple[str, str]]:
    """Return how many items and errors the fleet had, and how fast they come if a worker is alive."""
    errors = _with_rate(status, status.errors, status.errors_per_second) if status.errors else "0"
    return [
        ("items", _with_rate(status, status.items, status.items_per_second)),
        ("errors", Styled(errors, "red" if status.errors else "")),
    ]


def _goes_on(status: Status) -> bool:
    return bool(status.alive) and status.state not in ("paused", "stopped")


def _with_rate(status: Status, count: int, per_second: float) -> str:
    return number(count) + (f", {rate(per_second)} a second" if _goes_on(status) else "")


def pace(status: Status) -> list[tuple[str, str]]:
    """Return a sparkline of the last ten minutes, or from the first page on, with its maximum.

    Nothing is returned if no page was done in them.
    """
    if not status.history:
        return []
    first = status.history[0]
    begin = max(status.now - _SPARKLINE, first.second + first.first)
    per_second = rates_of(status.history, begin, status.now, _BLOCKS)
    if not any(per_second):
        return []
    peak = rate(peak_of_latest(status, _SPARKLINE))
    text = f"{sparkline(per_second)}  peak {peak} pages a second"
    return [("ten minutes", Styled(text, "cyan"))]


def items_of(pool: PoolCounts, spider: str) -> str:
    """Return how many items of a pool are free, in use, at rest, in their delay, or retired."""
    verb = "rests" if pool.rests == 1 else "rest"
    waits = f", {number(pool.waits)} in {'its' if pool.waits == 1 else 'their'} delay" if pool.waits else ""
    soon = f" (next in {duration(max(1, pool.next_in))})" if pool.next_in else ""
    at_least = "" if pool.is_whole else "at least "
    text = (
        f"{counted(pool.items, 'item')}: {at_least}{number(pool.free)} free, {number(pool.in_use)} in use, "
        f"{number(pool.rests)} {verb}{waits}{soon}, {number(pool.retired)} retired"
    )
    if pool.items > pool.retired:
        return text
    return Styled(f"{text} ({frontier_command('pool', spider)})", "red")


def unmet(one: UnmetNeeds, now: float) -> str:
    """Return that requests have needs that no live worker meets."""
    since = duration(now - one.since)
    return f"no worker that is alive offers {shown(one.needs)}: requests that need it wait, since {since}"


def limit(status: Status) -> list[tuple[str, str]]:
    """Return the cause that keeps the crawl from going faster, if there is one."""
    return [] if status.limit == "none" else [("limit", LIMITS[status.limit])]


def time_left(status: Status) -> str:
    """Return how long the crawl may take yet; empty if the queue does not shrink."""
    return "" if status.seconds_left is None else f"about {duration(status.seconds_left)}"


def _time_left(status: Status) -> list[tuple[str, str]]:
    return [("time left", time_left(status))] if time_left(status) else []


def _growth(status: Status) -> str:
    growth = status.growth or 0.0
    grows = status.alive and status.seconds_left is None and growth >= 0.05
    return f", growing by {rate(growth)} a second" if grows else ""


def _state(status: Status) -> str:
    if status.state in ("paused", "draining") and status.state_since:
        command = frontier_command("resume", status.spider)
        return in_state(
            status.state, f"{status.state} for {duration(status.now - status.state_since)} ({command})"
        )
    return in_state(status.state)


def _finished(status: Status) -> list[tuple[str, str]]:
    """Return how a crawl has ended. Its keys may be gone, so that only the history and its events tell."""
    last = status.last_crawl
    ended, state = (last.ended, last.state) if last else (status.finished_at, "finished")
    pairs = [("spider", status.spider), ("state", in_state(state))]
    if last and last.reason not in ("", state):
        pairs.append(("reason", last.reason))
    if ended:
        pairs.append((state, f"{when(ended)}, {duration(status.now - ended)} ago"))
    if last:
        pairs.append(("took", duration(last.seconds)))
        pairs += [*crawl_text.figures(replace(last, spider=status.spider), {}), *crawl_text.chart(last)]
        if cause := cause_of(last):
            pairs.append(("cause", cause))
    elif status.pages:
        pairs.append(("pages", number(status.pages)))
    if last is None:
        pairs.append(("failed", _failed(status)))
    elif last.failed != status.failed:
        pairs.append(("failed list", f"{counted(status.failed, 'entry', 'entries')} now"))
    if status.seeds:
        pairs.append(("seeds", f"{number(status.seeds)}, for the next crawl"))
    if status.seen:
        pairs.append(("seen", _with_size(status.seen, status.seen_bytes)))
    return pairs


def _last_crawl(status: Status) -> list[tuple[str, str]]:
    last = status.last_crawl
    if last is None:
        return []
    text = f"{last.state} {when(last.ended)}: {counted(last.pages, 'page')} in {duration(last.seconds)}"
    return [("last crawl", text)]


def _failed(status: Status) -> str:
    text = number(status.failed)
    if not status.failed:
        return text
    return Styled(f"{text} ({frontier_command('failed', status.spider)})", "red")


def _state_of(worker: Worker) -> str:
    if worker.place:
        return f"{worker.place} in line"
    return in_state("dead" if not worker.alive else "closing" if worker.told_to_stop else "alive")


def _places(status: Status) -> str:
    text = f"{status.places_taken} of {status.max_workers} taken"
    others = status.places_taken - status.alive
    if others > 0:
        text += f", {others} by other spiders"
    return text + (f"; {len(status.in_line)} in line" if status.in_line else "")


def _slots(status: Status) -> str:
    text = f"{number(status.slots)} ({frontier_command('slots', status.spider)})"
    return text + (f", the next turn in {time_until(status.next_turn_in)}" if status.next_turn_in > 0 else "")


def _signals(status: Status) -> str:
    return f"{number(status.unsent_signals)} of finished groups to send (group_finished)"


def _following(status: Status) -> str:
    groups = frontier_command("groups", status.spider)
    return f"{number(status.following)}, until a group is finished: {groups}"


def _with_size(count: int, taken: int | None) -> str:
    return f"{number(count)} (about {size(taken)})" if count else "0"
