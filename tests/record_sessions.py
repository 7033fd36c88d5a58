"""Record the sessions of ``docs/command-line.md``: ``python -m tests.record_sessions``.

Two workers crawl the example project's shop. Each command of the page is typed in its turn, and what it
prints is written below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scrapy_rq_sched.embedded import PrivateRedis, free_port

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "command-line.md"
PROJECT = ROOT / "example_project"
#: The port that the page has, whichever the shop really has.
SHOWN_PORT = "8000"

_SESSION = re.compile(r"```console\n\$ (.*)\n(?:.*\n)*?```\n")


def main() -> None:
    """Write the page anew."""
    with tempfile.TemporaryDirectory() as folder, PrivateRedis(folder) as server:
        port = str(free_port())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "REDIS_URL": server.url, "PATH": path, "PYTHONUNBUFFERED": "1"}
        site = ["-m", "demo.site", "--port", port]
        crawl = ["-m", "scrapy", "crawl", "site", "-a", f"url=http://127.0.0.1:{port}/", "--nolog"]
        commands = [site, crawl, crawl]
        processes = [
            subprocess.Popen([sys.executable, *arguments], cwd=PROJECT, env=environment)
            for arguments in commands
        ]
        try:
            time.sleep(20)  # a crawl that has begun well; nothing is measured by it
            PAGE.write_text(
                _SESSION.sub(lambda found: _recorded(found[1], port, environment), PAGE.read_text())
            )
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
    (PROJECT / "site.frontier").unlink(missing_ok=True)


def _recorded(command: str, port: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command.replace(f":{SHOWN_PORT}/", f":{port}/")],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shown = done.stdout.replace(f":{port}/", f":{SHOWN_PORT}/").replace(
        environment["REDIS_URL"], "redis://127.0.0.1:6379/0"
    )
    # Workers learn it by their next exchange.
    time.sleep(3)
    return f"```console\n$ {command}\n{shown.rstrip()}\n```\n"


if __name__ == "__main__":
    main()
