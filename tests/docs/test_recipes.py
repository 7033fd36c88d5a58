"""Each recipe does what its page promises: its code is taken from the page, and run as it is printed."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis
import scrapy
import yaml

from scrapy_rq_sched.embedded import PrivateRedis, free_port

from ..support.crawl import start_forked, wait_until
from ..support.forked import ForkedScrapy
from ..support.internet import Answer, Asked, Internet, Site, internet
from ..support.pages import DOCS, Example, examples, links, redis_cli
from .test_docs import LONGEST_STOP

pytestmark = [
    pytest.mark.single("a recipe is run on one kind of server"),
    pytest.mark.skipif(scrapy.version_info < (2, 14), reason="the recipes need Scrapy 2.14"),
]

RECIPES = DOCS / "recipes"
BINARIES = Path(sys.executable).parent
#: What the template of `scrapy startproject` has besides the lines of a recipe, but for its delay.
TEMPLATE = """\
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
ROBOTSTXT_OBEY = True
"""
#: The items of all workers in Redis, for a test that asks which pages were parsed.
ITEMS_IN_REDIS = '{"scrapy_rq_sched.pipelines.RedisPipeline": 300}'

Worker = ForkedScrapy | subprocess.Popen[bytes]


def files(page: Path) -> Iterator[tuple[str, Example]]:
    """Yield the blocks of *page* that are files, each with the name that stands right before it."""
    for example in examples(page, "python", "sh", "ini", "yaml", "text"):
        paragraph = example.before.rpartition("\n\n")[2]
        named = re.findall(r"`([\w./@-]+\.\w+)`:?$", paragraph)
        if named and not example.compiled_only:
            yield named[-1], example


def typed(page: Path) -> list[str]:
    """Return the blocks of *page* that a reader types into a shell."""
    named = {example.line for _, example in files(page)}
    return [example.code for example in examples(page, "sh") if example.line not in named]


class Project:
    """The project of the recipes, with the code of one of them."""

    def __init__(self, folder: Path, recipe: str, redis_url: str, proxy: str) -> None:
        self.folder = folder
        self.page = RECIPES / recipe
        self.environment = {
            **os.environ,
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "REDIS_URL": redis_url,
            "https_proxy": proxy,
        }
        self.workers: list[Worker] = []
        (folder / "shop" / "spiders").mkdir(parents=True)
        for package in ("shop", "shop/spiders"):
            (folder / package / "__init__.py").touch()
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        (folder / "shop" / "settings.py").write_text(TEMPLATE)
        for page in (RECIPES / "index.md", self.page):
            for name, example in files(page):
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("a") as opened:
                    opened.write(example.code)

    def crawl(self, spider: str, *arguments: str, **environment: str) -> Worker:
        """Start a worker; a lease ends soon."""
        command = ("-m", "scrapy", "crawl", spider, "-s", "FRONTIER_LEASE_TIMEOUT=2", *arguments)
        log = self._log()
        log.touch()
        worker = start_forked(command, {**self.environment, **environment}, log, self.folder)
        self.workers.append(worker)
        return worker

    def program(self, *command: str) -> Worker:
        """Start a program of the recipe, as a service is started."""
        with self._log().open("wb") as log:
            worker = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.workers.append(worker)
        return worker

    def shell(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run what the page has the reader type."""
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def _log(self) -> Path:
        return self.folder / f"worker-{len(self.workers)}.log"

    def log(self, worker: int) -> str:
        """Return what a worker has logged."""
        return (self.folder / f"worker-{worker}.log").read_text(errors="replace")

    def wait(self, *workers: int) -> list[int]:
        """Wait for these workers, or for all; return their exit codes."""
        chosen = workers or range(len(self.workers))
        try:
            return [self.workers[number].wait(60) for number in chosen]
        except subprocess.TimeoutExpired:
            logs = [self.log(number)[-3000:] for number in chosen]
            raise AssertionError("not ended within 60 s:\n" + "\n".join(logs)) from None

    def stop(self) -> None:
        """Kill the workers that still run."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


Make = Callable[[str, Site], tuple[Project, Internet]]


@pytest.fixture
def make(tmp_path: Path, redis_url: str) -> Iterator[Make]:
    """Make the project of a recipe, and the site that it crawls."""
    made = []

    def project(recipe: str, site: Site) -> tuple[Project, Internet]:
        opened = internet(site)
        inside = opened.__enter__()
        crawled = Project(tmp_path / "project", recipe, redis_url, inside.url)
        made.append((opened, crawled))
        return crawled, inside

    yield project
    for opened, crawled in made:
        crawled.stop()
        opened.__exit__(None, None, None)


def items(server: redis.Redis, spider: str) -> list[dict[str, str]]:
    return [json.loads(item) for item in server.lrange(f"{spider}:items", 0, -1)]


# -- a login -------------------------------------------------------------------------------------

ORDERS = 60


#: The orders that a shop holds back begin with this one; and a worker that leaves some of them to the others.
LAST_ORDERS = 20
MODEST = (
    "-s",
    "CONCURRENT_REQUESTS=2",
    "-s",
    "FRONTIER_PREFETCH=2",
    "-s",
    f"ITEM_PIPELINES={ITEMS_IN_REDIS}",
)


class Shop:
    """A site that shows its orders to a session only.

    :param held_from: the orders from this one on are shown when :attr:`gate` is open. So a crawl does not end
        before a test has seen all its workers.
    """

    def __init__(self, forbidden: str = "", orders: int = ORDERS, held_from: int = ORDERS) -> None:
        self.orders = orders
        self.password = "lovelace"
        self.forbidden = forbidden
        self.held_from = held_from
        self.gate = threading.Event()
        self.sessions: set[str] = set()
        self.logins = 0
        #: How many orders each session has asked for.
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/robots.txt":
            return Answer("User-agent: *\nAllow: /\n")
        if asked.path == "/login":
            return self._login(asked)
        session = asked.cookies.get("session")
        if session not in self.sessions or asked.path == self.forbidden:
            return Answer(status=302, headers={"Location": f"/login?next={asked.path}"})
        with self._lock:
            self.asked[session] += 1
        number = int(asked.path.partition("/orders/")[2] or 0)
        if number >= self.held_from:
            self.gate.wait()
        links = "".join(
            f"<a href=/orders/{next_}>"
            for next_ in (3 * number + 1, 3 * number + 2, 3 * number + 3)
            if next_ < self.orders
        )
        return Answer(f"<p class=total>{number}</p>{links}")

    def _login(self, asked: Asked) -> Answer:
        if asked.method == "GET":
            return Answer("<form><input name=csrf value=seven></form>")
        right = {"csrf": "seven", "user": "ada", "password": self.password}
        if asked.form != right:
            return Answer("<form><input name=csrf value=seven></form>wrong password")
        session = uuid.uuid4().hex
        with self._lock:
            self.sessions.add(session)
            self.logins += 1
        cookie = {"Set-Cookie": f"session={session}; Path=/; Secure; HttpOnly", "Location": "/account"}
        return Answer(status=302, headers=cookie)


LOGIN = {"SHOP_USER": "ada", "SHOP_PASSWORD": "lovelace"}


def parsed(server: redis.Redis) -> set[str]:
    return {item["url"].partition("example.com")[2] for item in items(server, "orders")}


EVERY_ORDER = {"/orders", *(f"/orders/{number}" for number in range(1, ORDERS))}


@pytest.fixture
def held() -> Iterator[Shop]:
    """A shop that holds back its last orders until its gate is opened."""
    shop = Shop(held_from=LAST_ORDERS)
    yield shop
    shop.gate.set()


def is_at_work(shop: Shop, sessions: int) -> bool:
    """Return whether so many sessions have asked the shop for some orders each."""
    return len(shop.asked) == sessions and min(shop.asked.values()) > 1


def test_each_worker_logs_in_also_the_one_that_replaces_a_killed_one(
    make: Make, server: redis.Redis, held: Shop
) -> None:
    project, _ = make("login.md", held)
    for _ in range(2):
        project.crawl("orders", *MODEST, **LOGIN)
    wait_until(lambda: is_at_work(held, 2))
    project.workers[0].send_signal(signal.SIGKILL)
    project.crawl("orders", *MODEST, **LOGIN)
    wait_until(lambda: is_at_work(held, 3))
    held.gate.set()
    assert project.wait()[1:] == [0, 0]
    assert parsed(server) == EVERY_ORDER
    assert held.logins == 3


def test_a_worker_logs_in_once_again_when_its_session_has_ended(
    make: Make, server: redis.Redis, held: Shop
) -> None:
    project, _ = make("login.md", held)
    for _ in range(2):
        project.crawl("orders", *MODEST, **LOGIN)
    wait_until(lambda: is_at_work(held, 2))
    held.sessions.clear()
    held.gate.set()
    assert project.wait() == [0, 0]
    assert parsed(server) == EVERY_ORDER
    assert 3 <= held.logins <= 4


def test_no_session_gets_into_redis(make: Make, server: redis.Redis) -> None:
    shop = Shop(orders=10)
    tries: Counter[str] = Counter()
    kept: list[bytes] = []

    def unsteady(asked: Asked) -> Answer:
        tries[asked.path] += 1
        if "/orders/" in asked.path and tries[asked.path] == 1:
            return Answer(status=503)
        # One at a time: those that failed wait in Redis now.
        kept.extend(server.zrange("orders:requests:slot:shop.example.com", 0, -1))
        return shop(asked)

    project, _ = make("login.md", unsteady)
    project.crawl("orders", "-s", "CONCURRENT_REQUESTS=1", "-s", "FRONTIER_PREFETCH=1", **LOGIN)
    assert project.wait() == [0]
    assert tries["/orders/1"] == 2
    assert any(b"retry_times" in entry for entry in kept)
    assert not [entry for entry in kept if b"session=" in entry or b"Cookie" in entry]


def test_a_wrong_password_closes_the_worker_and_loses_no_page(make: Make, server: redis.Redis) -> None:
    shop = Shop()
    shop.password = "another"
    project, _ = make("login.md", shop)
    project.crawl("orders", **LOGIN)
    assert project.wait() == [0]
    assert "Spider closed (login_failed)" in project.log(0)
    assert not shop.logins
    shop.password = "lovelace"
    project.crawl("orders", "-s", f"ITEM_PIPELINES={ITEMS_IN_REDIS}", **LOGIN)
    project.wait()
    assert parsed(server) == EVERY_ORDER


def test_a_page_that_no_login_opens_is_in_the_failed_list(make: Make, server: redis.Redis) -> None:
    shop = Shop(forbidden="/orders/1")
    project, site = make("login.md", shop)
    project.crawl("orders", **LOGIN)
    assert project.wait() == [0]
    assert site.asked["https://shop.example.com/orders/1"] == 3
    (entry,) = server.lrange("orders:failed", 0, -1)
    assert json.loads(entry)["reason"] == "a login does not open this page"
    assert "Spider closed (finished)" in project.log(0)


# -- proxies -------------------------------------------------------------------------------------

PAGES = """
import scrapy


