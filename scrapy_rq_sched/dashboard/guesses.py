"""The limit on guesses of the password or token.

A wrong guess is answered after a pause. Its address can guess again only when the pause is over, and all
addresses together only after a shorter one. Logins that come earlier wait in a queue with bounds. A right
login costs nothing, so without wrong guesses nobody waits. Nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

#: Logins that wait: of one address, and of all addresses. All users of a proxy may share one address: a user
#: among guessers there waits for those before, 20 seconds at this pace.
MOST_OF_ADDRESS, MOST = 40, 200
#: Addresses that are remembered.
MOST_ADDRESSES = 1000
#: Seconds after which the wrong guesses of an address are forgotten.
MEMORY = 600.0
#: Seconds that a login waits longer for each wrong guess of its address; and the most guesses that count.
HANDICAP, MOST_COUNTED = 0.1, 50
#: Seconds after which a refused login should come again.
RETRY_AFTER = 5


class Pace(NamedTuple):
    """Seconds after a wrong guess until the next one: from the same address, and from any address."""

    of_address: float = 0.5
    of_all: float = 0.05


class TooManyGuessesError(Exception):
    """Too many logins wait, so this one was not checked."""


@dataclass
class _Address:
    """The guesses of an address.

    :ivar free_at: the time from which it may guess.
    """

    wrong: int = 0
    free_at: float = 0.0
    waiting: int = 0


@dataclass
class _Attempt:
    """A login that waits for its check."""

    address: _Address
    check: Callable[[], bool]
    order: tuple[float, int]
    is_right: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Guesses:
    """Checks logins, no faster than guesses may come.

    :param pace: the pauses after a wrong guess.
    :param report: is called with the address of each wrong guess.
    """

    def __init__(self, pace: Pace | None = None, report: Callable[[str], None] | None = None) -> None:
        self._pace = pace or Pace()
        self._report = report
        self._addresses = OrderedDict[str, _Address]()
        self._waiting = list[_Attempt]()
        self._free_at = 0.0
        self._number = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def attempt(self, client: str, check: Callable[[], bool]) -> bool:
        """Return the result of *check*, which must not block, when *client* may guess.

        :param client: the address of the sender.
        :raises TooManyGuessesError: if too many logins wait.
        """
        network = network_of(client)
        address = self._address(network)
        penalty = HANDICAP * min(address.wrong, MOST_COUNTED)
        attempt = _Attempt(address, check, (time.monotonic() + penalty, next(self._number)))
        self._queue(attempt)
        try:
            self._serve()
            is_right = await attempt.is_right
        finally:
            self._leave(attempt)
        if not is_right:
            if self._report is not None:
                self._report(network)
            await asyncio.sleep(self._pace.of_address)
        return is_right

    def _queue(self, attempt: _Attempt) -> None:
        if attempt.address.waiting >= MOST_OF_ADDRESS:
            raise TooManyGuessesError
        if len(self._waiting) >= MOST:
            # An address with fewer wrong guesses takes the place of one with more.
            last = max(self._waiting, key=lambda one: one.order)
            if last.order < attempt.order:
                raise TooManyGuessesError
            self._leave(last)
            if not last.is_right.done():
                last.is_right.set_exception(TooManyGuessesError())
        attempt.address.waiting += 1
        self._waiting.append(attempt)

    def _leave(self, attempt: _Attempt) -> None:
        if attempt in self._waiting:
            self._waiting.remove(attempt)
            attempt.address.waiting -= 1

    def _serve(self) -> None:
        """Check each login that may be checked now, and come again for the others."""
        now = time.monotonic()
        while self._free_at <= now:
            ready = [one for one in self._waiting if one.address.free_at <= now]
            if not ready:
                break
            self._check(min(ready, key=lambda one: one.order), now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            next_at = max(self._free_at, min(one.address.free_at for one in self._waiting))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.001, next_at - time.monotonic()), self._serve)

    def _check(self, attempt: _Attempt, now: float) -> None:
        self._leave(attempt)
        if attempt.is_right.done():  # the client has gone
            return
        is_right, address = attempt.check(), attempt.address
        address.wrong = 0 if is_right else address.wrong + 1
        if not is_right:
            address.free_at = now + self._pace.of_address
            self._free_at = now + self._pace.of_all
        attempt.is_right.set_result(is_right)

    def _address(self, network: str) -> _Address:
        now = time.monotonic()
        address = self._addresses.setdefault(network, _Address())
        self._addresses.move_to_end(network)
        if now - address.free_at > MEMORY:
            address.wrong = 0
        if len(self._addresses) > MOST_ADDRESSES:
            # At this pace only the latest few addresses have to wait, so one of the oldest is free.
            old = (name for name, one in self._addresses.items() if not one.waiting and one.free_at <= now)
            del self._addresses[next(old, network)]
        return address


def network_of(client: str) -> str:
    """Return the network that counts as one address: an IPv4 address, or the first 64 bits of an IPv6 one."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return "an unknown address"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return "::1" if address.is_loopback else str(ipaddress.ip_network((int(address), 64), strict=False))
