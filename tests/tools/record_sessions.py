"""Record the sessions of ``docs/command-line.md``: ``python -m tests.tools.record_sessions``.

Two workers crawl the example project's shop. Each command of the page is typed in its turn, at a terminal of
80 columns without colours, and its output is written below it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.servers.addresses import show_address

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "command-line.md"
PROJECT = ROOT / "example_project"
#: The port that the page has, whichever the shop really has.
SHOWN_PORT = "8000"

#: A page of the shop that waits, in a command: which, is found out.
_LATE = re.compile(r"explain site (http://\S+/(?:book|author)/\S*)")
_SESSION = re.compile(r"```console\n\$ (.*)\n(?:.*\n)*?```\n")


def main() -> None:
    """Write the page anew."""
    with tempfile.TemporaryDirectory() as folder, PrivateRedis(folder, port=0) as server:
        port = str(free_port())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "REDIS_URL": server.url, "PATH": path, "PYTHONUNBUFFERED": "1"}
        environment |= {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
        site = ["-m", "demo.site", "--port", port]
        crawl = ["-m", "scrapy", "crawl", "site", "-a", f"url=http://127.0.0.1:{port}/", "--nolog"]
        commands = [site, crawl, crawl]
        processes = [
            subprocess.Popen([sys.executable, *arguments], cwd=PROJECT, env=environment)
            for arguments in commands
        ]
        try:
            time.sleep(15)  # a crawl that has begun well; nothing is measured by it
            with redis.Redis.from_url(server.url) as client:
                client.rpush("site:start_urls", "htp//127.0.0.1:8000/typo.html")
            time.sleep(5)
            PAGE.write_text(
                _SESSION.sub(lambda found: _recorded(found[1], port, environment), PAGE.read_text())
            )
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
    (PROJECT / "site.frontier").unlink(missing_ok=True)


def _late_url(port: str, environment: dict[str, str]) -> str:
    """Return the address of a page that will not be crawled soon."""
    peek = [sys.executable, "-m", "scrapy", "frontier", "peek", "site", "-n", "700", "--json"]
    shown = subprocess.run(peek, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    url: str = json.loads(shown.stdout.splitlines()[-1])["url"]
    return url.replace(f":{port}/", f":{SHOWN_PORT}/")


def _recorded(command: str, port: str, environment: dict[str, str]) -> str:
    late = _LATE.search(command)
    if late is not None:
        command = command.replace(late[1], _late_url(port, environment))
    output = _on_a_terminal(command.replace(f":{SHOWN_PORT}/", f":{port}/"), environment)
    shown = output.replace(f":{port}/", f":{SHOWN_PORT}/").replace(
        show_address(environment["REDIS_URL"]), "redis://127.0.0.1:6379/0"
    )
    # Workers learn it by their next exchange.
    time.sleep(3)
    return f"```console\n$ {command}\n{shown.rstrip()}\n```\n"


def _on_a_terminal(command: str, environment: dict[str, str]) -> str:
    """Return the output of *command*; it is interrupted if it serves something."""
    if "frontier crawl" in command:
        environment = {**environment, "TERM": "dumb"}  # a live view is no text
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=PROJECT,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,  # so that no progress bar is drawn
        start_new_session=True,
    )
    os.close(theirs)
    output, is_interrupted = b"", False
    with contextlib.suppress(OSError):  # Linux reports the other end's close so
        while part := os.read(ours, 65536):
            output += part
            if not is_interrupted and b"Ctrl-C ends it" in output:
                is_interrupted = True
                time.sleep(2)  # until it serves
                os.killpg(process.pid, signal.SIGINT)
    output += process.communicate()[1]
    os.close(ours)
    return "\n".join(line.rstrip() for line in output.decode().splitlines())


if __name__ == "__main__":
    main()
