"""Record the pictures of a terminal that the documentation shows: ``python -m tests.tools.record_pictures``.

It needs tmux, and Pillow: ``pip install pillow``. Both are used here only.
"""

from __future__ import annotations

import io
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
from playwright.sync_api import Page
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from scrapy_rq_sched.embedded import free_port

from ..dashboard.browser import chromium
from ..support.pages import DOCS, ROOT

PICTURES = DOCS / "images"
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
    print(f"{path.relative_to(ROOT)}: {len(frames)} frames, {path.stat().st_size // 1000} kB")


def picture(page: Page, path: Path, command: str, lines: int, until: Callable[[str], bool]) -> None:
    """Write a picture of *command* as soon as its screen shows what is wanted."""
    with terminal(command, lines) as shown:
        while not until(shown.text().plain):
            time.sleep(0.5)
        shown.picture(page).quantize(48).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def watched_crawl(folder: str) -> str:
    """Return a command that has two workers crawl the shop, and then watches them; all end with it."""
    python, port = shlex.quote(sys.executable), free_port()
    crawl = f"{python} -m scrapy crawl site -a url=http://127.0.0.1:{port}/ --nolog"
    return (
        f"trap 'kill 0' EXIT; export PATH={Path(sys.executable).parent}:$PATH; "
        f"export REDIS_URL=embedded://{folder}/redis; "
        f"{python} -m demo.site --port {port} > /dev/null & {crawl} & {crawl} & sleep 5; clear; "
        "scrapy frontier status site --watch"
    )


def main() -> None:
    """Record all."""
    python = shlex.quote(sys.executable)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=1)
        record(page, PICTURES / "demo.gif", f"{python} -m demo", 37)
        with tempfile.TemporaryDirectory() as folder:
            command = f"bash -c {shlex.quote(watched_crawl(folder))}"
            picture(page, PICTURES / "status.png", command, 22, lambda text: "time left" in text)


if __name__ == "__main__":
    main()
