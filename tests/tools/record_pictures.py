"""Record the pictures of the documentation: ``python -m tests.tools.record_pictures``.

The pictures of the page and of ``status`` are of a real crawl (``pictured_crawl.py``), after some minutes. It
needs tmux, and Pillow: ``pip install pillow``. Both are used here only.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from scrapy.settings import Settings

from scrapy_rq_sched.dashboard import create_app

from ..dashboard.asgi import TOKEN
from ..dashboard.browser import chromium, serving
from ..support.pages import DOCS, ROOT
from .pictured_crawl import PROJECT as CRAWLED
from .pictured_crawl import SPIDER, PicturedCrawl, pictured_crawl

#: The sizes of the page's pictures, in pixels.
WIDE, NARROW = (1280, 900), (400, 800)
SCHEMES = ("light", "dark")
PICTURES = ("demo", "page", "status")
PROJECT = ROOT / "example_project"
COLUMNS, LINES = 80, 24
#: Seconds between two frames of a recording, and for which the last one is shown.
FRAME, LAST = 0.5, 8.0
HTML = """<style>body {{ margin: 0; background: #191919; }}
pre {{ font: 15px/1.25 'DejaVu Sans Mono', monospace; margin: 0; padding: 14px 18px; width: 80ch; }}
{stylesheet}</style><body style="color: #d9d9d9"><pre>{code}</pre></body>"""


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, command: str, columns: int = COLUMNS, lines: int = LINES) -> None:
        self._name = f"record-{time.monotonic_ns()}"
        self._columns, self._lines = columns, lines
        size = ["-x", str(columns), "-y", str(lines)]
        # The shell stays when the command has ended, so that its last lines can be seen.
        shell = f"{command}; touch {{done}}; sleep 60"
        self._done = Path(tempfile.mkdtemp()) / "done"
        typed = shell.format(done=shlex.quote(str(self._done)))
        subprocess.run(
            ["tmux", "new-session", "-d", *size, "-s", self._name, "-c", PROJECT, typed], check=True
        )

    @property
    def is_done(self) -> bool:
        """Whether the command has ended."""
        return self._done.exists()

    def text(self) -> Text:
        """Return the characters on the screen, with their colours."""
        command = ["tmux", "capture-pane", "-e", "-p", "-t", self._name]
        screen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = screen.split("\n")[: self._lines]
        return Text.from_ansi("\n".join(lines + [""] * (self._lines - len(lines))))

    def picture(self, page: Page) -> Image.Image:
        """Return the screen as a picture; all are of one size."""
        console = Console(width=self._columns, record=True, file=io.StringIO(), force_terminal=True)
        console.print(self.text(), end="", no_wrap=True, crop=True)
        page.set_content(console.export_html(theme=DIMMED_MONOKAI, code_format=HTML))
        return Image.open(io.BytesIO(page.locator("pre").screenshot())).convert("RGB")

    def close(self) -> None:
        """Have no process stay behind."""
        subprocess.run(["tmux", "kill-session", "-t", self._name], check=False)


@contextmanager
def terminal(command: str, lines: int = LINES):  # type: ignore[no-untyped-def]
    """Give a terminal in which *command* runs."""
    one = Terminal(command, lines=lines)
    try:
        yield one
    finally:
        one.close()


def record(page: Page, path: Path, command: str, lines: int) -> None:
    """Write a moving picture of *command*, from its first line to its end."""
    frames: list[Image.Image] = []
    begun: list[float] = []
    with terminal(command, lines) as shown:
        while not shown.text().plain.strip():
            time.sleep(0.1)
        while not shown.is_done:
            begun.append(time.monotonic())
            frames.append(shown.picture(page))
            time.sleep(max(0.0, begun[-1] + FRAME - time.monotonic()))
        frames.append(shown.picture(page))
    lasts = [1000 * (after - before) for before, after in pairwise(begun)]
    durations = [*map(round, lasts), round(1000 * FRAME), round(1000 * LAST)]
    palette = frames[-1].quantize(48)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    small[0].save(path, save_all=True, append_images=small[1:], duration=durations, loop=0, optimize=True)
    print(f"{path}: {len(frames)} frames, {path.stat().st_size // 1000} kB")


def picture(page: Page, path: Path, command: str, lines: int, until: Callable[[str], bool]) -> None:
    """Write a picture of *command* as soon as its screen shows what is wanted."""
    with terminal(command, lines) as shown:
        while not until(shown.text().plain):
            time.sleep(0.5)
        shown.picture(page).quantize(48).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def watching(crawl: PicturedCrawl) -> str:
    """Return a command that watches *crawl*; a shell of tmux has another environment than this process."""
    names = {"PATH", "PYTHONPATH", "REDIS_URL"}
    variables = " ".join(f"{name}={shlex.quote(crawl.environment[name])}" for name in sorted(names))
    modules = "SPIDER_MODULES=crawls.shops"
    scrapy = f"{shlex.quote(sys.executable)} -m scrapy frontier status {SPIDER} --watch -s {modules}"
    return f"cd {shlex.quote(str(CRAWLED))} && clear && env {variables} {scrapy}"


def pictures_of_page(browser: Browser, url: str, folder: Path) -> None:
    """Write the pictures of the page: of a wide window, and of a phone, in light and in dark colours."""
    for scheme in SCHEMES:
        size = {"width": WIDE[0], "height": WIDE[1]}
        page = browser.new_page(
            viewport=size,  # type: ignore[arg-type]
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            locale="en-GB",
        )
        page.goto(f"{url}/?token={TOKEN}")
        page.goto(f"{url}/#/s/{SPIDER}/slots")
        page.locator("#panel-slots tbody tr").first.wait_for()
        page.wait_for_timeout(3000)  # until the numbers are those of some exchanges
        saved(page, folder / f"dashboard-{scheme}.png")
        page.goto(f"{url}/#/s/{SPIDER}/failed")
        page.locator("#panel-failed summary").first.click()
        page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
        page.wait_for_timeout(1000)
        page.evaluate("scrollTo(0, 0)")
        saved(page, folder / f"dashboard-small-{scheme}.png")
        page.close()


def saved(page: Page, path: Path) -> None:
    """Write a picture of *page*."""
    page.screenshot(path=path)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def real_crawl(browser: Browser, folder: Path, seconds: float, wanted: set[str]) -> None:
    """Have a crawl go on for *seconds*, and write the wanted pictures of it."""
    with pictured_crawl() as crawl:
        app = create_app(Settings({"REDIS_URL": crawl.url}), actions=True, token=TOKEN)
        with serving(app) as url:
            crawl.play(seconds)
            if "page" in wanted:
                pictures_of_page(browser, url, folder)
            if "status" in wanted:
                page = browser.new_page(viewport={"width": 1000, "height": 900})
                command = f"bash -c {shlex.quote(watching(crawl))}"
                picture(page, folder / "status.png", command, 22, lambda text: "ten minutes" in text)


def main() -> None:
    """Record all, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=PICTURES, help="record these")
    parser.add_argument("--out", type=Path, default=DOCS / "images", help="the folder of the pictures")
    parser.add_argument("--minutes", type=float, default=5.0, help="that the crawl lasts before its picture")
    options = parser.parse_args()
    wanted, folder = set(options.only), options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("REDIS_URL", None)  # the demo has a Redis of its own
    with chromium() as browser:
        if wanted & {"page", "status"}:
            real_crawl(browser, folder, 60 * options.minutes, wanted)
        if "demo" in wanted:
            page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=1)
            record(page, folder / "demo.gif", f"{shlex.quote(sys.executable)} -m demo", 37)


if __name__ == "__main__":
    main()
