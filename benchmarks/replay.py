"""What pauses cost Redis: the exchanges of a crawl, recorded, and made again with their pauses and without.

While Redis waits for the next exchange of a worker, other processes fill the caches of its processor. A Redis
that many workers keep busy does without such pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hiredis

from .arena import OURS, Arena, BenchmarkError, Contender, cpu_of
from .figures import Figures, Options

#: The commands that run a script.
_SCRIPTS = (b"FCALL", b"EVALSHA", b"EVAL")
ONE_LINK, TEN_LINKS = "one new link on every page", "ten new links on every page"
WITH_PAUSES, AT_ONCE = "as they came", "one right after the other"


class _Command(NamedTuple):
    """A command of a worker, and the monotonic time at which it came."""

    at: float
    words: list[bytes]


class _Recorder:
    """A server that passes everything on to a Redis and back, and keeps the commands that run scripts."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = parts.hostname or "localhost", parts.port or 6379
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        port = self._server.sockets[0].getsockname()[1]
        credentials, at, _ = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=f"{credentials}{at}127.0.0.1:{port}").geturl()
        self.commands: list[_Command] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @classmethod
    @contextlib.contextmanager
    def before(cls, url: str) -> Iterator[_Recorder]:
        """Record what comes to the Redis at *url* until the end of the block."""
        recorder = cls(url)
        recorder._thread.start()
        try:
            yield recorder
        finally:
            recorder._loop.call_soon_threadsafe(recorder._server.close)
            recorder._loop.call_soon_threadsafe(recorder._loop.stop)
            recorder._thread.join(30)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_connection(*self._target)
        back = asyncio.ensure_future(self._pass_on(from_redis, writer))
        await self._pass_on(reader, to_redis, hiredis.Reader())
        await back

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        parser: hiredis.Reader | None = None,
    ) -> None:
        with contextlib.closing(writer):
            while data := await reader.read(1 << 20):
                writer.write(data)
                if parser is not None:
                    parser.feed(data)
                    while words := parser.gets():
                        if words[0].upper() in _SCRIPTS:
                            self.commands.append(_Command(time.monotonic(), words))


def run(arena: Arena, options: Options) -> Figures:
    """Record the two crawls, and make their exchanges again."""
    figures = Figures()
    graph, growing = options.size(quick=300, full=3000), options.size(quick=200, full=2000)
    for _ in options.turns("replay"):
        for name, pages, arguments, settings in (
            (ONE_LINK, graph, (), {"SITE_PAGES": graph}),
            (TEN_LINKS, growing, ("-a", f"pages={growing}"), {}),
        ):
            with _Recorder.before(arena.url) as recorder:
                arena.crawl(
                    Contender(OURS),
                    "graph",
                    *arguments,
                    environment={"REDIS_URL": recorder.url},
                    **settings,
                )
            for way in (WITH_PAUSES, AT_ONCE):
                cpu = _replay(arena, recorder.commands, pages, way == WITH_PAUSES)
                figures.add(f"{name}, {way}", redis_us=1e6 * cpu / pages)
    return figures


def _replay(arena: Arena, commands: list[_Command], pages: int, pauses: bool) -> float:
    """Make the exchanges again, and return the seconds of processor time that Redis needed.

    :raises BenchmarkError: if they did not hand out all pages.
    """
    arena.redis.flushall()
    before, began, handed = cpu_of(arena.redis), time.monotonic(), 0
    for command in commands:
        if pauses:
            time.sleep(max(0.0, command.at - commands[0].at - (time.monotonic() - began)))
        handed += _leases(arena.redis.execute_command(*command.words))
    cpu = cpu_of(arena.redis) - before
    if handed < pages:
        raise BenchmarkError(f"the recorded exchanges handed out {handed} pages of {pages}")
    return cpu


def _leases(reply: Any) -> int:
    """Return how many leases the reply of a script has. Only an exchange replies with a header and a list."""
    is_exchange = isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list)
    return len(reply[1]) // 2 if is_exchange else 0
