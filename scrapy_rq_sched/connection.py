"""From settings to a Redis client, and what is done with one but commands.

Only this module and those in ``servers/`` import redis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from redis.backoff import EqualJitterBackoff, NoBackoff
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
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError
from scrapy.utils.misc import load_object

from . import keys
from .errors import RedisUnreachableError, SettingError, one_line
from .servers import topology
from .servers.topology import address, close, find_servers_anew, needs_hash_tag, server_of, slot

__all__ = [
    "AskError",
    "ClusterDownError",
    "DataError",
    "MovedError",
    "NoPermissionError",
    "NoScriptError",
    "RedisConnectionError",
    "RedisError",
    "RedisTimeoutError",
    "ResponseError",
    "address",
    "backoff",
    "close",
    "describe_error",
    "expand_key",
    "find_servers_anew",
    "get_client",
    "get_impatient_client",
    "get_redis",
    "get_redis_from_settings",
    "hide_password",
    "leave_replica",
    "may_pass",
    "needs_hash_tag",
    "server_of",
    "slot",
    "socket_timeout",
    "unreachable",
]

#: A client of one server, or of a Cluster.
Client: TypeAlias = Any

#: The oldest server whose commands suffice (``RPOP`` with a count, ``BLMOVE``).
OLDEST_SERVER = (6, 2)

#: Characters of an error's text that are shown.
LONGEST_ERROR = 300
#: What Redis adds to an error of a script: its hash and a line, which tell a user nothing. Redis 6.2 puts it
#: before the error, and newer ones after it.
_OF_A_SCRIPT = re.compile(
    r"(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): (?:@?user_script: ?\d+: )*-?"
    r"|,? ?script: [0-9a-f]{40}, on @user_script:\d+"
)
#: What Redis says to a connection without a password whose command is a long one.
_UNAUTHENTICATED = "unauthenticated"

#: Timeouts in seconds; a user's ``REDIS_PARAMS`` come after these. Protocol 2, because with 3 redis-py
#: asks every server on connecting for what only some offer, and logs that it failed.
DEFAULT_PARAMS: Mapping[str, Any] = {
    "socket_timeout": 5.0,
    "socket_connect_timeout": 3.0,
    "protocol": 2,
}

#: Which parameter of a client each setting is, by scrapy-redis's name; what is added to it is read, too.
SETTINGS_PARAMS_MAP: dict[str, str] = {
    "REDIS_URL": "url",
    "REDIS_HOST": "host",
    "REDIS_PORT": "port",
    "REDIS_DB": "db",
    "REDIS_ENCODING": "encoding",
    "REDIS_DECODE_RESPONSES": "decode_responses",
}
#: Those of them that are read elsewhere: the one is that of the seeds, the other a switch.
_READ_ELSEWHERE = ("REDIS_ENCODING", "REDIS_DECODE_RESPONSES")


def get_redis(**params: Any) -> Client:
    """Return a client. It connects at its first command.

    :param params: what ``redis.Redis`` takes, or ``url`` (see ``docs/servers.md``) and what else
        connections are made with; and ``redis_cls``, a class or its path.
    :raises SettingError: if redis-py refuses them.
    """
    params = dict(params)
    url = params.pop("url", None)
    cls = params.pop("redis_cls", None) or topology.DEFAULT_CLASS
    try:
        cls = load_object(cls)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise SettingError(
            f"REDIS_PARAMS has the redis_cls {cls!r}, which cannot be loaded: {error}"
        ) from error
    try:
        client: Client = topology.make_client(str(url), cls, params) if url else cls(**params)
    except (ValueError, TypeError, AttributeError) as error:
        shown = hide_password(str(url))
        # A part of a password that is not escaped may be taken for the port.
        why = "" if shown != str(url) else f": {error}"
        where = f"REDIS_URL is {shown!r}{why}" if url else f"REDIS_PARAMS is not right: {error}"
        raise SettingError(
            f"{where}. A URL looks like redis://host:6379/0, rediss:// (TLS), unix://, "
            "redis+sentinel://host:26379/service, redis+cluster://host:6379 or embedded:///folder"
        ) from None
    if "decode_responses" in params:  # also where the URL says otherwise
        topology.connection_options(client)["decode_responses"] = params["decode_responses"]
    try:
        topology.check(client)
    except (ValueError, TypeError, RedisError) as error:
        raise SettingError(f"REDIS_PARAMS, REDIS_PORT or REDIS_DB is not right: {error}") from None
    return client


def get_redis_from_settings(settings: Any) -> Client:
    """Return the client that a Scrapy settings object describes, for a project's own use.

    Read are ``REDIS_URL``, or ``REDIS_HOST``, ``REDIS_PORT`` and ``REDIS_DB``; ``REDIS_DECODE_RESPONSES``;
    and ``REDIS_PARAMS`` for anything else that ``redis.Redis`` takes. ``REDIS_ENCODING`` is that of the
    seeds, and no more.

    :raises SettingError: if redis-py refuses them.
    """
    return get_redis(**{"decode_responses": _decodes(settings), **_params(settings)})


def get_client(settings: Any, **overrides: Any) -> Client:
    """Return the client that this package itself uses: the same, but replies are bytes.

    :param overrides: what ``REDIS_PARAMS`` may still say otherwise.
    :raises SettingError: if redis-py refuses the settings.
    """
    # Replies are payloads: bytes that only the serializer understands. Keys and scripts are UTF-8.
    return get_redis(**{**overrides, **_params(settings), "decode_responses": False, "encoding": "utf-8"})


def get_impatient_client(settings: Any, patience: float) -> Client:
    """Return the same, but one that soon notices that a connection is dead, and repeats nothing by itself.

    :param patience: seconds that Redis may take for an answer, whatever the settings say.
    :raises SettingError: if redis-py refuses the settings.
    """
    own = {"socket_timeout": patience, "socket_connect_timeout": patience, "retry": no_retry()}
    return get_redis(**{**_params(settings), **own, "decode_responses": False, "encoding": "utf-8"})


def _decodes(settings: Any) -> bool:
    try:
        return bool(settings.getbool("REDIS_DECODE_RESPONSES"))
    except (ValueError, TypeError):
        value = settings.get("REDIS_DECODE_RESPONSES")
        raise SettingError(f"REDIS_DECODE_RESPONSES is {value!r}; it may be True or False") from None


def _params(settings: Any) -> dict[str, Any]:
    params: dict[str, Any] = dict(DEFAULT_PARAMS)
    try:
        params.update(settings.getdict("REDIS_PARAMS"))
    except (ValueError, TypeError):
        # What it is, is not said: there may be a password in it.
        raise SettingError("REDIS_PARAMS is neither a dict, nor one in JSON") from None
    for setting, param in SETTINGS_PARAMS_MAP.items():
        if setting not in _READ_ELSEWHERE and settings.get(setting):
            params[param] = settings.get(setting)
    return params


from_settings = get_redis_from_settings


def no_retry() -> Retry:
    """Return the policy of a client whose caller repeats commands itself.

    redis-py repeats a command whose reply was lost, three times by default. An exchange is made to
    be repeated, but by the loop that made it: it has to know of the outage, and must not sleep.
    """
    return Retry(NoBackoff(), 0)


class Backoff(EqualJitterBackoff):
    """How long to wait after the n-th failure in a row: longer each time, up to a bound."""

    def compute(self, failures: int) -> float:
        """Return the seconds to wait after *failures* failures."""
        # redis-py's 2**failures overflows after a thousand of them: an outage of some hours.
        return super().compute(min(failures, 60))


#: Seconds between two attempts to reach Redis, at the most.
LONGEST_BACKOFF = 5.0


def backoff(longest: float) -> Backoff:
    """Return a policy that waits at most *longest* seconds."""
    return Backoff(cap=longest, base=0.1)


def expand_key(client: Client, template: str, spider: str, job: str = "") -> str:
    """Return the key that *template* names, as the servers of *client* need it; see :func:`keys.expand`."""
    return keys.expand(template, spider, job, needs_hash_tag(client))


def socket_timeout(client: Client) -> float | None:
    """Return for how many seconds *client* waits for an answer; None if for ever."""
    timeout: float | None = topology.connection_options(client).get("socket_timeout")
    return timeout


def hide_password(url: str) -> str:
    """Return *url* with its passwords replaced by ``***``."""
    # By hand: a password that is not escaped may hold what parses as the end of the host.
    url = re.sub(r"([?&]\w*password=)[^&#]*", r"\1***", url)
    url = re.sub(r"^([\w+.-]+://)[^:@/]+@", r"\1***@", url)
    url = re.sub(r"^((?:[\w+.-]+:)?(?://)?[^:@/]*:)(?!//).*@", r"\1***@", url)
    # Where each of several hosts has one.
    return re.sub(r"(,[^,:@/]*:)[^,@/]*@", r"\1***@", url)


def describe_error(client: Client, error: RedisError) -> str:
    """Return one line that says which Redis failed, how, and what to do."""
    where, error_text = address(client), str(error)
    for secret in topology.secrets(client):
        # What does not know AUTH says what it was told.
        error_text = error_text.replace(secret, "***")
    error_text = one_line(_OF_A_SCRIPT.sub("", error_text))[:LONGEST_ERROR].rstrip(" .")
    if isinstance(error, InvalidResponse):
        return (
            f"What listens at {where} is not a Redis ({error_text}). Check the host and the port in REDIS_URL"
        )
    if _UNAUTHENTICATED in error_text:
        return (
            f"Redis at {where} refuses this user: it needs a password ({error_text}). Check the user and "
            "password"
        )
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return f"Redis at {where} refuses this user: {error_text}. Check the user and password"
    if isinstance(error, MasterNotFoundError):
        return f"Redis at {where}: no Sentinel answers, or none knows a master of that name. Check REDIS_URL"
    if isinstance(error, RedisTimeoutError):
        return f"Redis at {where} does not answer in time ({error_text}). Check REDIS_URL and the network"
    if isinstance(error, RedisConnectionError):
        return f"Redis at {where} cannot be reached ({error_text}). Check REDIS_URL and that it runs"
    if isinstance(error, ClusterError):
        return (
            f"Redis at {where} has no node that has all keys just now ({error_text}): a slot is being moved, "
            "or a node is away"
        )
    return f"Redis at {where} answers with an error: {error_text}"


def leave_replica(client: Client, error: ResponseError) -> None:
    """Have *client* connect anew, if *error* says that its server is a replica.

    After a failover the address leads to the new master; but the connections to the old one are still there.
    """
    # What is refused within a script is a ReadOnlyError by its text only, with some servers.
    if isinstance(error, ReadOnlyError) or "READONLY " in str(error):
        find_servers_anew(client)


def may_pass(error: BaseException | None) -> bool:
    """Return whether *error* may be over in a moment: not if Redis refuses this user, or is none."""
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return False
    return isinstance(error, (RedisConnectionError, RedisTimeoutError, ClusterError, ReadOnlyError))


def unreachable(client: Client, error: RedisError) -> RedisUnreachableError:
    """Return the error to raise because of *error*."""
    return RedisUnreachableError(describe_error(client, error))
