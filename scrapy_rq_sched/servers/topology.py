"""Make a client from an address, by its scheme. Only this module knows the kinds of servers.

================================================================  ========================================
``redis://[user:password@]host:6379/0``                           one server
``rediss://…``                                                    one server, by TLS
``unix:///path/of/socket?db=0``                                   one server, by a socket of this host
``redis+sentinel://[user:password@]host:26379,host:26379/name/0`` the master that Sentinel calls *name*
``redis+cluster://[user:password@]host:6379,host:6379``           a Redis Cluster
``embedded:///folder``                                            a private server of this host's workers
================================================================  ========================================

``rediss+sentinel`` and ``rediss+cluster`` use TLS. A query may have the options that redis-py's ``from_url``
reads (``?ssl_ca_certs=…``); ``sentinel_username`` and ``sentinel_password`` are for the Sentinels themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.cluster import RedisCluster
from redis.connection import SSLConnection, parse_url
from redis.crc import key_slot
from redis.sentinel import Sentinel, SentinelConnectionPool

from . import addresses
from .clients import EmbeddedConnection, LazyCluster, as_connection_errors

#: The class of a client of one server, unless ``redis_cls`` names another class.
DEFAULT_CLASS = redis.Redis
SENTINEL_PORT, REDIS_PORT = 26379, 6379


def make_client(url: str, cls: Any, params: Mapping[str, Any]) -> Any:
    """Return a client of the servers at *url*. It does not connect yet.

    :param cls: the class of a client of one server.
    :param params: the arguments of the client; *url* has precedence.
    :raises ValueError: if *url* is not valid, or has an unknown scheme.
    """
    scheme, separator, _ = url.partition("://")
    make = _BY_SCHEME.get(scheme)
    if separator and make is not None:
        return make(url, cls, params)
    return cls.from_url(url, **params)


def _make_sentinel(url: str, cls: Any, params: Mapping[str, Any]) -> Any:
    hosts, path, options = _parse_several(url, SENTINEL_PORT)
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("the name of the service is missing: redis+sentinel://host:26379/service")
    options = {**_without_host(params), **options}
    if database:
        options["db"] = _whole(database)
    own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    # Sentinels are reached in the same way as servers, but have their own users, and no databases.
    own |= {name: value for name, value in options.items() if name.startswith(("socket_", "ssl", "retry"))}
    own["protocol"] = options.get("protocol")
    manager = Sentinel(
        hosts, sentinel_kwargs={name: value for name, value in own.items() if value is not None}
    )
    return manager.master_for(service, redis_class=cls, **options)


def _make_cluster(url: str, cls: Any, params: Mapping[str, Any]) -> LazyCluster:
    hosts, path, options = _parse_several(url, REDIS_PORT)
    if path not in ("", "0"):
        raise ValueError("a Redis Cluster has only the database 0")
    options = {**_without_host(params), **options}
    options.pop("db", None)
    return LazyCluster(hosts, options)


def _make_embedded(url: str, cls: Any, params: Mapping[str, Any]) -> Any:
    folder = url.partition("://")[2]
    if not folder or "?" in folder:
        raise ValueError("it must name a folder, and have no options: embedded:///path/of/folder")
    if not Path(folder).is_absolute():
        # With a relative path, each worker would use a server in the folder that it was started in.
        raise ValueError(f"the folder must be an absolute path, such as embedded://{Path(folder).absolute()}")
    options = _without_host(params)
    pool = redis.ConnectionPool(connection_class=EmbeddedConnection, folder=str(Path(folder)), **options)
    return cls(connection_pool=pool)


def _without_host(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in ("host", "port")}


def _parse_several(url: str, default_port: int) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """Return the hosts and ports, the path, and the options of the connections."""
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"{scheme.partition('+')[0]}://{rest}")
    user, at, hosts = parts.netloc.rpartition("@")
    found, options = [], {}
    for host in hosts.split(","):
        options = parse_url(f"{parts.scheme}://{user}{at}{host}?{parts.query}")
        if "host" not in options:
            raise ValueError("the host is missing")
        found.append((options.pop("host"), options.pop("port", default_port)))
    if options.pop("connection_class", None) is SSLConnection:
        options["ssl"] = True
    return found, parts.path.strip("/"), options


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"the database must be a number, not {text!r}")
    return int(text)


_BY_SCHEME: dict[str, Callable[[str, Any, Mapping[str, Any]], Any]] = {
    "redis+sentinel": _make_sentinel,
    "rediss+sentinel": _make_sentinel,
    "redis+cluster": _make_cluster,
    "rediss+cluster": _make_cluster,
    "embedded": _make_embedded,
}


# -- properties of a client ----------------------------------------------------------------------


#: Options of a Cluster's client that are not options of its connections.
_OF_A_CLUSTER = {
    "ssl",
    "max_connections",
    "read_from_replicas",
    "require_full_coverage",
    "reinitialize_steps",
    "dynamic_startup_nodes",
    "cluster_error_retry_attempts",
}


def secrets(client: Any) -> list[str]:
    """Return the passwords of *client*, and other parts of its address that an error must not repeat."""
    every = [connection_options(client)]
    manager = _sentinels(client)
    if manager is not None:
        every += map(connection_options, manager.sentinels)
    hosts = client.given_nodes if isinstance(client, LazyCluster) else ()
    named = [{"host": host, "port": port} for host, port in hosts]
    return [secret for options in (*every, *named) for secret in addresses.secrets_in(options)]


def misplaced(client: Any) -> str:
    """Return the name of a part of *client*'s address that is not plainly such a part; empty if all are."""
    options = connection_options(client)
    if isinstance(client, LazyCluster):
        return next(("host" for host, _ in client.given_nodes if addresses.is_odd("host", host)), "")
    service = getattr(client.connection_pool, "service_name", None)
    parts = {"name of the service": service, **options}
    return next((name for name in addresses.PARTS if addresses.is_odd(name, parts.get(name))), "")


