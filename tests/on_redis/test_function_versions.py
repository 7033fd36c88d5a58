"""The library of the exchange, if several versions of this package share a server."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from scrapy_rq_sched.frontier.scripts import Script, compose, compose_library
from scrapy_rq_sched.frontier.scripts.text import Library
from scrapy_rq_sched.keys import Keys

pytestmark = pytest.mark.single("functions are not used on a Cluster")

NAME, QUEUE, FILTER = "scripts/exchange", "priority", "exact"


@pytest.fixture
def libraries(server: Any) -> Any:
    """A client of a server that has functions, but no library."""
    if int(server.info("server")["redis_version"].partition(".")[0]) < 7:
        pytest.skip("the server has no functions")
    server.execute_command("FUNCTION", "FLUSH")
    return server


def of_version(server: Any, version: str) -> Script:
    """Return the exchange as another version of this package has it."""
    library = compose_library(NAME, QUEUE, FILTER)
    name = f"{library.kind}{version}"
    text = library.text.replace(library.name.encode(), name.encode())
    return Script(server, compose(NAME, QUEUE, FILTER), Library(name, library.kind, text))


def call(script: Script) -> None:
    """Call the exchange, which refuses this message."""
    with pytest.raises(redis.ResponseError, match="Expected value"):
        script(Keys("s").all(), ["no message"])


def loads(server: Any) -> Any:
    return server.info("commandstats").get("cmdstat_function|load", {"calls": 0})["calls"]


def test_two_versions_that_run_together_keep_their_libraries(libraries: Any) -> None:
    old, new = of_version(libraries, "old"), of_version(libraries, "new")
    old.load("a")
    new.load("a")
    call(old)
    before = loads(libraries)
    for _ in range(3):
        call(new)
        call(old)
    assert loads(libraries) == before


def test_a_new_version_removes_the_library_of_the_old_one(libraries: Any) -> None:
    of_version(libraries, "old").load("a")
    new = of_version(libraries, "new")
    new.load("a")
    assert new.is_function
    with pytest.raises(redis.ResponseError, match="not found"):
        libraries.execute_command("FCALL", of_version(libraries, "old").library.name, 0)  # type: ignore[union-attr]


def test_workers_that_join_together_after_an_update_all_use_the_function(libraries: Any) -> None:
    of_version(libraries, "old").load("a")
    joining = [of_version(libraries, "new") for _ in range(16)]
    threads = [threading.Thread(target=script.load, args=("a",)) for script in joining]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(script.is_function for script in joining)


def test_a_library_that_cannot_be_loaded_again_leaves_the_script(libraries: Any) -> None:
    script = of_version(libraries, "new")
    script.load("a")
    libraries.execute_command("FUNCTION", "FLUSH")
    libraries.config_set("maxmemory", 1)
    try:
        call(script)
    finally:
        libraries.config_set("maxmemory", 0)