class PagesSpider(scrapy.Spider):
    name = "pages"
    start_urls = ["https://www.example.com/0"]

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a", meta=META)
"""


class Tree:
    """A site of pages that link to three others, whose first answer is an error: that is retried."""

    def __init__(self, pages: int, pause: float = 0.05) -> None:
        self.pages = pages
        self.pause = pause
        self.failed: set[str] = set()
        #: Through which proxy each page was sent.
        self.sent: dict[str, str] = {}

    def through(self, proxy: str) -> Site:
        """Return the site as it is seen through *proxy*."""
        return lambda asked: self.answer(asked, proxy)

    def answer(self, asked: Asked, proxy: str) -> Answer:
        if asked.path == "/robots.txt":
            return Answer(status=404)
        threading.Event().wait(self.pause)
        if asked.path not in self.failed:
            self.failed.add(asked.path)
            return Answer(status=503)
        self.sent[f"https://{asked.host}{asked.path}"] = proxy
        number = int(asked.path[1:])
        links = [next_ for next_ in range(3 * number + 1, 3 * number + 4) if next_ < self.pages]
        return Answer("".join(f"<a href=/{next_}>" for next_ in links))


@contextmanager
def two_proxies(tree: Tree) -> Iterator[list[str]]:
    """Open two proxies with a password each, and yield their addresses; none is refused."""
    users = ("ada:one", "ada:two")
    with internet(tree.through(users[0]), users[0]) as one, internet(tree.through(users[1]), users[1]) as two:
        yield [proxy.url.replace("//", f"//{proxy.user}@") for proxy in (one, two)]
    assert one.refused == two.refused == 0


def proxies_of_workers(project: Project, tree: Tree) -> list[Counter[str]]:
    """Return how many pages each worker has got through each proxy."""
    return [
        Counter(tree.sent[json.loads(line)["url"]] for line in file.read_text().splitlines())
        for file in project.folder.glob("pages-*.jsonl")
    ]


def with_pages_spider(project: Project, meta: str = "{}") -> None:
    (project.folder / "shop" / "spiders" / "pages.py").write_text(PAGES.replace("META", meta))


def test_all_requests_of_a_worker_go_through_its_own_proxy(make: Make, server: redis.Redis) -> None:
    tree = Tree(150)
    project, direct = make("proxies.md", tree.through(""))
    with_pages_spider(project)
    kept: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.01):
            kept.extend(server.zrange("pages:requests:slot:www.example.com", 0, -1))

    with two_proxies(tree) as proxies:
        assert len((project.folder / "proxies.txt").read_text().splitlines()) == 2
        (project.folder / "proxies.txt").write_text("\n".join(proxies) + "\n")
        (command,) = typed(project.page)
        looking = threading.Thread(target=look)
        looking.start()
        ended = project.shell(command)
        done.set()
        looking.join()
    assert ended.stderr.count("Spider closed (finished)") == 2, ended.stderr[-3000:]
    workers = proxies_of_workers(project, tree)
    assert [len(proxies) for proxies in workers] == [1, 1]
    assert len(tree.sent) == 150
    assert not direct.asked
    assert any(b"retry_times" in entry for entry in kept)
    assert not [entry for entry in kept if b"127.0.0.1" in entry or b"Proxy-Auth" in entry]


@pytest.mark.long
def test_a_request_that_a_broken_proxy_fails_is_tried_by_others_or_kept(make: Make) -> None:
    tree = Tree(60, pause=0.2)
    tree.failed |= {f"/{number}" for number in range(60)}  # only the proxy fails
    project, _ = make("proxies.md", tree.through(""))
    with_pages_spider(project)

    def with_both_workers(asked: Asked) -> Answer:
        """Hold the first page back until the worker with the broken proxy can get others."""
        if asked.path == "/0":
            wait_until(lambda: "Spider opened" in project.log(1))
        return tree.answer(asked, "good")

    # What was seen stays, so that the second crawl has nothing but what is put back.
    options = ("-s", "FRONTIER_SET_ASIDE=download", "-s", "SCHEDULER_PERSIST=True")
    with internet(with_both_workers, "ada:one") as good, internet(tree.through("bad"), "ada:two") as bad:
        right, wrong = good.url.replace("//", "//ada:one@"), bad.url.replace("//", "//ada:wrong@")
        for address in (right, wrong):
            project.crawl("pages", *options, WORKER_PROXY=address)
        assert project.wait() == [0, 0]
        assert bad.refused > 0
        (requeue,) = [line for line in project.page.read_text().split("`") if line.endswith(" --requeue")]
        assert project.shell(requeue).returncode == 0
        project.crawl("pages", *options, WORKER_PROXY=right)
        assert project.wait(2) == [0]
    assert set(tree.sent.values()) == {"good"}
    assert len(tree.sent) == 60


@pytest.mark.parametrize("way", ["meta", "environment"])
def test_the_obvious_ways_use_the_proxy_of_another_worker(make: Make, way: str) -> None:
    tree = Tree(150)
    project, _ = make("index.md", tree.through(""))
    with_pages_spider(project, '{"proxy": __import__("os").environ["CHOSEN"]}' if way == "meta" else "{}")
    with two_proxies(tree) as proxies:
        for proxy in proxies:
            variable = {"meta": "CHOSEN", "environment": "https_proxy"}[way]
            project.crawl("pages", "-o", "pages-%(worker)s.jsonl", **{variable: proxy})
        assert project.wait() == [0, 0]
    workers = proxies_of_workers(project, tree)
    assert sum(len(set(proxies) - {""}) == 2 for proxies in workers) > 0


# -- items ---------------------------------------------------------------------------------------


class Books:
    """A site whose pages have titles, and whose pages come in their own time."""

    def __init__(self, pages: int, pause: float = 0.1) -> None:
        self.pages = pages
        self.pause = pause
        self.sent: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/robots.txt":
            return Answer(status=404)
        threading.Event().wait(self.pause)
        self.sent[asked.path] += 1
        number = int(asked.path[1:])
        links = [next_ for next_ in range(3 * number + 1, 3 * number + 4) if next_ < self.pages]
        return Answer(f"<h1>book {number}</h1>" + "".join(f"<a href=/{next_}>" for next_ in links))

    @property
    def rows(self) -> list[tuple[str, str]]:
        return sorted((f"https://www.example.com/{n}", f"book {n}") for n in range(self.pages))


BOOKS = """
import scrapy


