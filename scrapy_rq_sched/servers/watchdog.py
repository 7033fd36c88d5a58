"""The process that keeps a private Redis running while workers use it; see ``shared.py``.

It is run by its path, with the folder and the server's program as arguments. It imports nothing of the
package, so that it needs as little memory as the server.
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

#: Files in the folder: the server's socket and log, and locks, which the kernel releases with their process.
#: USERS: shared by all processes that use the server. START: held by a process that checks whether to start
#: the server. WATCH: held by the process that runs this module.
SOCKET, LOG = "redis.sock", "redis.log"
USERS, START, WATCH = "users.lock", "start.lock", "server.lock"
#: Seconds between two checks.
INTERVAL = 0.1
#: Seconds to wait for the server to stop.
STOP_TIMEOUT = 30.0


def say(folder: str, command: bytes) -> bytes | None:
    """Send *command* to the server, and return the beginning of its answer.

    :return: None if no server runs; empty if it does not answer within a second, because it is busy.
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
    """Open the file of a lock, without locking it."""
    return os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(file: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock *file*. Return False if another process holds the lock."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def lock(folder: str, name: str, timeout: float) -> Iterator[None]:
    """Hold a lock.

    :raises TimeoutError: if another process holds it for *timeout* seconds.
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
    """Return whether a process holds the lock."""
    file = open_lock(folder, name)
    try:
        return not try_lock(file)
    finally:
        os.close(file)


def watch(folder: str, executable: str) -> int:
    """Keep the server running until no process uses it. Return the exit code."""
    server: subprocess.Popen[bytes] | None = None
    users = open_lock(folder, USERS)
    with lock(folder, WATCH, timeout=INTERVAL):
        while not try_lock(users):
            if server is not None and server.poll() is not None:
                if server.returncode > 0:  # it failed; its log has the reason
                    return 1
                server = None
            # The PING also finds a server that an earlier watch process has started.
            if server is None and say(folder, b"PING") is None:
                server = _start(folder, executable)
            time.sleep(INTERVAL)
        _stop(folder, server)
    return 0


def options(folder: str, path: str, port: int = 0) -> list[str]:
    """Return the options of a server that other users of the machine cannot reach.

    :param folder: the folder of the server's data.
    :param path: the path of its socket, which must be in a folder that only its user can enter.
    :param port: a TCP port of the loopback interface, for which the server needs a password; 0: none.
    """
    reached_by = ["--port", str(port), "--bind", "127.0.0.1", "--unixsocket", path, "--unixsocketperm", "700"]
    return [*reached_by, "--dir", folder, "--save", "", "--daemonize", "no"]


def _start(folder: str, executable: str) -> subprocess.Popen[bytes]:
    path = os.path.join(folder, SOCKET)
    if os.path.exists(path):
        os.unlink(path)
    command = [executable, *options(folder, path), "--appendonly", "yes"]
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
