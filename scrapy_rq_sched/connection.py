"""Make Redis clients from settings.

Only this module and those in ``servers/`` import redis.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeAlias

from redis.backoff import NoBackoff
from redis.retry import Retry
from scrapy.utils.misc import load_object

from . import keys
from .errors import SettingError
from .servers import addresses, topology
from .servers.failures import (
    LONGEST_BACKOFF,
    AskError,
    ClusterDownError,
    DataError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    RedisConnectionError,
    RedisError,
    RedisTimeoutError,
    ResponseError,
    backoff,
    check_permitted,
    describe_error,
    leave_replica,
    may_pass,
    unreachable,
)
from .servers.topology import address, close, find_servers_anew, needs_hash_tag, server_of, slot

__all__ = [
    "LONGEST_BACKOFF",
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
    "address",
    "backoff",
    "check_permitted",
    "close",
    "describe_error",
    "expand_key",
    "find_servers_anew",
    "get_client",
    "get_impatient_client",
    "get_redis",
    "get_redis_from_settings",
    "leave_replica",
    "may_pass",
    "needs_hash_tag",
    "retry",
    "server_may_wait",
    "server_of",
    "slot",
    "socket_timeout",
    "unreachable",
]

# redis-py logs each failed command, also one whose connection this package closes at the end of a crawl. The
# failures that matter are in the lines of this package. A project that sets a level keeps it.
if logging.getLogger("redis").level == logging.NOTSET:
    logging.getLogger("redis").setLevel(logging.INFO)

#: A client of one server, or of a Cluster.
Client: TypeAlias = Any

#: The oldest server that has all necessary commands (``RPOP`` with a count, ``BLMOVE``).
OLDEST_SERVER = (6, 2)

#: Default arguments of a client; ``REDIS_PARAMS`` overrides them. Timeouts are in seconds. With protocol 3,
#: redis-py would ask each server for features that only some have, and log a failure for the others.
DEFAULT_PARAMS: Mapping[str, Any] = {
    "socket_timeout": 5.0,
    "socket_connect_timeout": 3.0,
    "protocol": 2,
}

#: The setting of scrapy-redis for each argument of a client. A project may add further pairs.
SETTINGS_PARAMS_MAP: dict[str, str] = {
    "REDIS_URL": "url",
    "REDIS_HOST": "host",
    "REDIS_PORT": "port",
    "REDIS_DB": "db",
    "REDIS_ENCODING": "encoding",
    "REDIS_DECODE_RESPONSES": "decode_responses",
}
#: Settings in this map that :func:`_params` skips: the encoding of seeds, and a switch.
_READ_ELSEWHERE = ("REDIS_ENCODING", "REDIS_DECODE_RESPONSES")


def get_redis(**params: Any) -> Client:
    """Return a Redis client. It connects when its first command is sent.

    :param params: the arguments of ``redis.Redis``; or ``url`` (see ``docs/servers.md``) and further
        arguments of its connections. Also ``redis_cls``: the client's class, or the import path of it.
    :raises SettingError: if redis-py refuses the arguments.
    """
    params = dict(params)
    url = params.pop("url", None)
    cls = params.pop("redis_cls", None) or topology.DEFAULT_CLASS
    try:
        cls = load_object(cls)
    except (ImportError, NameError, ValueError, TypeError) as error:
        shown = addresses.show_class(cls)
        why = "" if addresses.is_odd("redis_cls", cls) else f": {error}"
        raise SettingError(
            f"REDIS_PARAMS contains the redis_cls {shown!r}, which cannot be loaded{why}"
        ) from None
    try:
        client: Client = topology.make_client(str(url), cls, params) if url else cls(**params)
    except (ValueError, TypeError, AttributeError) as error:
        shown, odd = addresses.show_address(url), addresses.oddity(str(url))
        # If a password is not escaped, the error may quote a part of it as the port.
        why = f": {odd}" if odd else "" if shown != str(url) else f": {error}"
        problem = (
            f"REDIS_URL {shown!r} is not valid{why}. Use a URL such as redis://host:6379/0, rediss:// (TLS), "
            "unix://, redis+sentinel://host:26379/service, redis+cluster://host:6379 or embedded:///folder"
        )
        raise SettingError(
            problem if url else f"REDIS_PARAMS is not valid: {_without_secrets(error, params)}"
        ) from None
    if "decode_responses" in params:  # has precedence over the URL
        topology.connection_options(client)["decode_responses"] = params["decode_responses"]
    if wrong := topology.misplaced(client):
        raise SettingError(
            f"The {wrong} of Redis is not valid. It is not shown here, because it looks like a part of a "
            "URL. Check REDIS_URL, or REDIS_HOST, REDIS_PORT and REDIS_DB. In a URL, write special "
            "characters of a password as %40 for @, %3A for : and %2F for /"
        )
    try:
        topology.check(client)
    except (ValueError, TypeError, RedisError) as error:
        why = addresses.without_secrets(str(error), topology.secrets(client))
        raise SettingError(f"REDIS_PARAMS, REDIS_PORT or REDIS_DB is not valid: {why}") from None
    return client


def get_redis_from_settings(settings: Any) -> Client:
    """Return a Redis client for a project's own use, made from Scrapy's *settings*.

    The function reads ``REDIS_URL``, or ``REDIS_HOST``, ``REDIS_PORT`` and ``REDIS_DB``; also
    ``REDIS_DECODE_RESPONSES``, and ``REDIS_PARAMS`` for all other arguments of ``redis.Redis``. It does not
    use ``REDIS_ENCODING``, which is only the encoding of seeds.

    :raises SettingError: if redis-py refuses the settings.
    """
    return get_redis(**{"decode_responses": _decodes(settings), **_params(settings)})


def get_client(settings: Any, **overrides: Any) -> Client:
    """Return the client that this package itself uses: its replies are bytes.

    :param overrides: default arguments, which ``REDIS_PARAMS`` overrides.
    :raises SettingError: if redis-py refuses the settings.
    """
    # Replies contain payloads that only the serializer can decode. Keys and scripts are UTF-8.
    return get_redis(**{**overrides, **_params(settings), "decode_responses": False, "encoding": "utf-8"})


def get_impatient_client(settings: Any, patience: float) -> Client:
    """Return a client that soon notices a dead connection, and repeats no command by itself.

    :param patience: seconds to wait for an answer; it overrides the timeouts in the settings.
    :raises SettingError: if redis-py refuses the settings.
    """
    own = {"socket_timeout": patience, "socket_connect_timeout": patience, "retry": no_retry()}
    return get_redis(**{**_params(settings), **own, "decode_responses": False, "encoding": "utf-8"})


def _without_secrets(error: Exception, params: Mapping[str, Any]) -> str:
    return addresses.without_secrets(str(error), addresses.secrets_in(params))


def _decodes(settings: Any) -> bool:
    try:
        return bool(settings.getbool("REDIS_DECODE_RESPONSES"))
    except (ValueError, TypeError):
        value = settings.get("REDIS_DECODE_RESPONSES")
        raise SettingError(f"REDIS_DECODE_RESPONSES must be True or False, not {value!r}") from None


def _params(settings: Any) -> dict[str, Any]:
    params: dict[str, Any] = dict(DEFAULT_PARAMS)
    try:
        params.update(settings.getdict("REDIS_PARAMS"))
    except (ValueError, TypeError):
        # The value is not shown: it may contain a password.
        raise SettingError("REDIS_PARAMS must be a dict, or a JSON object") from None
    for setting, param in SETTINGS_PARAMS_MAP.items():
        if setting not in _READ_ELSEWHERE and settings.get(setting):
            params[param] = settings.get(setting)
    return params


from_settings = get_redis_from_settings


def no_retry() -> Retry:
    """Return the retry policy of a client that must not repeat commands by itself.

    By default redis-py repeats a command three times if its reply was lost. Here the loop that made an
    exchange repeats it: the loop must know of the outage, and must not sleep.
    """
    return Retry(NoBackoff(), 0)


def retry(attempts: int) -> Retry:
    """Return the policy of a caller that waits for Redis, and may repeat what it asks.

    :param attempts: how often it asks again, after 0.1 to 1 second.
    """
    return Retry(backoff(1.0), attempts, (RedisConnectionError, RedisTimeoutError))


def expand_key(client: Client, template: str, spider: str, job: str = "") -> str:
    """Return the key of *template*, with a hash tag if *client* needs one; see :func:`keys.expand`."""
    return keys.expand(template, spider, job, needs_hash_tag(client))


def socket_timeout(client: Client) -> float | None:
    """Return how many seconds *client* waits for an answer; None if without a limit."""
    timeout: float | None = topology.connection_options(client).get("socket_timeout")
    return timeout


#: The share of a client's timeout for which the server may wait; the answer needs the rest.
_WAITING = 0.8


def server_may_wait(client: Client, timeout: float) -> float:
    """Return for how many seconds, at most *timeout*, the server may wait before it answers *client*."""
    patience = socket_timeout(client)
    return min(timeout, _WAITING * patience) if patience else timeout
