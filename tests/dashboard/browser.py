"""A real browser, and a dashboard that is served to it.

``python -m tests.dashboard.browser`` installs a browser on a machine that has none.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, sync_playwright

#: The size of the window, in pixels: of a screen, and of a phone.
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: What apt says if another program holds one of its locks.
LOCKED = "E: Could not get lock"
#: Seconds for which an installation waits for such a lock, and after which it is tried again.
PATIENCE, AGAIN = 600.0, 1.0

#: As root in a container there is no sandbox; all that is opened is ours.
BROWSER_ARGUMENTS = ["--no-sandbox"]

HOW = "apt-get install -y chromium, or python -m playwright install chromium"


def find(playwright: Playwright) -> str | None:
    """Return the path of this machine's browser, or of that of playwright's own; None if it has none."""
    own = Path(playwright.chromium.executable_path)
    return next(filter(None, map(shutil.which, NAMES)), str(own) if own.exists() else None)


def install() -> None:
    """Install one: the system's where that may be done, else playwright's own, for this user."""
    with sync_playwright() as playwright:
        if find(playwright) is not None:
            return
    reason = "because the tests of the web page need a browser and this machine has none."
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(
            f"Installing the system package chromium with apt-get, {reason} "
            f"This waits up to {PATIENCE:g} s for apt's lock.",
            flush=True,
        )
        commands = [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]]
    else:
        print(f"Downloading Chromium for this user with playwright, {reason}", flush=True)
        commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    for command in commands:
        if not succeeds(command):
            print(f"That failed, and these tests will fail. Install a browser: {HOW}", flush=True)
            return


def succeeds(command: list[str], patience: float = PATIENCE) -> bool:
    """Run *command*, and return whether it succeeded; while another program holds apt's lock, it is repeated.

    ``DPkg::Lock::Timeout`` would wait for dpkg's lock only, and not for those of the lists and the archives.

    :param patience: seconds for which it is repeated.
    """
    deadline = time.monotonic() + patience
    has_waited = False
    while True:
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            text=True,
            errors="replace",
            check=False,
        )
        if LOCKED not in done.stderr or not done.returncode or time.monotonic() > deadline:
            print(done.stderr, end="", file=sys.stderr, flush=True)
            return not done.returncode
        if not has_waited:
            print(f"Another program holds apt's lock. This waits for it, {patience:g} s at most.", flush=True)
        has_waited = True
        time.sleep(AGAIN)


def found(playwright: Playwright) -> str:
    """Return the path of this machine's browser. Without one a test fails: it does not skip."""
    path = find(playwright)
    if path is None:
        pytest.fail(f"There is no browser on this machine. Install one: {HOW}")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give the browser of this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(playwright), args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve *app* in a thread, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="warning", lifespan="off", **options)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


@dataclass
class Watched:
    """A page, and what must not happen on it.

    :ivar problems: what the browser has complained of, and what the page has asked other servers for.
    """

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    #: What the browser may say of answers that a test asks for.
    expected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in self.expected):
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).scheme != "data" and not request.url.startswith(self.url):
            self.problems.append(f"request to {request.url}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, route: str = "#/s/shop") -> Page:
        """Open the page, and wait until there is something on it."""
        self.page.goto(self.url + route)
        self.page.wait_for_selector("h1")
        if route.startswith("#/s/"):
            self.page.wait_for_selector("[data-name=waiting]:not(:empty)")
        return self.page

    def number(self, name: str) -> float:
        """Return what a tile shows."""
        return float(self.page.locator(f"[data-name={name}]").inner_text().replace(",", ""))

    def tab(self, name: str) -> Any:
        """Choose a tab, and return its panel."""
        self.page.locator(f"#tab-{name}").click()
        return self.page.locator(f"#panel-{name}")

    def confirm(self) -> str:
        """Confirm what is asked, and return the question."""
        text = self.page.locator("#dialog-text")
        text.wait_for()
        said = text.inner_text()
        self.page.locator("dialog button[type=submit]").click()
        return said

    def said(self) -> str:
        """Return what the page says that was done."""
        toast = self.page.locator("#toast")
        toast.wait_for()
        return toast.inner_text()


if __name__ == "__main__":
    install()
