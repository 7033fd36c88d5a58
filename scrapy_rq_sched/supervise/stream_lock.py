"""A lock on a stream of items: two programs that move its items to their files would both write them."""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..codec.values import whole_of
from ..errors import FrontierError, bounded
from ..frontier.scripts import Script
from ..keys import Keys
from ..runtime.run import clock

#: Seconds after which the lock of a program that has died is free; and until a lock is renewed.
TTL, RENEWAL = 30.0, 5.0
#: Seconds between two looks at a lock that another program has.
LOOK = 0.5

# If the key has the value ARGV[1] (empty: it does not exist), give it the value ARGV[2] for ARGV[3]
# milliseconds (empty: remove it). Else return the value that it has, and after how many milliseconds it
# expires. The first write lets the second one succeed in a full Redis: a program that takes items makes room.
_CHANGE = b"""
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return {value or '', redis.call('PTTL', KEYS[1])} end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return false
"""


class _Owner(NamedTuple):
    """The program that has a lock.

    :param process: tells it from all others, on this machine; empty if that is not known.
    """

    host: str
    pid: int
    path: str
    process: str

    @classmethod
    def of(cls, value: bytes) -> _Owner:
        """Return the owner that has written *value*."""
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):  # somebody else has
            found = None
        found = found if isinstance(found, dict) else {}
        host, path, process = (str(found.get(name, "")) for name in ("host", "path", "process"))
        return cls(host, whole_of(found.get("pid")), path, process)

    @property
    def is_alive(self) -> bool | None:
        """Whether it runs; None if it is on another machine, so that only the time can tell."""
        space, _, start = self.process.rpartition(" ")
        if not space or space != _space():
            return None
        return _start_of(self.pid) == start

    def __str__(self) -> str:
        return f"process {self.pid} on {bounded(self.host)}, to {bounded(self.path)}"


class StreamLock:
    """The right to move the items of a stream. It ends after :data:`TTL` seconds, unless it is renewed.

    :param server: a redis-py client, and :param keys: the keys of the frontier.
    :param stream: the stream's key.
    :param path: the file to which the items go.
    """

    def __init__(self, server: Any, keys: Keys, stream: str, path: Path) -> None:
        self._server = server
        self._key = keys.stream_writer(stream)
        self._stream = stream
        self._change = Script(server, _CHANGE)
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "path": str(path)}
        space, start = _space(), _start_of(os.getpid())
        process = f"{space} {start}" if space and start else ""
        self._value = json.dumps({**owner, "process": process, "id": secrets.token_hex(8)}).encode()
        self._renewed = -math.inf

    def acquire(self, say: Callable[[str], None]) -> None:
        """Get the lock. If its owner may have died, wait until it expires.

        :param say: called with a line if this waits.
        :raises FrontierError: if another program has it.
        """
        before: tuple[bytes, int] | None = None
        expected = b""
        while (found := self._change_from(expected, self._value)) is not None:
            value, left = found
            owner = _Owner.of(value)
            # A reply that was lost; or a program of which this machine knows that it has died.
            if value in (b"", self._value) or owner.is_alive is False:
                expected = value
                continue
            has_renewed = before is not None and (value != before[0] or left > before[1])
            if owner.is_alive or has_renewed or left < 0:
                raise FrontierError(self._refusal(owner))
            if before is None:
                say(
                    f"The items of this file are moved by {owner}, which may have died. Waiting for at most "
                    f"{left / 1000:.0f} s"
                )
            before, expected = found, b""
            time.sleep(LOOK)
        self._renewed = clock()

    def hold(self) -> None:
        """Renew the lock if it is time to.

        :raises FrontierError: if another program has it meanwhile.
        """
        # Not time.monotonic(), which stands still while the machine is suspended.
        now = clock()
        if now - self._renewed < RENEWAL:
            return
        # It may have expired, or Redis may have lost it.
        if self._change_from(self._value, self._value) and (found := self._change_from(b"", self._value)):
            raise FrontierError(self._refusal(_Owner.of(found[0])))
        self._renewed = now

    def release(self) -> None:
        """Give the lock to others."""
        self._renewed = -math.inf
        self._change_from(self._value, b"")

    def _change_from(self, expected: bytes, value: bytes) -> tuple[bytes, int] | None:
        """Change the lock's value if it is the *expected* one.

        :return: None; or another value that it has, and the milliseconds until it expires.
        """
        found = self._change([self._key], [expected, value, int(TTL * 1000)])
        return None if found is None else (bytes(found[0]), int(found[1]))

    def _refusal(self, owner: _Owner) -> str:
        return (
            f"The items of the key {bounded(self._stream)!r} are moved by another program: {owner}. Wait "
            "until it ends, or end it"
        )


def _space() -> str:
    """Return what names this machine since its start, and the processes that it sees; empty: unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Return when a process has started; empty if it does not run."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]