def _sentinels(client: Any) -> Any:
    return (
        None if isinstance(client, LazyCluster) else getattr(client.connection_pool, "sentinel_manager", None)
    )


def close(client: Any) -> None:
    """Close all connections of *client*, including those to Sentinels."""
    client.close()
    manager = _sentinels(client)
    for sentinel in manager.sentinels if manager is not None else ():
        sentinel.close()


def connection_options(client: Any) -> dict[str, Any]:
    """Return the options of *client*'s connections. A change affects connections that are made later."""
    lazy = isinstance(client, LazyCluster)
    options: dict[str, Any] = client.given if lazy else client.connection_pool.connection_kwargs
    return options


def check(client: Any) -> None:
    """Check the options of *client* by making a connection object, without connecting.

    :raises ValueError: or another error, if an option is not valid.
    """
    if isinstance(client, LazyCluster):
        cls: Any = SSLConnection if client.given.get("ssl") else redis.Connection
        cls(**{name: value for name, value in client.given.items() if name not in _OF_A_CLUSTER})
    else:
        client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)


def address(client: Any) -> str:
    """Return the address of *client* as a URL without passwords."""
    options = connection_options(client)
    pool = None if isinstance(client, LazyCluster) else client.connection_pool
    if "folder" in options:
        return f"embedded://{addresses.show_path(options['folder'])}"
    if "path" in options:
        return f"unix://{addresses.show_path(options['path'])}"
    user = addresses.show_login(options.get("username"), options.get("password"))
    tls = options.get("ssl") or (pool is not None and "SSL" in pool.connection_class.__name__)
    scheme = "rediss" if tls else "redis"
    if pool is None:
        return f"{scheme}+cluster://{user}{_hosts(client.given_nodes)}"
    database = addresses.show_port(options.get("db") or 0)
    if isinstance(pool, SentinelConnectionPool):
        hosts = [
            (kwargs.get("host", ""), kwargs.get("port", SENTINEL_PORT))
            for kwargs in map(connection_options, pool.sentinel_manager.sentinels)
        ]
        return (
            f"{scheme}+sentinel://{user}{_hosts(hosts)}/{addresses.show_path(pool.service_name)}/{database}"
        )
    host = [(options.get("host", "localhost"), options.get("port", REDIS_PORT))]
    return f"{scheme}://{user}{_hosts(host)}/{database}"


def _hosts(hosts: list[tuple[str, int]]) -> str:
    shown = [(addresses.show_host(host), addresses.show_port(port)) for host, port in hosts]
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in shown)


def needs_hash_tag(client: Any) -> bool:
    """Return whether all keys of a frontier need a common part in braces, a hash tag."""
    return isinstance(client, RedisCluster)


def slot(client: Any, key: str) -> int:
    """Return the slot of *key* in a Cluster; 0 on other servers."""
    return key_slot(key.encode()) if needs_hash_tag(client) else 0


def server_of(client: Any, key: Any) -> Any:
    """Return a client of the server that has *key*, for commands about the server."""
    if not isinstance(client, RedisCluster):
        return client
    if isinstance(key, bytes):
        key = key.decode()
    with as_connection_errors():
        return client.get_redis_connection(client.get_node_from_key(key))


def find_servers_anew(client: Any) -> None:
    """Make *client* look up its servers again, after a server has refused a key, or a write."""
    if isinstance(client, RedisCluster):
        with as_connection_errors():
            client.nodes_manager.initialize()
    else:
        # After a failover the address leads to another server, but open connections still lead to the old
        # master.
        client.connection_pool.disconnect()
