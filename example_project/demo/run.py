"""Start what the demo needs, follow the crawl to its end, and stop all of it whatever happens."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urljoin

from rich.console import Console

from scrapy_rq_sched.connection import RedisError, get_redis
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.frontier.health import check_server
from scrapy_rq_sched.servers.addresses import show_address
from scrapy_rq_sched.servers.shared import socket_path

from .crawl import Crawl, WorkerFailedError, judge
from .frontier import FrontierView
from .keyboard import Keyboard
from .processes import DemoError, Site, Worker, stop_workers
from .shop import Shop
from .signals import Interrupts
from .view import View, failure, live, refusal, summary, what_next

WORKERS = 3
#: Seconds, the mean time that the site takes to answer.
LATENCY = 0.2
#: Seconds between two looks at the crawl.
TICK = 0.15

#: What the spider is called in a Redis that is not the demo's own.
DEMO = "site-demo"


def run(interrupts: Interrupts) -> int:
    """Run the demo and return its exit status: 0 if every page was reached and all ended well.

    :raises Interrupted: if somebody wanted it to end. Nothing is left running then.
    """
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="scrapy-rq-sched-demo-"))
    failed = True
    try:
        failed = not _run(console, folder, interrupts)
    except WorkerFailedError as error:
        console.print(failure(str(error), error.worker), soft_wrap=True)
    except (DemoError, FrontierError, RedisError) as error:
        console.print(refusal(str(error)), soft_wrap=True)
    finally:
        # Who stopped the demo does not want to read why it did not finish.
        if failed and not interrupts.count and any(folder.iterdir()):
            console.print(f"The logs are in {folder}", highlight=False, markup=False, soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _run(console: Console, folder: Path, interrupts: Interrupts) -> bool:
    with ExitStack() as stack:
        redis_url, spider = _redis(folder)
        interrupts.check()
        frontier = FrontierView(redis_url, spider)
        stack.callback(_remove, frontier)
        site = Site(interrupts, LATENCY)
        stack.callback(site.stop)
        shop = Shop()
        url = site.wait_until_ready()
        workers: list[Worker] = []
        # At the end the first to stop, while the site and Redis still answer.
        stack.callback(stop_workers, workers, lambda: interrupts.count > 1)
        title = (
            f"{WORKERS} workers crawl the {len(shop.paths()):,} pages of {url}\n"
            f"Their keys: {spider}:* in {_where(redis_url)}\n"
        )
        started_at = time.monotonic()
        with Keyboard(live(console)) as keyboard, View(console, title, keyboard.is_there) as view:
            pages = {urljoin(url, path) for path in shop.paths()}
            crawl = Crawl(workers, frontier, pages, started_at, view.announce)
            for number in range(1, WORKERS + 1):
                interrupts.check()
                workers.append(Worker(number, spider, url, redis_url, folder))
            _follow(crawl, view, keyboard, interrupts)
        verdict = judge(crawl)
        console.print(summary(crawl, verdict, started_at))
        if not verdict.complaints:
            console.print(what_next(), highlight=False)
        return not verdict.complaints


def _redis(folder: Path) -> tuple[str, str]:
    """Return the URL of the Redis to use, and the name to give the spider."""
    url = os.environ.get("REDIS_URL")
    if not url:
        # It is started by whoever needs it first, and ends after the last.
        return f"embedded://{folder / 'redis'}", "site"
    check_server(get_redis(url=url, socket_timeout=3.0, socket_connect_timeout=3.0), f"{DEMO}:requests")
    # Somebody's own Redis: a name that nobody else has, so that no crawl of theirs is touched.
    return url, f"{DEMO}-{secrets.token_hex(4)}"


def _where(redis_url: str) -> str:
    """Return the command that looks into the demo's own Redis, or the address of another."""
    scheme, _, folder = redis_url.partition("://")
    if scheme != "embedded":
        return show_address(redis_url)
    return shlex.join(["redis-cli", "-s", str(socket_path(folder))])


def _follow(crawl: Crawl, view: View, keyboard: Keyboard, interrupts: Interrupts) -> None:
    while not crawl.finished:
        interrupts.check()
        for key in keyboard.pressed():
            if key in "123":
                crawl.kill(int(key), time.monotonic())
        crawl.step(time.monotonic())
        view.show(crawl)
        if not crawl.finished:
            time.sleep(TICK)


def _remove(frontier: FrontierView) -> None:
    # A crawl that finished has removed its frontier; one that was broken off has not. If Redis is
    # gone there is nothing to remove, and nothing to say that has not been said.
    with suppress(RedisError):
        frontier.remove()
