"""Why a URL has not been crawled, in sentences, with commands that a shell takes."""

from __future__ import annotations

import pytest

from scrapy_rq_sched.codec.failed_request import FailedRequest
from scrapy_rq_sched.inspect.entries import Entry, Held
from scrapy_rq_sched.inspect.explain import Explanation, Place
from scrapy_rq_sched.inspect.status import Status, Worker
from scrapy_rq_sched.inspect.verdict import verdict

URL = "http://a.example/?a=1&b=2"
ENTRY = Entry("request", b"", 0.0, {"url": URL})
FAILED = FailedRequest("w 1", "request", "bad", 0, "w", 1, 0, "", "", b"", b"")
ALIVE = [Worker("w", alive=True)]


def said(state: str = "crawling", workers: list[Worker] = ALIVE, **found: object) -> str:
    explained = Explanation(URL, "ab", **found)  # type: ignore[arg-type]
    status = Status("my shop", "my shop:requests", state, 0.0, workers=workers)
    return "\n".join(verdict(explained, status, f"'{URL}'"))


@pytest.mark.parametrize(
    ("verdict_", "command"),
    [
        (said(waiting=[Place(3, "k", ENTRY)]), f"scrapy frontier reprioritize 'my shop' 1000 '{URL}'"),
        (said("paused", waiting=[Place(3, "k", ENTRY)]), "scrapy frontier resume 'my shop'"),
        (said(workers=[], waiting=[Place(3, "k", ENTRY)]), "scrapy crawl 'my shop'"),
        (said(workers=[], held=[Held("w", False, "1.1", 0, 0, ENTRY)]), "scrapy crawl 'my shop'"),
        (said(failed=[FAILED]), "scrapy frontier failed 'my shop' --id 'w 1' --requeue"),
        (said(seen=True), f"scrapy frontier forget 'my shop' '{URL}' --crawl"),
        (said(), f"scrapy frontier seed 'my shop' '{URL}'"),
    ],
)
def test_the_names_in_a_command_are_quoted(verdict_: str, command: str) -> None:
    assert command in verdict_
    assert verdict_.count("my shop") == verdict_.count("'my shop'") == 1


def test_the_worker_that_holds_a_request_is_named() -> None:
    assert said(held=[Held("w", True, "1.1", 0, 0, ENTRY)]) == (
        "Worker w holds it, and releases it when it has finished it"
    )
