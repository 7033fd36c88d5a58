"""``scrapy frontier crawl``: all workers of one machine, started and watched by one command."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from pathlib import Path
from pprint import pformat
from typing import Any, TypeVar
from urllib.parse import quote

from scrapy.utils.project import data_path

from .. import connection
from ..codec.values import text_of, whole_of
from ..errors import FrontierError, InspectionError
from ..inspect import Status, View, read_status
from ..inspect.cause import is_unreachable
from ..inspect.entries import read_requests
from ..inspect.history import with_last_crawl
from ..inspect.wording import counted
from ..servers import own_redis
from ..supervise import report
from ..supervise.arguments import Arguments, Project
from ..supervise.feeds import FeedWriter
from ..supervise.liveness import LEASES, Evidence, Limits
from ..supervise.redis_thread import RedisThread
from ..supervise.supervisor import Supervisor
from ..supervise.worker_process import is_alive
from . import crawl_end, watch
from .action import Action, Context
from .crawl_end import Ended
from .crawl_view import Screen
from .formats import single_line
from .periods import whole

#: Seconds between two looks at the workers.
STEP = 0.25
#: How many runs keep their logs.
KEPT_RUNS = 10
#: How often the command asks Redis again before its workers are started.
START_ATTEMPTS = 4
#: Seconds for which the command waits at the end for what Redis knows of the crawl.
PATIENCE = 10.0
#: The exit code of a crawl that could reach nothing.
UNREACHABLE = 3
#: Seconds between two of Scrapy's checks of a worker's memory.
MEMORY_INTERVAL = 5


T = TypeVar("T")


class Crawl(Action):
    """``scrapy frontier crawl SPIDER``."""

    name = "crawl"
    summary = "Crawl with several workers on this machine, until the crawl is finished"
    description = (
        "Start several workers of a spider on this machine, one per core, and watch them until the crawl is "
        "finished. A worker that dies is started again. If no setting names a Redis, one is started in the "
        "project's folder .scrapy, and kept for the next run. On a second machine, the same command with the "
        "same REDIS_URL joins the crawl. Ctrl-C once: the workers finish the requests they have begun; "
        "twice: they close at once."
    )
    examples = (
        "scrapy frontier crawl quotes",
        "scrapy frontier crawl quotes -w 4 -O quotes.jsonl",
        "scrapy frontier crawl quotes -a tag=humor --max-memory 500",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the number of workers, and the files of their items."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        parser.add_argument(
            "-w",
            "--workers",
            type=whole,
            default=cores,
            metavar="N",
            help=f"the number of workers (default: one per core, {cores})",
        )
        files = parser.add_mutually_exclusive_group()
        files.add_argument(
            "-o",
            "--output",
            action="append",
            metavar="FILE",
            help="append the items of all workers to FILE: JSON lines (.jsonl), JSON, CSV or XML",
        )
        files.add_argument(
            "-O",
            "--overwrite-output",
            action="append",
            metavar="FILE",
            help="the same, but replace FILE",
        )
        parser.add_argument(
            "--max-memory",
            type=whole,
            metavar="MB",
            help="close and replace a worker that uses more than MB megabytes of memory",
        )
        parser.add_argument(
            "--stats",
            action="store_true",
            help="print the statistics of all workers at the end; without it, they are only in stats.json",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int:
        """Crawl; return the exit code: 0 if the crawl has ended by itself, 130 if it was interrupted.

        It is 3 if nothing could be reached, and 1 after another failure.
        """
        spidercls = context.spidercls(opts.spider)
        if spidercls is None:
            if context.project.list() or context.project.problems:
                raise context.no_spider(f"This project has no spider {opts.spider!r}")
            raise InspectionError(
                f"There is no spider {opts.spider!r} here: this folder is not in a Scrapy project"
            )
        project = Project(context.settings, spidercls)
        base = Path(data_path(f"frontier/{quote(opts.spider, safe='')}", createdir=True)).resolve()
        own_arguments = [f"{name}={value}" for name, value in opts.spider_arguments.items()]
        arguments = Arguments(opts.spider, opts.set, own_arguments)
        if context.project.problems:
            context.warn_of_broken_files()
            # Scrapy's loader in a worker would fail at the broken file.
            arguments.set("SPIDER_MODULES", spidercls.__module__)
        _set_redis(context, project, opts, arguments)
        if not project.has_our_scheduler:
            arguments.set("SCHEDULER", "scrapy_rq_sched.Scheduler")
        # Each worker logs to its own file.
        arguments.set("LOG_FILE", "")
        if opts.loglevel:
            arguments.set("LOG_LEVEL", opts.loglevel)
        if opts.max_memory:
            arguments.set("MEMUSAGE_ENABLED", "1")
            arguments.set("MEMUSAGE_LIMIT_MB", str(opts.max_memory))
            arguments.set("MEMUSAGE_CHECK_INTERVAL_SECONDS", str(MEMORY_INTERVAL))
        outputs = opts.overwrite_output or opts.output or []
        arguments.write(project, outputs, bool(opts.overwrite_output))
        view = context.view(opts.spider)
        run = base / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        _make_room(base)
        run.mkdir()
        screen = Screen(context, run, opts.spider, opts.workers)
        begun = time.time()
        for line in arguments.remarks:
            screen.say(line)
        writer = _open_files(context, arguments, view, screen.say)
        if any(_is_over(view, file.crawl) for file in arguments.files):
            return _complete_files(context, writer)
        is_finished, number = False, 0
        with _signals() as pressed:
            try:
                redis = RedisThread()
                limits = _limits(view, project, redis)
                supervisor = Supervisor(opts.workers, arguments.of, run, screen.say, limits)
                try:
                    number = _watch(supervisor, screen, pressed, lambda: redis.call(lambda: _status(view)))
                finally:
                    # Also if the terminal was closed.
                    supervisor.finish()
                    is_finished = supervisor.is_finished and supervisor.has_succeeded
            finally:
                writer.end(is_complete=is_finished)
        stats = report.total(supervisor.reports)
        _keep_statistics(context, stats, run / "stats.json", opts.stats)
        names = {member.name for member in supervisor.members}
        crawl, before = _ended(redis, lambda: crawl_end.find(view, number, names))
        crawl = crawl or crawl_end.of_this_machine(opts.spider, stats)
        logs = os.path.relpath(run)
        # At the end, where a reader looks first.
        for line in crawl_end.last_words(supervisor, crawl, before, time.time() - begun, logs):
            context.output.say(line)
        are_there = _say_items(context, writer, stats)
        if not supervisor.has_succeeded:
            return 130 if supervisor.requests_to_end else 1
        return 1 if not are_there else UNREACHABLE if is_unreachable(crawl) else 0


def _keep_statistics(context: Context, stats: report.Stats, path: Path, is_wanted: bool) -> None:
    """Write the statistics of all workers together to *path*, and print them if the user wants that."""
    try:
        path.write_text(json.dumps(stats, indent=2, default=str) + "\n")
    except OSError as error:
        context.output.warn(f"The statistics cannot be written to {path}: {error}")
    if is_wanted:
        context.output.say(f"Statistics of all workers:\n{pformat(stats)}\n")


def _ended(redis: RedisThread, find: Callable[[], Ended]) -> Ended:
    """Return the crawl as Redis knows it; nothing if it does not answer."""
    try:
        return redis.call(find).result(PATIENCE)
    except (connection.RedisError, FrontierError, FutureTimeoutError):
        return Ended()  # the last line then says that its numbers are of this machine


def _open_files(context: Context, arguments: Arguments, view: View, say: Callable[[str], None]) -> FeedWriter:
    """Open the files of ``-o``, ``-O`` and ``FEEDS``, and begin to move items to them.

    ``-O`` replaces a file only if the crawl is new, or if this machine has no part of it: else the file has a
    part of a crawl that is continued.
    """
    files = arguments.files
    is_new = bool(files) and _patiently(lambda: _is_new(view))
    if not is_new and any(file.overwrites and file.is_begun for file in files):
        context.output.say("An earlier run's crawl is continued: its files are appended to, not replaced")
    writer = None
    try:
        for file in files:
            file.open(file.overwrites, is_new)
        writer = FeedWriter(view.server, view.keys, files, say)
        arguments.set_joined()
        if files:
            arguments.set("FRONTIER_FEED", writer.tokens)
            _patiently(writer.start)
    except BaseException:
        if writer is not None:
            writer.release()
        for file in files:
            file.withdraw()
        raise
    return writer


def _is_new(view: View) -> bool:
    """Return whether a worker that starts now begins a new crawl, also if those of the last one have died."""
    status = read_status(view)
    is_done = status.left == 0
    return status.state in ("new", "finished") or (
        is_done and view.server.hexists(view.keys.meta, "finished")
    )


def _is_over(view: View, crawl: str) -> bool:
    """Return whether a crawl is finished of which an incomplete file has items: its writer was killed then.

    :param crawl: when the crawl began; empty: the file has no items.
    """
    began = text_of(_patiently(lambda: view.server.hget(view.keys.meta, "began")) or b"")
    return bool(crawl) and (crawl != began or _patiently(lambda: _is_new(view)))


def _complete_files(context: Context, writer: FeedWriter) -> int:
    """Write the last items of a crawl that is finished; return the exit code."""
    writer.end(is_complete=True)
    are_there = _say_items(context, writer, {})
    context.output.say(
        "The crawl that an earlier run of this command has begun is finished. Its items were completed, and "
        "nothing was crawled. To crawl again, run the command once more"
    )
    return 0 if are_there else 1


def _patiently(call: Callable[[], T]) -> T:
    """Return what *call* returns. Whether a reply is lost or not, it has the same effect."""
    return connection.retry(START_ATTEMPTS).call_with_retry(call, lambda error: None)


def _say_items(context: Context, writer: FeedWriter, stats: report.Stats) -> bool:
    """Say how many items were written to each file, and return whether they are all there."""
    are_there = True
    scraped, stored = (whole_of(stats.get(name)) for name in ("item_scraped_count", "items/stored"))
    for feed in writer.feeds:
        file = feed.file
        advice = writer.advice(feed)
        if not advice or (feed.waiting and not feed.is_changed):
            context.output.say(file.summary)
        # RedisPipeline counts what it stores, too: then the number of those for the file is not known.
        missing = stored - file.count - file.passed if stored <= scraped else 0
        if advice:
            context.output.warn(advice)
        elif missing > 0:
            context.output.warn(
                f"The workers stored {counted(stored, 'item')} in Redis, of which {missing} did not come to "
                f"{file.path}: Redis has lost data, or another program has taken them"
            )
        elif scraped and not (file.count or file.passed):
            context.output.warn(
                f"The workers scraped {counted(scraped, 'item')}, but none is in {file.path}: see the logs "
                "of the workers"
            )
        else:
            continue
        are_there = False
    for line in writer.unwritten_of_others():
        context.output.warn(line)
    return are_there


def _set_redis(context: Context, project: Project, opts: argparse.Namespace, arguments: Arguments) -> None:
    if opts.redis_url:
        arguments.set("REDIS_URL", opts.redis_url)
    elif not own_redis.says_where_redis_is(project.settings):
        url = own_redis.url()
        context.settings.set("REDIS_URL", url, "cmdline")
        arguments.set("REDIS_URL", url)
        context.output.say(
            f"No setting names a Redis: this project gets its own, {url}. It is kept, so that an interrupted "
            "crawl can be continued"
        )


def _make_room(base: Path) -> None:
    """Delete the logs of all runs except the latest, and of runs under way."""
    runs = sorted(folder for folder in base.iterdir() if folder.is_dir() and folder.name[:1].isdigit())
    for folder in runs[: 1 - KEPT_RUNS]:
        process = folder.name.rpartition("-")[2]
        if not (process.isdigit() and is_alive(int(process))):
            shutil.rmtree(folder, ignore_errors=True)


def _status(view: Any) -> Status | str:
    try:
        return with_last_crawl(view, read_status(view))
    except connection.RedisError as error:
        return connection.describe_error(view.server, error)
    except FrontierError as error:
        return str(error)


def _limits(view: View, project: Project, redis: RedisThread) -> Limits:
    lease = view.settings.lease_timeout
    closing = project.settings.getfloat("DOWNLOAD_TIMEOUT") + LEASES * lease
    return Limits(lease, closing, lambda worker: redis.call(lambda: _evidence(view, worker)))


def _evidence(view: View, worker: str) -> Evidence | None:
    """Return the requests of *worker*, in words; None if Redis does not answer."""
    try:
        found = read_requests(view, worker)
    except (connection.RedisError, FrontierError):
        return None  # the display shows why
    has_begun = bool(found.begun or found.taken_over)
    held, done = (found.begun, "begun") if has_begun else (found.unbegun, "leased")
    if held:
        text = single_line(held[0].entry.url) or "a request that cannot be read"
        text += f", or another of the {len(held)} requests that it had {done}" if len(held) > 1 else ""
    elif found.taken_over:
        text = f"{counted(found.taken_over, 'request')} that other workers have taken over"
    else:
        text = ""
    return Evidence(text, found.exchange, has_begun)


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    """Give a function that returns how often this process was told to end, by Ctrl-C or a signal."""
    pressed: list[int] = []
    # A signal that is ignored, such as SIGHUP under nohup, stays ignored.
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    numbers = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: pressed.append(number)) for number in numbers}
    try:
        yield lambda: len(pressed)
    finally:
        for number_, handler in before.items():
            signal.signal(number_, handler)


def _watch(
    supervisor: Supervisor,
    screen: Screen,
    pressed: Callable[[], int],
    find_status: Callable[[], Future[Status | str]],
) -> int:
    """Watch the workers until all have ended; return the number of the crawl; 0 if it is unknown."""
    number = 0
    with screen.drawn():
        asked, drawn, status = 0.0, 0.0, None
        while not supervisor.is_over:
            supervisor.step()
            while supervisor.requests_to_end < min(2, pressed()):
                supervisor.end()
                screen.say(
                    "The workers finish the requests they have begun, and close. Ctrl-C once more: they "
                    "close at once"
                    if supervisor.requests_to_end == 1
                    else "The workers close at once"
                )
            now = time.monotonic()
            if status is None and now - asked >= screen.interval:
                asked, drawn, status = now, now, find_status()
            if status is not None and status.done():
                found, status = status.result(), None
                if not isinstance(found, str) and found.alive:
                    number = found.run
                screen.draw(supervisor, found)
            elif status is not None and now - asked >= watch.PATIENCE and now - drawn >= screen.interval:
                drawn = now
                screen.draw(supervisor, "")
            time.sleep(STEP)
        if supervisor.is_finished:
            status = find_status()
            wait([status], watch.PATIENCE)
            if status.done():
                screen.draw(supervisor, status.result())
    return number
