"""One private Redis for all workers of this host: ``REDIS_URL = "embedded:///folder"``.

Whoever needs it first starts it, the others join it, and when the last of them has ended, however it did,
the server ends as well. Its data stay in the folder. So each user process holds a shared lock on a file
there, which the kernel frees with the process; and a process of its own, which started the server, waits
until it can have that lock alone.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..embedded import START_TIMEOUT, server_executable
from ..errors import FrontierError, SettingError
from . import watchdog as server_watch

#: Bytes that the path of a socket may have, on all systems.
LONGEST_PATH = 103

#: The lock files that this process holds, by folder.
_joined: dict[str, int] = {}
_one_at_a_time = threading.Lock()


def socket_path(folder: str) -> Path:
    """Return the path of the server's socket.

    :raises SettingError: if it is too long for one.
    """
    path = Path(folder) / server_watch.SOCKET
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingError(
            f"REDIS_URL is embedded://{folder}: the path is too long for a socket. It must have at most "
            f"{LONGEST_PATH - len(server_watch.SOCKET) - 1} bytes"
        )
    return path


def join(folder: str) -> None:
    """Use the server in *folder* for as long as this process lives; start it if it does not run.

    :raises FrontierError: if it cannot be started.
    """
    if folder not in _joined:
        ensure_running(folder)


def ensure_running(folder: str) -> None:
    """Start the server in *folder* if it does not run, and use it for as long as this process lives.

    :raises FrontierError: if it cannot be started.
    """
    executable = server_executable()
    with _errors_of(folder), _one_at_a_time:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder not in _joined:
            _joined[folder] = _share(folder)
        with server_watch.lock(folder, server_watch.START, START_TIMEOUT):
            _start(folder, executable)


def _share(folder: str) -> int:
    file = server_watch.open_lock(folder, server_watch.USERS)
    deadline = time.monotonic() + server_watch.STOP_TIMEOUT
    # While the server of those before ends, this waits.
    while not server_watch.try_lock(file, fcntl.LOCK_SH):
        if time.monotonic() > deadline:
            os.close(file)
            raise FrontierError(
                f"The private Redis in {folder} is shutting down, and has not stopped within "
                f"{server_watch.STOP_TIMEOUT:g} s. Its log is {Path(folder) / server_watch.LOG}"
            )
        time.sleep(0.02)
    return file


def _start(folder: str, executable: str) -> None:
    log = Path(folder) / server_watch.LOG
    watch: subprocess.Popen[bytes] | None = None
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        answer = server_watch.say(folder, b"PING")
        is_watched = server_watch.is_held(folder, server_watch.WATCH)
        is_loading = answer is not None and answer.startswith(b"-LOADING")
        if answer and not is_loading and is_watched:
            return  # whatever else it says, whoever uses it will read it
        if is_loading:
            deadline = time.monotonic() + START_TIMEOUT  # it reads its data, however much that is
        if not is_watched and watch is None:
            watch = _start_watch(folder, executable, log)
        if time.monotonic() > deadline or (watch is not None and watch.poll()):
            raise FrontierError(f"The private Redis in {folder} did not start. Its log is {log}")
        time.sleep(0.02)


def _start_watch(folder: str, executable: str, log: Path) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in the terminal reaches the crawl, not the server under it.
    command = [sys.executable, "-I", server_watch.__file__, folder, executable]
    with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
        return subprocess.Popen(  # noqa: S603 - our own arguments
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


@contextmanager
def _errors_of(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # also TimeoutError
        raise FrontierError(f"REDIS_URL is embedded://{folder}: {error}") from error


def _after_fork() -> None:
    # A child shares its parent's locks, which are not its own, and may have been forked while this was held.
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    _joined.clear()


os.register_at_fork(after_in_child=_after_fork)
