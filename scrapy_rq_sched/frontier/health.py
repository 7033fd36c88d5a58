"""What a worker asks a server before it joins: whether it is one that it can rely on."""

from __future__ import annotations

import math
import re

from ..connection import OLDEST_SERVER, Client, NoPermissionError, RedisError, address, server_of, unreachable
from ..errors import RedisUnsuitableError, one_line


def check_server(client: Client, key: str) -> list[str]:
    """Ask the server that has *key* who it is, and return what the user should be warned of.

    :raises RedisUnreachableError: if it does not answer or does not let us in.
    :raises RedisUnsuitableError: if it is too old.
    """
    try:
        server_of_key = server_of(client, key)
        server_of_key.ping()
        try:
            server, memory = server_of_key.info("server"), server_of_key.info("memory")
        except NoPermissionError:
            return ["this user may not call INFO: version and eviction policy are not checked"]
    except RedisError as error:
        raise unreachable(client, error) from error
    version = one_line(server.get("redis_version", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SERVER:
        raise RedisUnsuitableError(f"Redis at {address(client)} is version {version}; 6.2 or newer is needed")
    policy = one_line(memory.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        return [
            f"Redis at {address(client)} has maxmemory-policy {policy}: when its memory is full it "
            "deletes keys, and the crawl loses requests. Set it to noeviction"
        ]
    return []


def server_age(client: Client, key: str) -> float:
    """Return for how many seconds the server that has *key* is up; infinity where this user may not ask.

    :raises RedisUnreachableError: if it does not answer.
    """
    try:
        return float(server_of(client, key).info("server").get("uptime_in_seconds", math.inf))
    except NoPermissionError:
        return math.inf
    except RedisError as error:
        raise unreachable(client, error) from error