class PagesSpider(scrapy.Spider):
    name = "pages"
    start_urls = ["https://www.example.com/0"]

    def parse(self, response):
        yield {"url": response.url, "title": response.css("h1::text").get()}
        yield from response.follow_all(css="a")
"""


def in_database(project: Project) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(project.folder / "pages.db", timeout=30)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'pages'").fetchone():
            return []  # it is being made
        return sorted(database.execute("SELECT url, title FROM pages"))


def test_each_item_is_in_the_database_once_though_a_worker_is_killed(make: Make) -> None:
    books = Books(200)
    project, _ = make("database.md", books)
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    for _ in range(2):
        project.crawl("pages")
    wait_until(lambda: books.sent.total() > 60)
    project.workers[0].send_signal(signal.SIGKILL)
    assert project.wait(1) == [0]
    assert in_database(project) == books.rows
    assert books.sent.total() > len(books.sent)  # what the killed worker had begun


def test_a_database_that_is_locked_loses_no_item(make: Make) -> None:
    books = Books(40, pause=0.0)
    project, _ = make("database.md", books)
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    code = project.folder / "shop" / "database.py"
    code.write_text(code.read_text().replace("timeout=30", "timeout=0.1"))
    project.crawl("pages")
    wait_until(lambda: (project.folder / "pages.db").exists() and books.sent)
    with closing(sqlite3.connect(project.folder / "pages.db", timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: "database is locked; trying again" in project.log(0))
        other.rollback()
    assert project.wait() == [0]
    assert in_database(project) == books.rows


@pytest.mark.long
def test_a_consumer_gets_every_item_though_all_that_can_fails(make: Make, tmp_path: Path) -> None:
    books = Books(250)
    with PrivateRedis(tmp_path, ["--appendonly", "yes", "--appendfsync", "always"]) as own:
        project, _ = make("consumer.md", books)
        project.environment["REDIS_URL"] = own.url
        (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
        client = redis.Redis.from_url(own.url)
        (command,) = typed(project.page)

        def stored() -> int:
            return len(in_database(project))

        project.crawl("pages")
        for goal in (20, 50, 80):
            consumer = project.program(*command.split())
            wait_until(lambda goal=goal: stored() > goal)
            consumer.send_signal(signal.SIGKILL)
            consumer.wait()
        # Killed between the two steps, it has left an item in its own list.
        client.blmove("pages:items", "pages:items:of:one", 20, "LEFT", "RIGHT")
        project.program(*command.split())
        wait_until(lambda: stored() > 100)
        own.stop()
        time.sleep(1)
        own.start()
        wait_until(lambda: stored() > 130)
        client.client_kill_filter(_type="normal", skipme=True)
        project.workers[0].send_signal(signal.SIGKILL)
        last = len(project.workers)
        project.crawl("pages")
        project.wait(last)
        wait_until(lambda: not client.exists("pages:items", "pages:items:of:one"))
        assert in_database(project) == books.rows
        assert "trying again" in project.log(last - 1)
        assert "Traceback" not in project.log(last - 1)


def test_each_item_is_in_the_database_once_though_workers_and_the_consumer_are_killed(
    make: Make, server: redis.Redis
) -> None:
    books = Books(200)
    project, _ = make("stream.md", books)
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    (command,) = typed(project.page)
    for _ in range(2):
        project.crawl("pages")
    for goal in (20, 60, 100):
        consumer = project.program(*command.split())
        wait_until(lambda goal=goal: len(in_database(project)) > goal)
        consumer.send_signal(signal.SIGKILL)
        consumer.wait()
    project.workers[0].send_signal(signal.SIGKILL)
    project.program(*command.split())
    assert project.wait(1) == [0]
    wait_until(lambda: not server.xlen("pages:items"))
    assert in_database(project) == books.rows
    assert books.sent.total() > len(books.sent)  # what the killed worker had begun


def test_a_consumer_of_the_stream_stores_an_item_once_that_it_is_given_twice(
    make: Make, server: redis.Redis
) -> None:
    project, _ = make("stream.md", Books(1))
    entry = {"item": '{"url": "https://www.example.com/0", "title": "book 0"}', "id": "1-a-0"}
    for _ in range(2):
        server.xadd("pages:items", entry)
    project.program("python", "consume.py", "pages", "one")
    wait_until(lambda: not server.xlen("pages:items"))
    assert in_database(project) == [("https://www.example.com/0", "book 0")]


def test_a_consumer_of_the_stream_makes_room_in_a_redis_that_is_full(make: Make, tmp_path: Path) -> None:
    project, _ = make("stream.md", Books(1))
    with PrivateRedis(tmp_path) as own:
        project.environment["REDIS_URL"] = own.url
        client = redis.Redis.from_url(own.url)
        client.xgroup_create("pages:items", "database", id="0", mkstream=True)
        for number in range(3):
            item = {"url": f"https://www.example.com/{number}", "title": f"book {number}"}
            client.xadd("pages:items", {"item": json.dumps(item), "id": f"1-a-{number}"})
        client.config_set("maxmemory", 1)
        consumer = project.program("python", "consume.py", "pages", "one")
        wait_until(lambda: not client.xlen("pages:items") or consumer.poll() is not None)
        assert len(in_database(project)) == 3
        assert project.log(0) == ""


def test_a_consumer_of_the_list_makes_room_in_a_redis_that_is_full(make: Make, tmp_path: Path) -> None:
    project, _ = make("consumer.md", Books(1))
    with PrivateRedis(tmp_path) as own:
        project.environment["REDIS_URL"] = own.url
        client = redis.Redis.from_url(own.url)
        for number in range(3):
            item = {"url": f"https://www.example.com/{number}", "title": f"book {number}"}
            client.rpush("pages:items", json.dumps(item))
        client.config_set("maxmemory", 1)
        consumer = project.program("python", "consume.py", "pages", "one")
        wait_until(
            lambda: not client.exists("pages:items", "pages:items:of:one") or consumer.poll() is not None
        )
        assert len(in_database(project)) == 3
        assert consumer.poll() is None


def test_an_item_that_a_consumer_cannot_store_is_kept_and_can_be_put_away(
    make: Make, server: redis.Redis
) -> None:
    project, _ = make("consumer.md", Books(1))
    server.rpush("pages:items", "no item", '{"url": "https://www.example.com/0", "title": "book 0"}')
    for _ in range(2):
        assert project.program("python", "consume.py", "pages", "one").wait(30) == 1
        assert server.lrange("pages:items:of:one", 0, -1) == [b"no item"]
    *_, put_away = redis_cli(project.page)
    assert put_away.split()[:2] == ["redis-cli", "lmove"]
    server.execute_command(*put_away.split()[1:])
    project.program("python", "consume.py", "pages", "one")
    wait_until(lambda: not server.exists("pages:items:of:one", "pages:items"))
    assert server.lrange("pages:items:bad", 0, -1) == [b"no item"]
    assert len(in_database(project)) == 1


@pytest.mark.long
@pytest.mark.slow
def test_a_consumer_waits_longer_than_the_default_timeout_of_its_client(
    make: Make, server: redis.Redis
) -> None:
    project, _ = make("consumer.md", Books(1))
    project.program("python", "consume.py", "pages", "one")
    wait_until(lambda: (project.folder / "pages.db").exists())
    time.sleep(8)
    server.rpush("pages:items", '{"url": "https://www.example.com/0", "title": "book 0"}')
    wait_until(lambda: not server.exists("pages:items:of:one", "pages:items"))
    assert len(in_database(project)) == 1
    assert project.log(0) == ""


# -- every day -----------------------------------------------------------------------------------


class News:
    """A site with lists of articles, a page each for three of them."""

    def __init__(self) -> None:
        self.articles = [f"/article/{number}" for number in range(9)]
        self.broken: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/robots.txt":
            return Answer(status=404)
        self.gate.wait(60)
        self.asked[asked.path] += 1
        if asked.path in self.broken:
            return Answer(status=503)
        if asked.path.startswith("/article/"):
            return Answer(f"<h1>{asked.path}</h1>")
        page = int(asked.path.partition("/page/")[2] or 0)
        here = self.articles[3 * page : 3 * page + 3]
        more = f"<a class=next href=/page/{page + 1}>" if 3 * page + 3 < len(self.articles) else ""
        return Answer("".join(f"<a class=article href={path}>" for path in here) + more)


class Night:
    """The nightly job of a project, as cron runs it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        (project.folder / ".venv").mkdir()
        (project.folder / ".venv" / "bin").symlink_to(BINARIES)
        script = project.folder / "daily.sh"
        script.write_text(script.read_text().replace("/srv/shop", str(project.folder)))
        crontab = (project.folder / "crontab.txt").read_text().replace("/srv/shop", str(project.folder))
        (line,) = re.findall(r"^0 3 \* \* \*  (.+)$", crontab, re.MULTILINE)
        self.line = line

    def run(self) -> str:
        """Run it, and return what cron would mail."""
        return self.project.shell(self.line).stdout

    @property
    def titles(self) -> list[str]:
        """The articles that it has stored."""
        stored = self.project.folder.glob("news-*.jsonl")
        return sorted(json.loads(line)["title"] for file in stored for line in file.read_text().splitlines())


