"""Clients that redis-py lacks: for a Cluster that may be down, and for a server that is started on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import UnixDomainSocketConnection
from redis.exceptions import RedisClusterException

from ..errors import FrontierError


class LazyCluster(RedisCluster):
    """A client of a Redis Cluster that asks for the nodes when it is first used, not when it is made.

    :param connection: the arguments of its connections.
    """

    def __init__(self, nodes: list[tuple[str, int]], connection: Mapping[str, Any]) -> None:
        self.given_nodes = nodes
        self.given = dict(connection)
        self._making = threading.RLock()
        self._is_being_made = self._is_made = False

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for an attribute that is missing, because the client was not made yet.
        if name.startswith("__") or self._is_made:
            raise AttributeError(name)
        with self._making, as_connection_errors():
            if self._is_being_made:  # by this thread, which reads an attribute that is not set yet
                raise AttributeError(name)
            if not self._is_made:
                self._make()
        return getattr(self, name)

    def _make(self) -> None:
        nodes = [ClusterNode(host, port) for host, port in self.given_nodes]
        self._is_being_made = True
        try:
            super().__init__(startup_nodes=nodes, **self.given)
            self._is_made = True
        finally:
            self._is_being_made = False

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command.

        :raises redis.RedisError: if the command fails.
        """
        with as_connection_errors():
            return super().execute_command(*args, **options)

    def close(self) -> None:
        """Close all connections."""
        if self._is_made:
            # A copy of the list: another thread may be updating the nodes.
            for node in list(self.nodes_manager.nodes_cache.values()):
                if node.redis_connection is not None:
                    node.redis_connection.close()

    def __del__(self) -> None:
        self.close()


@contextmanager
def as_connection_errors() -> Iterator[None]:
    """Turn redis-py's exception for a Cluster without nodes into a RedisError."""
    try:
        yield
    except RedisClusterException as error:
        raise redis.ConnectionError(str(error)) from error


class EmbeddedConnection(UnixDomainSocketConnection):
    """A connection to the private server in *folder*. It starts the server if it does not run.

    :param folder: the folder with the server's data and socket.
    """

    def __init__(self, folder: str, **options: Any) -> None:
        # Not at the top: the module needs file locks, which some systems lack.
        from . import shared as local_server

        self._folder = folder
        self._local_server = local_server
        super().__init__(path=str(local_server.socket_path(folder)), **options)

    def _connect(self) -> Any:
        try:
            self._local_server.join(self._folder)
            try:
                return super()._connect()
            except (ConnectionRefusedError, FileNotFoundError):
                self._local_server.ensure_running(self._folder)
                return super()._connect()
        except FrontierError as error:
            raise redis.ConnectionError(str(error)) from error
