"""A TCP proxy before a Redis that does to connections what networks do: delay, stall, cut, lose replies.

Run as ``python -m tests.support.proxy TARGET_PORT SEED``: it prints the port that it listens on, and then
obeys the lines on its standard input, each of which it answers with a line when it is in force.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Server:
    """The proxy's own process: the rules in force, and the connections under them."""

    def __init__(self, target: int, seed: int) -> None:
        self.target = target
        self.delay = 0.0
        self.refuse = False
        self.swallow = 0.0
        self.break_before = 0.0
        self.random = random.Random(seed)
        self.passing = asyncio.Event()
        self.passing.set()
        self.faults = 0
        self.links: set[_Link] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            self.faults += 1
            writer.transport.abort()
            return
        try:
            there, here = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), (there, here))
        self.links.add(link)
        try:
            await link.run()
        except asyncio.CancelledError:
            pass  # the test has ended, and this process with it
        finally:
            self.links.discard(link)

    def cut(self) -> None:
        for link in list(self.links):
            self.faults += 1
            link.abort()

    def obey(self, line: str) -> str:
        command, *values = line.split()
        if command == "delay":
            self.delay = float(values[0]) / 2000
        elif command in ("swallow", "break_before"):
            setattr(self, command, float(values[0]))
        elif command == "stall":
            self.faults += 1
            self.passing.clear()
        elif command == "refuse":
            self.refuse = True
        elif command == "go":
            self.refuse = False
            self.passing.set()
        elif command == "cut":
            self.cut()
        elif command == "target":
            self.target = int(float(values[0]))
            self.cut()
        elif command != "faults":
            raise ValueError(line)
        return str(self.faults)


class _Link:
    """One client's connection. A client of ours says one thing at a time, and waits for the answer."""

    def __init__(self, server: _Server, client: _Streams, redis: _Streams) -> None:
        self._server = server
        self._client = client
        self._redis = redis
        self._awaits_reply = False

    async def run(self) -> None:
        up = self._pipe(self._client[0], self._redis[1], self._request)
        down = self._pipe(self._redis[0], self._client[1], self._reply)
        await asyncio.gather(up, down, return_exceptions=True)
        self.abort()

    def abort(self) -> None:
        for _, writer in (self._client, self._redis):
            writer.transport.abort()

    def _request(self, data: bytes) -> bytes:
        """Note that *data* goes up; return how much of it gets there, and break if that is not all."""
        is_new, self._awaits_reply = not self._awaits_reply, True
        server = self._server
        if not (is_new and server.random.random() < server.break_before):
            return data
        server.faults += 1
        # A half of it is none to Redis, which acts on whole commands only.
        part = server.random.choice([b"", data[: len(data) // 2]])
        self._redis[1].write(part)
        self._redis[1].close()
        self._client[1].transport.abort()
        return b""

    def _reply(self, data: bytes) -> bytes:
        """Note that *data* comes down, so that what was asked is done; perhaps nobody is told."""
        is_first, self._awaits_reply = self._awaits_reply, False
        server = self._server
        if is_first and server.random.random() < server.swallow:
            server.faults += 1
            self.abort()
            return b""
        return data

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], bytes]
    ) -> None:
        """Pass on what is read, in order, as late as it has to be, as many packets under way as come."""
        loop = asyncio.get_running_loop()
        packets: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await packets.get()
                await asyncio.sleep(due - loop.time())
                await self._server.passing.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        sending = asyncio.create_task(send())
        try:
            while data := await reader.read(1 << 16):
                if not (data := look(data)):
                    break
                packets.put_nowait((loop.time() + self._server.delay, data))
            packets.put_nowait((loop.time() + self._server.delay, b""))
            await sending
        except ConnectionError:
            sending.cancel()
            writer.close()


async def serve(target: int, seed: int) -> None:
    """Listen on a free port, print it, and obey until the standard input ends."""
    rules = _Server(target, seed)
    server = await asyncio.start_server(rules.connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while line := await commands.readline():
        print(rules.obey(line.decode()), flush=True)


class Proxy:
    """A process that passes on to the Redis at *url*, at a distance of *milliseconds* there and back.

    Its own address has the password of that Redis, which is no argument of the process.

    Each method returns when what it asks for is in force.
    """

    def __init__(self, url: str, milliseconds: float = 0.0, seed: int = 0) -> None:
        port = str(urlsplit(url).port)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.proxy", port, str(seed)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the test, which then ends this
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = url.replace(f":{port}/", f":{self.port}/")
        self.delay(milliseconds)

    def delay(self, milliseconds: float) -> None:
        """Be this far away, there and back."""
        self._say("delay", milliseconds)

    def stall(self) -> None:
        """Accept and read everything, and pass nothing on until :meth:`go`."""
        self._say("stall")

    def refuse(self) -> None:
        """Close new connections at once, until :meth:`go`."""
        self._say("refuse")

    def go(self) -> None:
        """Neither stall nor refuse any more. What was read meanwhile is passed on now."""
        self._say("go")

    def cut(self) -> None:
        """Close every connection."""
        self._say("cut")

    def swallow(self, probability: float) -> None:
        """Close a connection instead of passing on a reply: what was asked was done."""
        self._say("swallow", probability)

    def break_before(self, probability: float) -> None:
        """Close a connection instead of passing on a request, or in the middle of it: it is not done."""
        self._say("break_before", probability)

    def target(self, url: str) -> None:
        """Pass on to another server, as after a failover behind one address; cut what there is."""
        self._say("target", float(urlsplit(url).port or 0))

    @property
    def faults(self) -> int:
        """Connections cut and refused, replies and requests lost, and stalls, so far."""
        return self._say("faults")

    def _say(self, command: str, *values: float) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join([command, *map(str, values)]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