@pytest.mark.long
@pytest.mark.slow
def test_each_night_fetches_only_new_and_failed_pages(make: Make) -> None:
    news = News()
    project, _ = make("daily.md", news)
    night = Night(project)
    news.broken.add("/article/4")
    assert night.run() == ""
    assert night.titles == sorted(set(news.articles) - news.broken)
    news.asked.clear()
    news.broken.clear()
    news.articles[:0] = ["/article/today"]
    assert night.run() == ""
    fetched = {path for path in news.asked if path.startswith("/article/")}
    assert fetched == {"/article/4", "/article/today"}
    assert news.asked["/page/3"] == 1
    assert night.titles == sorted(news.articles)


@pytest.mark.long
@pytest.mark.slow
def test_a_night_says_that_the_night_before_still_runs(make: Make) -> None:
    news = News()
    project, _ = make("daily.md", news)
    night = Night(project)
    news.gate.clear()
    with subprocess.Popen(["bash", "-c", night.line], cwd=project.folder, env=project.environment) as last:
        wait_until(
            lambda: (
                (project.folder / "daily.log").exists()
                and "worker" in (project.folder / "daily.log").read_text()
            )
        )
        assert night.run() == "daily.sh: exit code 75\n"
        news.gate.set()
        assert last.wait(60) == 0
    assert night.titles == sorted(news.articles)


