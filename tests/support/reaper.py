"""Ends whatever the tests have started and left, however they end.

A process of its own waits for the end of a pipe that only the tests hold open: it comes when they are
through, and as well when they are killed. All that they start inherits a mark in its environment; a Redis
server, which writes its title over that, is known by the folder that it is in.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

#: The environment variable that marks a process as started by these tests.
MARK = "SCRAPY_RQ_SCHED_TESTS"
#: What the servers are called; a shell in their folder is no concern of ours.
SERVERS = {"redis-server", "valkey-server"}


def start(folder: Path) -> None:
    """Start the reaper of this process, and mark all that this process starts from now on.

    :param folder: the servers that run in it are of this process as well.
    """
    if not Path("/proc/self/environ").exists():
        return  # this system does not show what a process was started with
    mark = os.environ[MARK] = f"{os.getpid()}-{os.urandom(8).hex()}"
    ours, theirs = os.pipe()
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    # A session of its own: Ctrl-C is not meant for it. Only this process has the other end of the pipe.
    subprocess.Popen(
        [sys.executable, "-I", __file__, mark, str(folder)], stdin=ours, env=unmarked, start_new_session=True
    )
    os.close(ours)
    os.set_inheritable(theirs, False)


def left(mark: str, folder: Path) -> list[int]:
    """Return the processes that were started with *mark*, and the servers in *folder*."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_marked = wanted in (process / "environ").read_bytes().split(b"\0")
            is_server = (process / "comm").read_text().strip() in SERVERS
            is_there = is_server and (process / "cwd").readlink().is_relative_to(folder)
        except OSError:  # it has ended meanwhile, or is another user's
            continue
        if is_marked or is_there:
            found.append(int(process.name))
    return found


def main() -> None:
    """Wait for the end of the tests, and kill what they have left."""
    sys.stdin.buffer.read()
    # What is killed may have started another meanwhile.
    while processes := left(sys.argv[1], Path(sys.argv[2])):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


if __name__ == "__main__":
    main()
