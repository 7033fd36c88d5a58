"""One private Redis for all workers of this host: ``REDIS_URL = "embedded:///folder"``.

Whoever needs it first starts it, the others join it, and when the last of them has ended, however it did,
the server ends as well. Its data stay in the folder. So each user process holds a shared lock on a file
there, which the kernel frees with the process; and a process of its own, which started the server, waits
until it can have that lock alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .embedded import START_TIMEOUT, STOP_TIMEOUT, server_executable
from .errors import FrontierError, SettingError

#: Bytes that the path of a socket may have, on all systems.
LONGEST_PATH = 103
#: Seconds between two looks of the process that watches over the server.
WATCH_INTERVAL = 0.1

_joined: dict[tuple[int, str], int] = {}
_joining = threading.Lock()


def socket_path(folder: str) -> Path:
    """Return the path of the server's socket.

    :raises SettingError: if it is too long for one.
    """
    path = Path(folder) / "redis.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingError(
            f"REDIS_URL is embedded://{folder}: the path is too long for a socket in it. Take a folder with "
            f"at most {LONGEST_PATH - len('/redis.sock')} bytes"
        )
    return path


def ensure_running(folder: str) -> None:
    """Join the server in *folder*, for as long as this process lives; start it if it does not run.

    :raises FrontierError: if it cannot be started.
    """
    path = socket_path(folder)
    server_executable()
    with _joining:
        try:
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            _join(folder)
        except OSError as error:
            raise FrontierError(f"REDIS_URL is embedded://{folder}: {error}") from error
        with _locked(folder, "start.lock"):
            _start(folder, path)


def _join(folder: str) -> None:
    key = os.getpid(), folder
    if key not in _joined:
        file = os.open(Path(folder) / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        # While the server of those before ends, this waits.
        fcntl.flock(file, fcntl.LOCK_SH)
        _joined[key] = file


def _start(folder: str, path: Path) -> None:
    log = Path(folder) / "redis.log"
    watch = None
    deadline = time.monotonic() + START_TIMEOUT
    while not (_answers(path) and _is_held(folder, "server.lock")):
        if watch is None and not _is_held(folder, "server.lock"):
            # A session of its own: Ctrl-C in the terminal reaches the crawl, not the server under it.
            command = [sys.executable, "-m", __name__, folder]
            with log.open("ab") as output:
                watch = subprocess.Popen(  # noqa: S603 - our own arguments
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
        if _say(path, b"PING").startswith(b"-LOADING"):
            deadline = time.monotonic() + START_TIMEOUT  # it reads its data, however much that is
        if time.monotonic() > deadline or (watch is not None and watch.poll()):
            raise FrontierError(f"The private Redis did not start; its log is {log}")
        time.sleep(0.02)


def _watch(folder: str) -> int:
    """Keep the server running until nobody uses it; return the exit code."""
    path = socket_path(folder)
    with _locked(folder, "server.lock"):
        server: subprocess.Popen[bytes] | None = None
        file = os.open(Path(folder) / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        while not _try_lock(file):
            if server is not None and server.poll():
                return 1
            if server is None and not _answers(path):
                server = _serve(folder, path)
            elif server is not None and server.poll() is not None:
                server = None
            time.sleep(WATCH_INTERVAL)
        _say(path, b"SHUTDOWN")
        deadline = time.monotonic() + STOP_TIMEOUT
        while _answers(path) and time.monotonic() < deadline:
            time.sleep(WATCH_INTERVAL)
        if server is not None:
            server.kill()
            server.wait()
    return 0


def _serve(folder: str, path: Path) -> subprocess.Popen[bytes]:
    path.unlink(missing_ok=True)
    command = [server_executable(), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    command += ["--dir", folder, "--appendonly", "yes", "--save", "", "--daemonize", "no"]
    return subprocess.Popen(command)  # noqa: S603 - our own arguments


def _say(path: Path, command: bytes) -> bytes:
    """Return the beginning of the server's answer; empty if there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(path))
            connection.sendall(command + b"\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def _answers(path: Path) -> bool:
    return _say(path, b"PING").startswith(b"+PONG")


@contextmanager
def _locked(folder: str, name: str) -> Iterator[None]:
    file = os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_held(folder: str, name: str) -> bool:
    file = os.open(Path(folder) / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not _try_lock(file)
    finally:
        os.close(file)


if __name__ == "__main__":
    sys.exit(_watch(sys.argv[1]))