@pytest.mark.long
@pytest.mark.slow
def test_one_machine_more_than_allowed_ends_with_exit_code_0(make: Make) -> None:
    news = News()
    project, _ = make("daily.md", news)
    night = Night(project)
    script = project.folder / "daily.sh"
    script.write_text(
        script.read_text().replace(
            "--workers 2", "--workers 1 -s FRONTIER_MAX_WORKERS=1 -s FRONTIER_MAX_WORKERS_POLICY=exit"
        )
    )
    other = project.folder / "other.sh"  # the same on another machine, which has files of its own
    other.write_text(script.read_text().replace(".daily.lock", ".other.lock").replace("news-", "news-other-"))
    news.gate.clear()
    first = project.program("sh", "daily.sh")
    wait_until(lambda: "joined the frontier" in logs_of_workers(project))
    assert project.program("sh", "other.sh").wait(60) == 0
    assert first.poll() is None
    news.gate.set()
    assert first.wait(60) == 0
    assert night.titles == sorted(news.articles)


def logs_of_workers(project: Project) -> str:
    logs = (project.folder / ".scrapy" / "frontier").rglob("*.log")
    return "".join(file.read_text(errors="replace") for file in logs)


def test_a_night_without_redis_says_so(make: Make) -> None:
    project, _ = make("daily.md", News())
    project.environment["REDIS_URL"] = "redis://127.0.0.1:1/0"
    assert Night(project).run() == "daily.sh: exit code 1\n"


