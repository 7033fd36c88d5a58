"""The servers that users have, real ones: each is started by the tests, and is gone with them."""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
import ssl
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import redis
import trustme
from redis.crc import key_slot

from scrapy_rq_sched import connection, embedded
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.servers.clients import LazyCluster

from .crawl import wait_until

#: Seconds that a server may be away before the others replace it.
DOWN_AFTER = 1.0


class Topology(ABC):
    """Servers, and what a user has to know of them: a URL."""

    name: ClassVar[str]
    #: REDIS_URL
    url: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Of all its servers: each may take another's place.
        self.password = secrets.token_urlsafe()
        self._stack = ExitStack()

    def __enter__(self) -> Topology:
        with self._stack:
            self.start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @abstractmethod
    def start(self) -> None:
        """Start the servers, and set the URL."""

    def client(self) -> Any:
        """Return a client of them, by which keys are called as on a single server."""
        return connection.get_redis(url=self.url)

    def server(self, *options: str, port: int = 0) -> PrivateRedis:
        """Start a server of its own folder, on a TCP port."""
        folder = self.folder / f"server-{port or free_port()}"
        folder.mkdir()
        return self._stack.enter_context(PrivateRedis(folder, list(options), port, self.password))


class Single(Topology):
    """One server."""

    name = "single"

    def start(self) -> None:
        self.redis = self.server()
        self.url = self.redis.url


class Unix(Topology):
    """One server, by a socket of this host."""

    name = "unix"

    def start(self) -> None:
        self.url = f"{self._stack.enter_context(PrivateRedis(self.folder)).url}?db=0"


class Embedded(Topology):
    """The private server of this host's workers."""

    name = "embedded"

    def start(self) -> None:
        self.url = f"embedded://{self.folder / 'data'}"


class Tls(Topology):
    """One server that lets in only who has a certificate."""

    name = "tls"

    def start(self) -> None:
        authority = trustme.CA()
        paths = {name: self.folder / f"{name}.pem" for name in ("authority", "client", "key")}
        authority.cert_pem.write_to_path(str(paths["authority"]))
        client = authority.issue_cert("worker@example.com")
        client.cert_chain_pems[0].write_to_path(str(paths["client"]))
        client.private_key_pem.write_to_path(str(paths["key"]))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.issue_cert("localhost").configure_cert(context)
        port = self._stack.enter_context(
            TlsGate(context, self._stack.enter_context(PrivateRedis(self.folder)).path)
        ).port
        self.url = (
            f"rediss://localhost:{port}/0?ssl_ca_certs={paths['authority']}"
            f"&ssl_certfile={paths['client']}&ssl_keyfile={paths['key']}"
        )


class TlsGate:
    """What a server from a wheel cannot do: TLS, by a gate before it, in a thread."""

    def __init__(self, context: ssl.SSLContext, target: Path) -> None:
        self._context = context
        self._target = target
        self._loop = asyncio.new_event_loop()
        self.port = free_port()

    def __enter__(self) -> TlsGate:
        opening = asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self._context)
        self._server = self._loop.run_until_complete(opening)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_unix_connection(self._target)

        async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        with suppress(asyncio.CancelledError):
            await asyncio.gather(pipe(reader, here), pipe(there, writer))


class Replaceable(Topology):
    """Servers of which one can be lost: another takes its place."""

    @abstractmethod
    def fail_over(self, key: str) -> None:
        """Kill the server that has *key*, and wait until another has it."""


