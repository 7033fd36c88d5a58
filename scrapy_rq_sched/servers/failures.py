"""The errors of Redis: their classes, their description, and the waiting time after each."""

from __future__ import annotations

import re
from typing import Any

from redis.backoff import EqualJitterBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    ClusterError,
    DataError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.sentinel import MasterNotFoundError

from ..errors import RedisUnreachableError, one_line
from . import addresses, topology
from .topology import address, find_servers_anew

#: Classes that other modules take from here.
__all__ = [
    "AskError",
    "ClusterDownError",
    "DataError",
    "MovedError",
    "NoPermissionError",
    "NoScriptError",
    "OutOfMemoryError",
    "RedisConnectionError",
    "RedisError",
    "RedisTimeoutError",
    "ResponseError",
]

#: Characters of an error's text that are shown.
LONGEST_ERROR = 300
#: The text that Redis adds to an error in a script: the hash and the line of the script, which do not help a
#: user. Redis 6.2 puts it before the error, newer versions put it after the error; Valkey 9 omits the hash.
_OF_A_SCRIPT = re.compile(
    r"(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): (?:@?user_script: ?\d+: )*-?"
    r"|,? ?script: (?:(?:[0-9a-f]{40}, )?on @user_script|(?:scrapy_rq_sched_\w+, )?on @user_function):\d+"
)
#: In Redis's error for a command in a script that the user may not call.
_NOT_PERMITTED = "can't run this command"
#: In Redis's error for a long command on a connection without a password.
_UNAUTHENTICATED = "unauthenticated"
#: In redis-py's error for a connection that the server closes, as other programs than Redis do.
_CLOSED = "Connection closed by server"
#: In Redis's error for a database that the server does not have.
_NO_DATABASE = "DB index is out of range"


class Backoff(EqualJitterBackoff):
    """A waiting time that grows with each failure in a row, up to a limit."""

    def compute(self, failures: int) -> float:
        """Return the seconds to wait after *failures* failures in a row."""
        # redis-py's 2**failures overflows after a thousand failures: an outage of some hours.
        return super().compute(min(failures, 60))


#: The longest time between two attempts to reach Redis, in seconds.
LONGEST_BACKOFF = 5.0


def backoff(longest: float) -> Backoff:
    """Return a policy that waits at most *longest* seconds."""
    return Backoff(cap=longest, base=0.1)


def describe_error(client: Any, error: RedisError) -> str:
    """Return one line that tells which Redis failed, how, and what to do."""
    # A server that does not know AUTH quotes the password in its error.
    where, error_text = address(client), addresses.without_secrets(str(error), topology.secrets(client))
    error_text = one_line(_OF_A_SCRIPT.sub("", error_text))[:LONGEST_ERROR].rstrip(" .")
    if isinstance(error, InvalidResponse):
        return (
            f"Another program than Redis answers at {where} ({error_text}). Check the host and port in "
            "REDIS_URL"
        )
    if _UNAUTHENTICATED in error_text:
        return (
            f"Redis at {where} refuses this user: a password is required ({error_text}). Check the "
            "user and password"
        )
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return f"Redis at {where} refuses this user: {error_text}. Check the user and password"
    if isinstance(error, MasterNotFoundError):
        return f"Redis at {where} is not known to any Sentinel, or no Sentinel answers. Check REDIS_URL"
    if isinstance(error, RedisTimeoutError):
        return f"Redis at {where} does not answer in time ({error_text}). Check REDIS_URL and the network"
    if isinstance(error, RedisConnectionError):
        running = "and that Redis is running"
        if _CLOSED in error_text:
            running = "that Redis is running, and that no other program answers there"
        return f"Redis at {where} cannot be reached ({error_text}). Check REDIS_URL, {running}"
    if isinstance(error, ClusterError):
        return f"Redis at {where} cannot serve all keys ({error_text}): a slot is moving, or a node is down"
    if _NO_DATABASE in error_text:
        number = topology.connection_options(client).get("db")
        return (
            f"Redis at {where} has no database {number} ({error_text}). Choose a lower number in REDIS_URL "
            "or REDIS_DB: a server has the databases 0 to 15, unless its setting databases has another number"
        )
    return f"Redis at {where} answers with an error: {error_text}"


def leave_replica(client: Any, error: ResponseError) -> None:
    """Have *client* connect again if *error* means that its server is a replica.

    After a failover the address leads to the new master, but open connections still lead to the old one.
    """
    # Some servers report a write that a script attempts with another class of error.
    if isinstance(error, ReadOnlyError) or "READONLY " in str(error):
        find_servers_anew(client)


def check_permitted(error: ResponseError) -> None:
    """Check that a script did not fail with *error* because of the user's rights.

    Before Redis 7, such an error of a script has no code of its own.

    :raises redis.exceptions.NoPermissionError: if it did.
    """
    if not isinstance(error, NoPermissionError) and _NOT_PERMITTED in str(error):
        raise NoPermissionError(str(error)) from error


def may_pass(error: BaseException | None) -> bool:
    """Return whether a later attempt may succeed: not if Redis refuses this user, or is another program."""
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return False
    return isinstance(error, (RedisConnectionError, RedisTimeoutError, ClusterError, ReadOnlyError))


def unreachable(client: Any, error: RedisError) -> RedisUnreachableError:
    """Return the error to raise when Redis failed with *error*."""
    return RedisUnreachableError(describe_error(client, error))
