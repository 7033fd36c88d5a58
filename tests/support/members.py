"""A site for members, which allows each account one request at a time, with a gap between two of them.

Run as ``python -m tests.support.members RECORD GAP LATENCY PAGES``: it prints the port that it listens on.
The record of the fleet gets a line for each page that a member was shown (``downloaded``), each login
(``login``), each request of an account (``used``, with the process of its worker), each that came too soon
(``refused``), and each that came while another one was answered (``double``).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
#: What a visitor without an account is shown.
PLEASE = "please log in"
#: The header with the process of the worker.
WORKER = "x-worker"


def password_of(account: str) -> str:
    """Return the password of *account*."""
    return f"secret-of-{account}"


def accounts(count: int) -> list[dict[str, str]]:
    """Return the accounts of the site, as a pool has them."""
    return [{"name": f"user{number}", "password": password_of(f"user{number}")} for number in range(count)]


@dataclass
class _Site:
    """The site's own process.

    :param gap: seconds between an answer to an account and its next request.
    """

    record: int
    gap: float
    latency: float
    pages: int
    port: int = 0
    sessions: dict[str, str] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    in_use: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, what: str) -> None:
        os.write(self.record, f"{time.time():.6f} {os.getpid()} {kind} {what}\n".encode())

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while header := (await reader.readline()).decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
                status, more, text = await self.answer(method, path, headers, body)
                lines = f"HTTP/1.1 {status} X", "Content-Type: text/plain", f"Content-Length: {len(text)}"
                writer.write(("\r\n".join([*lines, *more, "", text])).encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a worker was killed
        finally:
            writer.close()

    async def answer(
        self, method: str, path: str, headers: dict[str, str], body: str
    ) -> tuple[int, list[str], str]:
        """Return the status, further headers and the text of an answer."""
        fields = (cookie.strip().partition("=") for cookie in headers.get("cookie", "").split(";"))
        session = {name: value for name, _, value in fields}.get("session", "")
        account, more = self.sessions.get(session, ""), []
        if method == "POST":
            form = dict(urllib.parse.parse_qsl(body))
            account = form["name"]
            assert form["password"] == password_of(account)
            session = secrets.token_hex(8)
            self.sessions[session] = account
            more = [f"Set-Cookie: session={session}; Path=/"]
            self.note("login", account)
        if not account:
            return 200, [], PLEASE
        self.note("used", f"{account} {headers.get(WORKER, '-')} {path}")
        is_double = self.in_use[account] > 0
        is_early = time.monotonic() < self.answered.get(account, 0.0) + self.gap
        self.in_use[account] += 1
        await asyncio.sleep(self.latency)
        self.in_use[account] -= 1
        if is_double or is_early:
            self.note("double" if is_double else "refused", f"{account} {path}")
        elif method == "GET":
            self.note("downloaded", f"http://127.0.0.1:{self.port}{path}")
        # Before the answer: after it the next request may come at once.
        self.answered[account] = time.monotonic()
        if is_double or is_early:
            return 429, [], "too many requests"
        return 200, more, " ".join(map(str, range(self.pages))) if path == "/" else path

    async def serve(self) -> None:
        server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        print(self.port, flush=True)
        await server.serve_forever()


@contextmanager
def members_site(record: Path, gap: float, pages: int, latency: float = 0.02) -> Iterator[str]:
    """Give the URL of such a site, whose first page leads to as many *pages*."""
    command = [sys.executable, "-m", "tests.support.members", record, gap, latency, pages]
    site = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert site.stdout
        yield f"http://127.0.0.1:{int(site.stdout.readline())}"
    finally:
        site.kill()
        site.wait()


if __name__ == "__main__":
    _record = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    asyncio.run(_Site(_record, float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])).serve())