class Sentinels(Replaceable):
    """A master, two replicas, and three Sentinels."""

    name = "sentinel"

    def start(self) -> None:
        at_once = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
        master = self.server(*at_once)
        others = [self.server("--replicaof", "127.0.0.1", str(master.port), *at_once) for _ in "12"]
        self.servers = {server.port: server for server in (master, *others)}
        for replica in others:
            _wait_for_link(redis.Redis.from_url(replica.url))
        ports = [self._sentinel(master.port) for _ in "123"]
        hosts = ",".join(f"localhost:{port}" for port in ports)
        self.url = f"redis+sentinel://:{self.password}@{hosts}/crawls/0?sentinel_password={self.password}"
        self.sentinels = [redis.Redis(port=port, password=self.password) for port in ports]
        for sentinel in self.sentinels:
            wait_until(lambda sentinel=sentinel: self._knows_all(sentinel), message="Sentinels meet")

    def _sentinel(self, master: int) -> int:
        port = free_port()
        file = self.folder / f"sentinel-{port}.conf"
        file.touch(0o600)
        file.write_text(
            f"port {port}\nbind 127.0.0.1\nrequirepass {self.password}\ndir {self.folder}\n"
            f"sentinel monitor crawls 127.0.0.1 {master} 2\nsentinel auth-pass crawls {self.password}\n"
            f"sentinel down-after-milliseconds crawls {DOWN_AFTER * 1000:.0f}\n"
            "sentinel failover-timeout crawls 5000\n"
        )
        log = (self.folder / f"sentinel-{port}.log").open("wb")
        process = subprocess.Popen([embedded.server_executable(), str(file), "--sentinel"], stdout=log)
        self._stack.callback(_end, process)
        client = redis.Redis(port=port, password=self.password)
        wait_until(lambda: _answers(client), message="a Sentinel starts")
        return port

    @staticmethod
    def _knows_all(sentinel: redis.Redis) -> bool:
        state = sentinel.sentinel_master("crawls")
        return int(state["num-slaves"]) == 2 and int(state["num-other-sentinels"]) == 2

    def master(self) -> int:
        """Return the port of the server that the Sentinels call master."""
        return int(self.sentinels[0].sentinel_get_master_addr_by_name("crawls")[1])

    def fail_over(self, key: str) -> None:
        before = self.master()
        _kill(self.servers[before])
        wait_until(lambda: self.master() != before, message="the Sentinels choose another master")


class Cluster(Replaceable):
    """Three masters, each with a replica."""

    name = "cluster"

    def start(self) -> None:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(int(DOWN_AFTER * 1000)))
        options += ("--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
        self.servers = {}
        for _ in range(6):
            server = self._node(*options)
            self.servers[server.port] = server
        self.nodes = [
            redis.Redis(port=port, password=self.password, decode_responses=True) for port in self.servers
        ]
        masters, replicas = self.nodes[:3], self.nodes[3:]
        bounds = [0, 5461, 10923, 16384]
        for node, first, end in zip(masters, bounds[:-1], bounds[1:], strict=True):
            node.execute_command("CLUSTER", "ADDSLOTS", *range(first, end))
        for number, node in enumerate(self.nodes):
            node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.execute_command("CLUSTER", "MEET", "127.0.0.1", str(_port(self.nodes[0])))
        for node in self.nodes:
            wait_until(lambda node=node: self._sees(node, "connected") == 6, message="the nodes meet")
        for replica, master in zip(replicas, masters, strict=True):
            replica.execute_command("CLUSTER", "REPLICATE", master.execute_command("CLUSTER", "MYID"))
        for replica in replicas:
            _wait_for_link(replica)
        for node in self.nodes:
            wait_until(lambda node=node: self._sees(node, "slave") == 3, message="all know the replicas")
            wait_until(lambda node=node: node.cluster("INFO")["cluster_state"] == "ok", message="it is up")
        hosts = ",".join(f"127.0.0.1:{_port(node)}" for node in masters)
        self.url = f"redis+cluster://:{self.password}@{hosts}"

    def _node(self, *options: str) -> PrivateRedis:
        for more in (True, True, False):
            try:
                return self.server(*options, port=_port_for_a_node())
            except FrontierError:  # another process may have taken one of both ports meanwhile
                if not more:
                    raise
        raise AssertionError("unreachable")

    @staticmethod
    def _sees(node: redis.Redis, what: str) -> int:
        return sum(what in str(state) for state in node.cluster("NODES").values())

    def client(self) -> AsOneServer:
        """Return a client that puts the braces round spiders' names."""
        hosts = [("127.0.0.1", _port(node)) for node in self.nodes[:3]]
        return AsOneServer(hosts, {"password": self.password})

    def master_of(self, key: str) -> int:
        """Return the port of the master that has the slot of *key*."""
        client = self.client()
        try:
            client.nodes_manager.initialize()
            return int(client.get_node_from_key(tagged(key)).port)
        finally:
            client.close()

    def fail_over(self, key: str) -> None:
        before = self.master_of(key)
        _kill(self.servers[before])
        wait_until(lambda: self.master_of(key) != before, message="a replica takes its master's place")

    def move_slot(self, key: str) -> None:
        """Move the slot of *key* to another master, key by key, as ``redis-cli --cluster reshard`` does."""
        with self.moving_slot(key):
            pass

    @contextmanager
    def moving_slot(self, key: str, only: str = "") -> Iterator[None]:
        """Have the slot of *key* be moved: at first, if that is named, *only* one key; all in the end."""
        slot = key_slot(tagged(key).encode())
        ids = {_port(node): node.execute_command("CLUSTER", "MYID") for node in self.nodes}
        by_port = {_port(node): node for node in self.nodes}
        here = self.master_of(key)
        masters = {_port(node) for node in self.nodes if node.role()[0] == "master"}
        there = min(masters - {here})
        source, target = by_port[here], by_port[there]

        def move(*keys: str) -> None:
            login = ("AUTH", self.password)
            source.execute_command("MIGRATE", "127.0.0.1", there, "", 0, 5000, *login, "KEYS", *keys)

        target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[here])
        source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[there])
        if only:
            move(tagged(only))
        yield
        while keys := source.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1):
            move(*keys)
            time.sleep(0.05)  # so that workers meet the slot when some of its keys are here and some there
        for node in (target, source, *(by_port[port] for port in masters - {here, there})):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[there])


