"""Check the Redis server before a worker joins: its version, and whether it may delete keys by itself."""

from __future__ import annotations

import math
import re

from ..codec.values import text_of
from ..connection import OLDEST_SERVER, Client, NoPermissionError, RedisError, address, server_of, unreachable
from ..errors import RedisUnsuitableError, one_line
from ..keys import Keys


def check_server(client: Client, key: str) -> list[str]:
    """Check the server that has *key*, and return warnings for the user.

    :raises RedisUnreachableError: if the server does not answer or refuses this user.
    :raises RedisUnsuitableError: if the server is too old.
    """
    try:
        server_of_key = server_of(client, key)
        server_of_key.ping()
        try:
            server, memory = server_of_key.info("server"), server_of_key.info("memory")
        except NoPermissionError:
            return ["This user may not call INFO, so the version and the eviction policy were not checked"]
    except RedisError as error:
        raise unreachable(client, error) from error
    version = one_line(server.get("redis_version", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SERVER:
        raise RedisUnsuitableError(
            f"Redis at {address(client)} is version {version}, but 6.2 or newer is needed. Update Redis"
        )
    policy = one_line(memory.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        return [
            f"Redis at {address(client)} has maxmemory-policy {policy}: when its memory is full, it deletes "
            "keys, and the crawl loses requests. Set maxmemory-policy to noeviction"
        ]
    return []


def check_items(client: Client, keys: Keys, kind: str) -> None:
    """Check that the items can be stored at their key.

    :param kind: ``list`` or ``stream``.
    :raises RedisUnsuitableError: if the key has another type.
    """
    there = text_of(server_of(client, keys.items).type(keys.items))
    if there not in ("none", kind):
        raise RedisUnsuitableError(
            f"Key {keys.items!r} in Redis is a {there}, but FRONTIER_ITEMS = {kind!r} needs a {kind} there. "
            "Let its consumer empty it, or set another key with REDIS_ITEMS_KEY"
        )


def server_age(client: Client, key: str) -> float:
    """Return for how many seconds the server that has *key* is up; infinity if INFO is not permitted.

    :raises RedisUnreachableError: if the server does not answer.
    """
    try:
        return float(server_of(client, key).info("server").get("uptime_in_seconds", math.inf))
    except NoPermissionError:
        return math.inf
    except RedisError as error:
        raise unreachable(client, error) from error
