"""Crawl the bookshop with a worker for each core, by one command: ``python -m demo.all_cores``.

The site is started here; the crawl is ``scrapy frontier crawl``, with a Redis of its own.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys


def main() -> int:
    """Crawl, and return the exit code of the command."""
    argparse.ArgumentParser(
        prog="python -m demo.all_cores",
        description="Crawl a bookshop on this machine with one worker for each core, by one command. "
        "The items are in site.jsonl at the end.",
    ).parse_args()
    # Ctrl-C is for the command, which has the workers finish.
    signal.signal(signal.SIGINT, lambda *_: None)
    site = subprocess.Popen(
        [sys.executable, "-m", "demo.site", "--port", "0", "--while-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert site.stdin is not None
    assert site.stdout is not None
    try:
        url = site.stdout.readline().strip()
        # The site is your own: no delay, and no setting that says which Redis.
        command = ["scrapy", "frontier", "crawl", "site", "-a", f"url={url}"]
        command += ["-s", "REDIS_URL=", "-s", "DOWNLOAD_DELAY=0", "-O", "site.jsonl"]
        print(f"$ {shlex.join(command)}", flush=True)
        return subprocess.call([sys.executable, "-m", *command])
    finally:
        site.stdin.close()
        site.wait()


if __name__ == "__main__":
    sys.exit(main())