#: What keys of a frontier end with, and what tests call theirs.
_KEY = re.compile(
    rb"([\w.-]+)(:(?:requests|slots|dupefilter|start_urls|started|seeding|delayed|workers?|leases|history|failed|meta|"
    rb"finished|pages|exported|items|stats)(?::.*|\*|$))",
    re.DOTALL,
)


def tagged(key: str) -> str:
    """Return what *key* is called on a Cluster."""
    return _KEY.sub(rb"{\1}\2", key.encode(), count=1).decode()


class AsOneServer(LazyCluster):
    """A client of a Cluster by which keys are called as on a single server."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command."""
        return super().execute_command(*map(self._tagged, args), **options)

    def get_node_from_key(self, key: Any, *args: Any, **options: Any) -> Any:
        """Return the node that has *key*."""
        return super().get_node_from_key(self._tagged(key), *args, **options)

    def pipeline(self, *args: Any, **options: Any) -> Any:
        """Return a pipeline."""
        pipeline = super().pipeline(*args, **options)
        execute = pipeline.execute_command
        pipeline.execute_command = lambda *args, **options: execute(*map(self._tagged, args), **options)
        return pipeline

    def exists(self, *keys: Any) -> Any:
        """Return how many of *keys* there are."""
        return sum(self.execute_command("EXISTS", key) for key in keys)

    def delete(self, *keys: Any) -> Any:
        """Delete *keys*."""
        return sum(self.execute_command("DEL", key) for key in keys)

    @staticmethod
    def _tagged(argument: Any) -> Any:
        data = argument.encode() if isinstance(argument, str) else argument
        if isinstance(data, bytes) and (match := _KEY.fullmatch(data)):
            return b"{%s}%s" % match.groups()
        return argument


def with_login(url: str, user: str, password: str) -> str:
    """Return *url* with another login, or with one."""
    return re.sub("://([^@/]*@)?", f"://{user}:{password}@", url, count=1)


TOPOLOGIES: dict[str, type[Topology]] = {
    kind.name: kind for kind in (Single, Unix, Tls, Embedded, Sentinels, Cluster)
}


def _port(client: redis.Redis) -> int:
    return int(client.connection_pool.connection_kwargs["port"])


def _port_for_a_node() -> int:
    # Its bus is at a port that is higher by 10,000.
    while (port := free_port()) > 55_000 or not _is_free(port + 10_000):
        pass
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def _wait_for_link(replica: redis.Redis) -> None:
    wait_until(
        lambda: replica.info("replication").get("master_link_status") == "up",
        message="a replica has its master",
    )


def _kill(server: PrivateRedis) -> None:
    assert server.process is not None
    server.process.kill()
    server.stop()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
