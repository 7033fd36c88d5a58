"""Each recipe does what its page promises: its code is taken from the page, and run as it is printed."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
import scrapy

from scrapy_rq_sched.embedded import PrivateRedis

from ..crawl import start_forked, start_interpreter, wait_until
from ..forked import ForkedScrapy
from ..internet import Answer, Asked, Internet, Site, internet
from ..pages import DOCS, Example, examples

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

    def python(self, *arguments: str, **environment: str) -> Worker:
        """Start a program of the recipe."""
        worker = start_interpreter(arguments, {**self.environment, **environment}, self._log(), self.folder)
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


class Shop:
    """A site that shows its orders to a session only."""

    def __init__(self, pause: float = 0.0, forbidden: str = "") -> None:
        self.password = "lovelace"
        self.pause = pause
        self.forbidden = forbidden
        self.sessions: set[str] = set()
        self.logins = 0
        self.shown: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/robots.txt":
            return Answer("User-agent: *\nAllow: /\n")
        if asked.path == "/login":
            return self._login(asked)
        session = asked.cookies.get("session")
        if session not in self.sessions or asked.path == self.forbidden:
            return Answer(status=302, headers={"Location": f"/login?next={asked.path}"})
        threading.Event().wait(self.pause)
        with self._lock:
            self.shown[session] += 1
        number = int(asked.path.partition("/orders/")[2] or 0)
        links = "".join(
            f"<a href=/orders/{next_}>" for next_ in (3 * number + 1, 3 * number + 2, 3 * number + 3) if next_ < ORDERS
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


def test_each_worker_logs_in_also_the_one_that_replaces_a_killed_one(
    make: Make, server: redis.Redis
) -> None:
    shop = Shop(pause=0.2)
    project, _ = make("login.md", shop)
    for _ in range(2):
        project.crawl("orders", "-s", f"ITEM_PIPELINES={ITEMS_IN_REDIS}", **LOGIN)
    wait_until(lambda: len(shop.shown) == 2 and min(shop.shown.values()) > 3)
    project.workers[0].send_signal(signal.SIGKILL)
    project.crawl("orders", "-s", f"ITEM_PIPELINES={ITEMS_IN_REDIS}", **LOGIN)
    assert project.wait()[1:] == [0, 0]
    assert parsed(server) == EVERY_ORDER
    assert 2 <= shop.logins <= 3


def test_a_worker_logs_in_once_again_when_its_session_has_ended(make: Make, server: redis.Redis) -> None:
    shop = Shop(pause=0.1)
    project, _ = make("login.md", shop)
    for _ in range(2):
        project.crawl("orders", "-s", f"ITEM_PIPELINES={ITEMS_IN_REDIS}", **LOGIN)
    wait_until(lambda: len(shop.shown) == 2 and min(shop.shown.values()) > 3)
    shop.sessions.clear()
    assert project.wait() == [0, 0]
    assert parsed(server) == EVERY_ORDER
    assert 3 <= shop.logins <= 4


def test_no_session_gets_into_redis(make: Make, server: redis.Redis) -> None:
    shop = Shop()
    tries: Counter[str] = Counter()
    kept: list[bytes] = []

    def unsteady(asked: Asked) -> Answer:
        tries[asked.path] += 1
        if "/orders/" in asked.path and tries[asked.path] == 1:
            return Answer(status=503)
        kept.extend(server.zrange("orders:requests:slot:shop.example.com", 0, -1))
        return shop(asked)

    project, _ = make("login.md", unsteady)
    project.crawl("orders", **LOGIN)
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
    project, _ = make("login.md", shop)
    project.crawl("orders", **LOGIN)
    assert project.wait() == [0]
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
    with closing(sqlite3.connect(project.folder / "pages.db")) as database:
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


def test_a_consumer_gets_every_item_though_all_that_can_fails(make: Make, tmp_path: Path) -> None:
    books = Books(250)
    with PrivateRedis(tmp_path, ["--appendonly", "yes", "--appendfsync", "always"]) as own:
        project, _ = make("consumer.md", books)
        project.environment["REDIS_URL"] = own.url
        (project.folder / "shop" / "spiders" / "pages.py").write_text(BOOKS)
        client = redis.Redis.from_url(own.url)
        (command,) = typed(project.page)
        program, *arguments = command.split()
        assert program == "python"

        def stored() -> int:
            return len(in_database(project)) if (project.folder / "pages.db").exists() else 0

        project.crawl("pages")
        for goal in (20, 50, 80):
            consumer = project.python(*arguments)
            wait_until(lambda goal=goal: stored() > goal)
            consumer.send_signal(signal.SIGKILL)
            consumer.wait()
        # Killed between the two steps, it has left an item in its own list.
        client.blmove("pages:items", "pages:items:of:one", 20, "LEFT", "RIGHT")
        project.python(*arguments)
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


@pytest.mark.slow
def test_a_consumer_waits_longer_than_the_default_timeout_of_its_client(make: Make, server: redis.Redis) -> None:
    project, _ = make("consumer.md", Books(1))
    project.python("consume.py", "pages", "one")
    wait_until(lambda: (project.folder / "pages.db").exists())
    time.sleep(8)
    server.rpush("pages:items", '{"url": "https://www.example.com/0", "title": "book 0"}')
    wait_until(lambda: not server.exists("pages:items:of:one", "pages:items"))
    assert len(in_database(project)) == 1
    assert project.log(0) == ""