@pytest.mark.long
@pytest.mark.slow
def test_the_night_after_a_stop_resumes_and_the_next_one_finds_new_pages(
    make: Make, server: redis.Redis
) -> None:
    news = News()
    project, _ = make("daily.md", news)
    night = Night(project)
    stopped = project.program("sh", "daily.sh")
    # The first list is there, and what it links to is not.
    wait_until(lambda: news.asked["/"] and (news.gate.clear() or True))
    wait_until(lambda: sum(map(server.hlen, server.scan_iter("news:leases:*"))) > 1)
    stopped.terminate()
    time.sleep(1)
    news.gate.set()
    assert stopped.wait(60) == 130, project.log(0)
    assert len(night.titles) < len(news.articles)
    news.articles[:0] = ["/article/today"]
    assert night.run() == ""
    assert night.titles == sorted(news.articles[1:])
    assert night.run() == ""
    assert night.titles == sorted(news.articles)


def units(project: Project) -> dict[str, configparser.ConfigParser]:
    found = {}
    for file in (*project.folder.glob("*.service"), *project.folder.glob("*.timer")):
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment]
        parser.read(file)
        found[file.name] = parser
    return found


def test_systemd_gives_the_nightly_job_time_to_stop(make: Make) -> None:
    project, _ = make("daily.md", News())
    service = units(project)["news.service"]["Service"]
    assert service["KillMode"] == "mixed"
    assert service["TimeoutStopSec"] == "4min"
    assert LONGEST_STOP <= 240
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not here")
    text = (project.folder / "news.service").read_text().replace("User=crawl", "User=root")
    (project.folder / "news.service").write_text(text)
    files = [str(project.folder / name) for name in ("news.service", "news.timer")]
    done = subprocess.run([verify, "verify", "--man=no", *files], capture_output=True, text=True, timeout=60)
    assert not [line for line in (done.stdout + done.stderr).splitlines() if "news" in line]


