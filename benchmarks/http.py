"""A crawl of a local site over sockets, with link extraction from HTML."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from .arena import MEMORY, OURS, PEER, ROOT, Arena, BenchmarkError, Contender
from .figures import Figures, Options

#: Scrapy's own handler, and not the site's without a network.
OVER_SOCKETS = '{"http": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler", "https": null}'


def contenders() -> list[Contender]:
    """Return who takes part."""
    return [Contender(MEMORY), Contender(OURS), Contender(OURS, 10), Contender(PEER)]


def run(arena: Arena, options: Options) -> Figures:
    """Crawl a site to its end."""
    figures = Figures()
    pages = options.size(quick=200, full=1500)
    with site("site", pages) as port:
        for _ in options.turns("http"):
            for contender in contenders():
                crawl = arena.crawl(
                    contender, "html", "-a", f"site=http://127.0.0.1:{port}", DOWNLOAD_HANDLERS=OVER_SOCKETS
                )
                if crawl.pages != pages:
                    raise BenchmarkError(f"{contender}: {crawl.pages} pages crawled of {pages}")
                figures.add(str(contender), **crawl.figures())
    return figures


@contextlib.contextmanager
def site(module: str, *arguments: int) -> Iterator[int]:
    """Start the site of a *module* of this package, and yield its port."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or not (port := process.stdout.readline()):
            raise BenchmarkError("the site did not start")
        yield int(port)
    finally:
        process.kill()
        process.communicate()
