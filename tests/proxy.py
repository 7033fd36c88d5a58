"""A TCP proxy that keeps every packet waiting: Redis, far away.

Run as ``python -m tests.proxy TARGET_PORT ROUND_TRIP_MS``: it prints the port that it listens on.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Pass on what is read *delay* seconds later, in order, as many packets under way as come."""
    loop = asyncio.get_running_loop()
    packets: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            due, data = await packets.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(1 << 16):
            packets.put_nowait((loop.time() + delay, data))
        packets.put_nowait((loop.time() + delay, b""))
        await sending
    except ConnectionError:
        sending.cancel()
        writer.close()


async def serve(target: int, delay: float) -> None:
    """Listen on a free port, print it, and pass everything on to *target*."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_pipe(reader, here, delay), _pipe(there, writer, delay))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class FarRedis:
    """A process that passes on to the Redis on *port*, at a distance of *milliseconds* there and back."""

    def __init__(self, port: int, milliseconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proxy", str(port), str(milliseconds)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = f"redis://127.0.0.1:{int(self._process.stdout.readline())}/0"

    def __enter__(self) -> FarRedis:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 2000))