# -- Scrapyd -------------------------------------------------------------------------------------


class Scrapyd:
    """What Scrapyd 1.6 does for the requests of the recipe."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.jobs: dict[str, int] = {}
        self.port = free_port()
        scrapyd = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                answer = json.dumps(scrapyd.answer(self.path, urllib.parse.parse_qs(body))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str, form: dict[str, list[str]]) -> dict[str, str]:
        assert form["project"] == ["shop"]
        if path == "/cancel.json":
            signals = {"INT": signal.SIGINT, "TERM": signal.SIGTERM}
            self.project.workers[self.jobs[form["job"][0]]].send_signal(
                signals[form.get("signal", ["INT"])[0]]
            )
            return {"prevstate": "running"}
        assert path == "/schedule.json"
        job = uuid.uuid4().hex
        feeds = json.dumps({(self.project.folder / f"{job}.jl").as_uri(): {"format": "jsonlines"}})
        given = [text for setting in form.get("setting", []) for text in ("-s", setting)]
        self.jobs[job] = len(self.project.workers)
        self.project.crawl(form["spider"][0], *given, "-s", f"FEEDS={feeds}", "-a", f"_job={job}")
        return {"jobid": job}

    def shell(self, script: str, **environment: str) -> str:
        """Run a script of the page, with this Scrapyd."""
        done = self.project.shell(script.replace("localhost:6800", f"127.0.0.1:{self.port}"), **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def scrapyd(make: Make) -> Iterator[Scrapyd]:
    if not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl or jq is not here")
    project, _ = make("scrapyd.md", Books(120, pause=0.4))
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    running = Scrapyd(project)
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.mark.long
def test_jobs_of_scrapyd_crawl_together_and_are_cancelled_and_replaced(
    scrapyd: Scrapyd, server: redis.Redis
) -> None:
    project = scrapyd.project
    start, more, cancel = [example.code for example in examples(project.page, "sh")]
    scrapyd.shell(start)
    assert len(project.workers) == 4
    wait_until(lambda: server.zcard("pages:workers") == 4)
    first, second, *_ = scrapyd.jobs
    scrapyd.shell(cancel, JOB=first)
    scrapyd.shell(cancel.replace("cancel.json", "cancel.json --data signal=TERM"), JOB=second)
    assert project.wait(0, 1) == [0, 0]
    assert all("Spider closed (shutdown)" in project.log(number) for number in (0, 1))
    for number in (2, 3):
        project.workers[number].send_signal(signal.SIGKILL)
    wait_until(lambda: (scrapyd.shell(more), len(project.workers) > 4)[1])
    project.wait(*range(4, len(project.workers)))
    assert "Spider closed (finished)" in project.log(4)
    jobs = len(project.workers)
    # After the finish it starts none.
    scrapyd.shell(more)
    assert len(project.workers) == jobs
    files = project.folder.glob("*.jl")
    stored = {json.loads(line)["url"] for file in files for line in file.read_text().splitlines()}
    # A feed loses what a killed worker had not written; the two others had time to write theirs.
    assert stored


def test_scrapyd_keeps_the_logs_of_more_jobs_than_it_runs(make: Make) -> None:
    project, _ = make("scrapyd.md", Books(1))
    config = configparser.ConfigParser()
    config.read(project.folder / "scrapyd.conf")
    assert config.getint("scrapyd", "jobs_to_keep") > config.getint("scrapyd", "max_proc")
    assert "jobs_dir" not in config["scrapyd"]


# -- Kubernetes ----------------------------------------------------------------------------------


def cron_job(project: Project) -> Any:
    return yaml.safe_load((project.folder / "crawl.yaml").read_text())


def test_the_job_ends_with_the_crawl_and_gives_up_nothing_before(make: Make) -> None:
    project, _ = make("kubernetes.md", Books(1))
    manifest = cron_job(project)
    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "CronJob")
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"
    job = manifest["spec"]["jobTemplate"]["spec"]
    assert job["parallelism"] > 1
    assert job["backoffLimit"] >= 100
    assert "completions" not in job
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "OnFailure"
    assert pod["terminationGracePeriodSeconds"] >= LONGEST_STOP
    (worker,) = pod["containers"]
    settings = (project.folder / "shop" / "settings.py").read_text()
    assert all(f'"{variable["name"]}"' in settings for variable in worker["env"])
    secret, *_ = [example.code for example in examples(project.page, "sh")]
    named = worker["env"][0]["valueFrom"]["secretKeyRef"]
    assert f"secret generic {named['name']} --from-literal={named['key']}=redis://" in secret


def container(project: Project) -> Worker:
    """Start the command of the manifest as a container does: with the signals to that process alone."""
    (worker,) = cron_job(project)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return project.program(*worker["command"])


@pytest.mark.long
@pytest.mark.slow
def test_a_container_succeeds_only_when_the_crawl_is_finished(make: Make, server: redis.Redis) -> None:
    books = Books(150, pause=0.4)
    project, _ = make("kubernetes.md", books)
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    drained, stays = container(project), container(project)
    wait_until(lambda: books.sent.total() > 40 and server.zcard("pages:workers") == 2)
    drained.terminate()
    assert drained.wait(60) == 130
    replaced = container(project)
    assert stays.wait(60) == replaced.wait(60) == 0
    assert len(books.sent) == 150


@pytest.mark.slow
def test_a_container_succeeds_when_its_fleet_is_stopped(make: Make, server: redis.Redis) -> None:
    books = Books(1000, pause=0.4)
    project, _ = make("kubernetes.md", books)
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    stopped = container(project)
    wait_until(lambda: books.sent.total() > 10)
    assert project.shell("scrapy frontier stop pages").returncode == 0
    assert stopped.wait(60) == 0
    assert server.zcard("pages:requests:slot:www.example.com") > 0


def test_the_command_that_changes_the_number_of_workers_is_right(make: Make, tmp_path: Path) -> None:
    if not shutil.which("jq"):
        pytest.skip("jq is not here")
    project, _ = make("kubernetes.md", Books(1000, pause=0.5))
    (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(f'#!/bin/sh\nfor one; do printf "%s\\n" "$one"; done >>{tmp_path}/kubectl\n')
    kubectl.chmod(0o755)
    project.environment["PATH"] = f"{kubectl.parent}:{project.environment['PATH']}"
    *_, suspend, scale = [example.code for example in examples(project.page, "sh")]
    assert not project.shell(scale).stderr
    assert not (tmp_path / "kubectl").exists()  # nothing to do, no worker
    project.crawl("pages")
    wait_until(lambda: "joined the frontier" in project.log(0))
    for script in (suspend, scale):
        assert project.shell(script).returncode == 0
    patches = [json.loads(line) for line in (tmp_path / "kubectl").read_text().splitlines() if "{" in line]
    assert patches[0] == {"spec": {"suspend": True}}
    assert patches[1]["spec"]["parallelism"] >= 1


def test_each_recipe_is_listed_and_tested() -> None:
    pages = {page.name for page in RECIPES.glob("*.md")} - {"index.md"}
    assert {target for _, target in links(RECIPES / "index.md") if "/" not in target} == pages
    tests = Path(__file__).read_text()
    assert not [page for page in pages if f'make("{page}"' not in tests]
