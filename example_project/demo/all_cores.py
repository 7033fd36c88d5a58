"""Crawl the bookshop with one worker, then with one for each core: ``python -m demo.all_cores``.

The site is started here; each crawl is one command, ``scrapy frontier crawl``, with a Redis of its own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys

from scrapy.utils.project import get_project_settings

from scrapy_rq_sched.commands import own_redis
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.crawl import Crawl
from scrapy_rq_sched.inspect.crawls import Crawls

#: The settings of both crawls. The site is your own: no delay, and enough requests at a time that the
#: processor is the limit. No setting says which Redis. An interrupted crawl is not continued: its site has
#: ended.
SETTINGS = {
    "REDIS_URL": "",
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "SCHEDULER_FLUSH_ON_START": True,
}


def main() -> int:
    """Crawl, say what the cores were worth, and return the exit code of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.all_cores",
        description="Crawl a bookshop on this machine with one worker, then with one for each core, each by "
        "one command, and compare them. The items are in site.jsonl at the end.",
    )
    parser.add_argument("--books", type=int, default=1200, help="how many the shop sells")
    books = parser.parse_args().books
    # Ctrl-C is for the command, which has the workers finish.
    signal.signal(signal.SIGINT, lambda *_: None)
    site = subprocess.Popen(
        [sys.executable, "-m", "demo.site", "--port", "0", "--books", str(books), "--while-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert site.stdin is not None
    assert site.stdout is not None
    try:
        url = site.stdout.readline().strip()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        crawls, load = [], os.getloadavg()[0]
        for workers in sorted({1, cores}):
            code = crawl(url, workers)
            if code:
                return code
            crawls.append(last_crawl())
        print(worth(crawls, cores), flush=True)
        if load > cores / 4:
            print(
                f"Other programs use this machine, too (load {load:.1f}): the comparison is rough.",
                flush=True,
            )
    finally:
        site.stdin.close()
        site.wait()
    return 0


def crawl(url: str, workers: int) -> int:
    """Crawl the site, and return the exit code of the command."""
    command = ["scrapy", "frontier", "crawl", "site", "-w", str(workers), "-a", f"url={url}"]
    command += ["-O", "site.jsonl"]
    command += [text for name, value in SETTINGS.items() for text in ("-s", f"{name}={value}")]
    print(f"$ {shlex.join(command)}", flush=True)
    code = subprocess.call([sys.executable, "-m", *command])
    print(flush=True)
    return code


def last_crawl() -> Crawl:
    """Return the crawl that has just ended, as the history has it."""
    settings = get_project_settings()
    settings.set("REDIS_URL", own_redis.url())
    crawls = Crawls(View.from_settings(settings, "site"))
    return next(crawls.read(crawls.numbers()[:1]))


def worth(crawls: list[Crawl], cores: int) -> str:
    """Return what the cores were worth: the pages a second of all workers, compared with those of one.

    The time of a crawl is that from the first worker that is ready to the last page.
    """
    one, *others = (crawl.pages / max(0.001, crawl.seconds) for crawl in crawls)
    if not others:
        return f"One worker: {one:.0f} pages a second. This machine has one core."
    return (
        f"One worker: {one:.0f} pages a second. {cores} workers: {others[0]:.0f} pages a second, "
        f"{others[0] / one:.2f} times as many. The site and Redis had their part of the same {cores} cores."
    )


if __name__ == "__main__":
    sys.exit(main())
