"""``scrapy frontier status`` and ``workers``: how a crawl stands, and who is at it."""

from __future__ import annotations

import argparse
import time
from typing import Any

from ..inspect import Status as FrontierStatus
from ..inspect import View, as_json, find_frontiers, read_status
from ..inspect.rates import BUCKET
from ..inspect.status import Worker
from .action import Action, Context
from .output import Fields, Table, duration, number, rate, size, sparkline, when

_NUMBERS = frozenset(
    (
        "WAITING",
        "LEASED",
        "DELAYED",
        "FAILED",
        "SEEDS",
        "SEEN",
        "PAGES",
        "PAGES/S",
        "WORKERS",
        "IN HAND",
        "PID",
    )
)
#: What keeps a crawl from going faster, and whether more workers would help.
LIMITS = {
    "politeness": "politeness: the hosts' delays and concurrency; more workers would not help",
    "callbacks": "callbacks: they take the workers' time; more workers would help, on other cores",
    "concurrency": "CONCURRENT_REQUESTS: each worker has as many downloads as it may",
    "redis": "Redis: the workers wait for it; more workers would not help",
}
#: Seconds between two drawings.
INTERVAL = 1.0


class Status(Action):
    """``scrapy frontier status [SPIDER]``."""

    name = "status"
    summary = "How a crawl stands: what waits, how fast it goes, who is at it"
    description = (
        "Show how a spider's crawl stands; without a spider, all that are in Redis. For these Redis goes "
        "through the names of all its keys, a thousand at a time."
    )
    spider = "optional"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: an object a spider, one a line")
        parser.add_argument(
            "--watch",
            nargs="?",
            type=seconds,
            const=INTERVAL,
            metavar="SECONDS",
            help=f"show it again and again, every so many seconds (default: {INTERVAL:g}); Ctrl-C ends it",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show it, once or until Ctrl-C."""
        # Of all of them it is looked each time which there are.
        views = [context.view(opts.spider)] if opts.spider else None
        if not opts.watch:
            self._show(context, opts, views, context.output.show)
            return
        try:
            with context.output.live() as draw:
                while True:
                    self._show(context, opts, views, draw)
                    time.sleep(opts.watch)
        except KeyboardInterrupt:
            return

    def _show(self, context: Context, opts: argparse.Namespace, views: list[View] | None, draw: Any) -> None:
        statuses = [read_status(view) for view in (all_views(context) if views is None else views)]
        if views is None:
            # Of a project's spiders also those that have seeds, and nobody yet who has taken one.
            statuses = [status for status in statuses if status.state != "new" or status.seeds]
        if opts.json:
            for status in statuses:
                context.output.json(as_json.status(status))
        elif opts.spider:
            draw(*one(statuses[0]))
        elif statuses:
            draw(overview(statuses))
        else:
            draw("No frontier is in this Redis: no worker has joined one, or their crawls are finished")


class Workers(Action):
    """``scrapy frontier workers SPIDER``."""

    name = "workers"
    summary = "Who is at it: host, process, pages, in hand, last heard"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: an object a worker, one a line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        view = context.view(opts.spider)
        status = read_status(view)
        if opts.json:
            for worker in (*status.workers, *status.in_line):
                context.output.json(as_json.worker(worker))
        elif status.workers or status.in_line:
            context.output.show(workers_table(status))
        else:
            context.output.say(f"No worker is at the frontier of spider {opts.spider}")


def seconds(text: str) -> float:
    """Return the interval of --watch."""
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("it may be 0.1 to 3600 seconds")
    return value


def all_views(context: Context) -> list[View]:
    """Return the frontiers of this Redis, and those of the project's other spiders."""
    views = list(find_frontiers(context.settings))
    known = {view.spider for view in views}
    return views + [context.view(spider) for spider in context.spiders() if spider not in known]


def overview(statuses: list[FrontierStatus]) -> Table:
    """Return a line for each of *statuses*."""
    counts = ("waiting", "leased", "delayed", "failed", "seeds", "seen", "pages")
    headings = ["SPIDER", "STATE", *map(str.upper, counts), "PAGES/S", "WORKERS", "LEFT"]
    rows = [
        [
            status.spider,
            status.state,
            *(number(getattr(status, name)) for name in counts),
            rate(status.per_second),
            str(status.alive),
            time_left(status),
        ]
        for status in statuses
    ]
    return Table(headings, rows, _NUMBERS)


def one(status: FrontierStatus) -> list[Table | Fields | str]:
    """Return all that is to be said of *status*."""
    state = status.state
    if state in ("paused", "draining") and status.state_since:
        state += f" for {duration(status.now - status.state_since)} (scrapy frontier resume {status.spider})"
    failed = number(status.failed)
    if status.failed:
        failed += f" (scrapy frontier failed {status.spider})"
    pairs = [
        ("spider", status.spider),
        ("state", state),
        ("waiting", _with_size(status.waiting, status.waiting_bytes)),
        *([("slots", _slots(status))] if status.slots else []),
        *([("not shared", status.unshared_share)] if status.unshared_share else []),
        ("leased", number(status.leased)),
        ("delayed", number(status.delayed)),
        ("failed", failed),
        ("seeds", number(status.seeds)),
        ("seen", _with_size(status.seen, status.seen_bytes)),
        (
            "pages",
            f"{number(status.pages)} in all, {rate(status.per_second)} a second, "
            f"{number(status.per_hour)} an hour",
        ),
        ("time left", time_left(status)),
    ]
    if status.limit != "none":
        pairs.append(("limit", LIMITS[status.limit]))
    if status.max_workers:
        pairs.append(("places", _places(status)))
    if status.history:
        pairs.append(("ten minutes", sparkline(lately(status))))
    parts: list[Table | Fields | str] = [Fields(pairs), ""]
    parts.append(workers_table(status) if status.workers or status.in_line else "no workers")
    return parts


def workers_table(status: FrontierStatus) -> Table:
    """Return a line for each worker."""
    headings = ["WORKER", "HOST", "PID", "VERSION", "STATE", "PAGES", "IN HAND", "JOINED", "LAST HEARD"]
    rows = [
        [
            worker.name,
            worker.host or "-",
            str(worker.pid or "-"),
            worker.version or "-",
            _state_of(worker),
            number(worker.pages),
            number(worker.in_hand),
            when(worker.joined),
            f"{duration(status.now - worker.heard)} ago" if worker.heard else "-",
        ]
        for worker in (*status.workers, *status.in_line)
    ]
    return Table(headings, rows, _NUMBERS)


def _state_of(worker: Worker) -> str:
    if worker.place:
        return f"{worker.place} in line"
    if not worker.alive:
        return "dead"
    return "closing" if worker.told_to_stop else "alive"


def _places(status: FrontierStatus) -> str:
    text = f"{status.places_taken} of {status.max_workers} taken"
    others = status.places_taken - status.alive
    if others > 0:
        text += f", {others} by other spiders"
    return text + (f"; {len(status.in_line)} in line" if status.in_line else "")


def time_left(status: FrontierStatus) -> str:
    """Return how long the crawl may take yet."""
    if status.seconds_left is not None and status.growth is not None:
        return f"about {duration(status.seconds_left)}"
    if status.seconds_left_at_least is not None:
        growth = status.growth or 0
        grows = f" (what waits grows by {rate(growth)} a second)" if growth > 0 else ""
        return f"at least {duration(status.seconds_left_at_least)}{grows}"
    return "-"


def _slots(status: FrontierStatus) -> str:
    text = f"{number(status.slots)} (scrapy frontier slots {status.spider})"
    return text + (f", the next turn in {status.next_turn_in:.1f} s" if status.next_turn_in > 0 else "")


def _with_size(count: int, taken: int | None) -> str:
    return f"{number(count)} (about {size(taken)})" if count else "0"


def lately(status: FrontierStatus) -> list[float]:
    """Return how many pages were done in each ten seconds of the last ten minutes."""
    last = int(status.now) // BUCKET * BUCKET
    pages = {moment.second: moment.pages for moment in status.history}
    return [pages.get(second, 0) for second in range(last - 59 * BUCKET, last + 1, BUCKET)]
