"""The process that keeps a private Redis running until nobody uses it; see ``shared.py``.

It is run by its path, with the folder and the server's program as arguments, and imports nothing of the
package: so it stays as small as the server.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: What is in the folder: the server's socket and its log; and locks, which the kernel frees with the process.
#: USERS: each process that uses the server shares it. START: who looks whether it has to be started. WATCH:
#: the process that is this module.
SOCKET, LOG = "redis.sock", "redis.log"
USERS, START, WATCH = "users.lock", "start.lock", "server.lock"
#: Seconds between two looks.
INTERVAL = 0.1
#: Seconds that the server may take to stop.
STOP_TIMEOUT = 30.0


def say(folder: str, command: bytes) -> bytes | None:
    """Return the beginning of the server's answer to *command*.

    :return: None if there is no server; empty if it does not answer within a second, as one that is busy.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(os.path.join(folder, SOCKET))
            connection.sendall(command + b"\r\n")
            return connection.recv(200)
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        except OSError:
            return b""


def open_lock(folder: str, name: str) -> int:
    """Return the file of a lock, not locked yet."""
    return os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(file: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock *file*, if nobody else has it; return whether it was done."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def lock(folder: str, name: str, timeout: float) -> Iterator[None]:
    """Hold a lock.

    :raises TimeoutError: if another has it for *timeout* seconds.
    """
    file = open_lock(folder, name)
    deadline = time.monotonic() + timeout
    try:
        while not try_lock(file):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{os.path.join(folder, name)} is locked by another process")
            time.sleep(0.02)
        yield
    finally:
        os.close(file)


def is_held(folder: str, name: str) -> bool:
    """Return whether somebody has a lock."""
    file = open_lock(folder, name)
    try:
        return not try_lock(file)
    finally:
        os.close(file)


def watch(folder: str, executable: str) -> int:
    """Keep the server running until nobody uses it; return the exit code."""
    server: subprocess.Popen[bytes] | None = None
    users = open_lock(folder, USERS)
    with lock(folder, WATCH, timeout=INTERVAL):
        while not try_lock(users):
            if server is not None and server.poll() is not None:
                if server.returncode > 0:  # it ended by itself; its log says why
                    return 1
                server = None
            # Also one that another watch has started, which is no more.
            if server is None and say(folder, b"PING") is None:
                server = _start(folder, executable)
            time.sleep(INTERVAL)
        _stop(folder, server)
    return 0


def _start(folder: str, executable: str) -> subprocess.Popen[bytes]:
    path = os.path.join(folder, SOCKET)
    if os.path.exists(path):
        os.unlink(path)
    command = [executable, "--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]
    command += ["--dir", folder, "--appendonly", "yes", "--save", "", "--daemonize", "no"]
    return subprocess.Popen(command)  # noqa: S603 - our own arguments


def _stop(folder: str, server: subprocess.Popen[bytes] | None) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT
    if server is not None:
        server.terminate()
    while (say(folder, b"SHUTDOWN") is not None) if server is None else (server.poll() is None):
        if time.monotonic() > deadline:
            break
        time.sleep(INTERVAL)
    if server is not None and server.poll() is None:
        server.kill()
        server.wait()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(watch(*sys.argv[1:]))
