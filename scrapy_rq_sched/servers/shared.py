"""One private Redis for all workers of this host: ``REDIS_URL = "embedded:///folder"``.

The first worker starts the server, and the others use it too. When the last of them has ended in any way,
the server ends as well. Its data stay in the folder. For this, each process that uses the server holds a
shared lock on a file in the folder, which the kernel releases with the process. A separate process, which has
started the server, waits until it can get an exclusive lock.
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
from .addresses import secrets_in, show_path, without_secrets

#: The longest path of a socket on all systems, in bytes.
LONGEST_PATH = 103

#: The locked files of this process, by folder.
_joined: dict[str, int] = {}
_one_at_a_time = threading.Lock()


def socket_path(folder: str) -> Path:
    """Return the path of the server's socket.

    :raises SettingError: if the path is too long for a socket.
    """
    path = Path(folder) / server_watch.SOCKET
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SettingError(
            f"REDIS_URL is embedded://{show_path(folder)}: the path is too long for a socket. It must have "
            f"at most {LONGEST_PATH - len(server_watch.SOCKET) - 1} bytes"
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
    # This waits while the server of earlier workers shuts down.
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
            return  # if the answer is an error, the client reports it
        if is_loading:
            deadline = time.monotonic() + START_TIMEOUT  # while it reads its data there is no time limit
        if not is_watched and watch is None:
            watch = _start_watch(folder, executable, log)
        if time.monotonic() > deadline or (watch is not None and watch.poll()):
            raise FrontierError(f"The private Redis in {folder} did not start. Its log is {log}")
        time.sleep(0.02)


def _start_watch(folder: str, executable: str, log: Path) -> subprocess.Popen[bytes]:
    # In a session of its own, the server does not get the Ctrl-C that is meant for the crawl.
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
        # The error repeats the path.
        text = without_secrets(str(error), secrets_in({"folder": folder}))
        raise FrontierError(f"REDIS_URL is embedded://{show_path(folder)}: {text}") from error


def _after_fork() -> None:
    # A forked child must get locks of its own; and the fork may have happened while this lock was held.
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    _joined.clear()


os.register_at_fork(after_in_child=_after_fork)
