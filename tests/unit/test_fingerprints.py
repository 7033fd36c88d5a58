"""Fingerprints are remembered by URL only where nothing else matters."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.utils import request as scrapys
from scrapy.utils.request import RequestFingerprinter, fingerprint
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import RFPDupeFilter
from scrapy_rq_sched.assembly.dupefilter import load_fingerprints
from scrapy_rq_sched.fingerprints import Fingerprints, only_url_matters

URL = "http://example.com/?b=1&a=2#top"


class Counting:
    """Makes fingerprints, and counts how many."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, request: Request) -> str:
        self.made += 1
        return fingerprint(request).hex()


def test_a_known_urls_fingerprint_is_not_made_again() -> None:
    make = Counting()
    fingerprints = Fingerprints(make, 10)
    first, second = (fingerprints.of(Request(URL, meta={"depth": depth})) for depth in (1, 2))
    assert first == second == fingerprint(Request(URL)).hex()
    assert make.made == 1


@pytest.mark.parametrize(
    "other",
    [
        {"method": "POST"},
        {"method": "POST", "body": b"x"},
        {"body": b"x"},
        {"meta": {"verbatim_url": True}},
    ],
    ids=str,
)
def test_a_method_a_body_or_a_verbatim_url_makes_another_fingerprint(other: dict[str, Any]) -> None:
    fingerprints = Fingerprints(lambda request: fingerprint(request).hex(), 10)
    fingerprints.of(Request(URL))
    assert fingerprints.of(Request(URL, **other)) == fingerprint(Request(URL, **other)).hex()


def test_no_more_urls_are_remembered_than_the_size() -> None:
    make = Counting()
    fingerprints = Fingerprints(make, 2)
    for number in (1, 2, 3, 3, 2, 1):
        fingerprints.of(Request(f"http://example.com/{number}"))
    assert make.made == 4  # the first had to go when the third came


def test_a_url_of_kilobytes_is_not_remembered() -> None:
    make = Counting()
    fingerprints = Fingerprints(make, 10)
    for _ in range(2):
        fingerprints.of(Request("data:," + "x" * 3000))
    assert make.made == 2


def test_nothing_is_remembered_with_a_size_of_0() -> None:
    make = Counting()
    fingerprints = Fingerprints(make, 0)
    fingerprints.of(Request(URL))
    fingerprints.of(Request(URL))
    assert make.made == 2


def test_only_the_url_matters_to_the_fingerprinter_of_this_scrapy() -> None:
    assert only_url_matters(RequestFingerprinter())


def test_more_than_the_url_matters_to_a_fingerprinter_of_the_users_own() -> None:
    class ByLanguage(RequestFingerprinter):
        def fingerprint(self, request: Request) -> bytes:
            return fingerprint(request, include_headers=["Accept-Language"])

    assert not only_url_matters(ByLanguage())


@pytest.mark.parametrize(
    "look",
    [
        lambda request: request.headers,
        lambda request: request.cookies,
        lambda request: request.meta.get("render"),
        lambda request: "render" in request.meta,
        lambda request: list(request.meta.items()),
        lambda request: list(request.meta),
        lambda request: request.meta.pop("render", None),
        lambda request: {**request.meta},
        lambda request: len(request.meta),
        lambda request: request._meta,
        lambda request: request.meta["render"],
        lambda request: vars(request),
    ],
    ids=[
        "headers",
        "cookies",
        "meta-get",
        "meta-in",
        "meta-items",
        "meta-iter",
        "meta-pop",
        "meta-unpacked",
        "meta-len",
        "private",
        "meta-item",
        "vars",
    ],
)
def test_it_is_found_out_if_a_later_scrapy_looks_at_more(monkeypatch: pytest.MonkeyPatch, look: Any) -> None:
    def later(request: Request, **options: Any) -> bytes:
        look(request)
        return fingerprint(request)

    monkeypatch.setattr(scrapys, "fingerprint", later)
    assert not only_url_matters(RequestFingerprinter())


def test_a_dupefilter_with_a_fingerprint_of_its_own_is_always_asked() -> None:
    class ByHost(RFPDupeFilter):
        def request_fingerprint(self, request: Request) -> str:
            return str(request.meta["host"])

    fingerprints = load_fingerprints(get_crawler(), ByHost(None, "key"), 10)
    assert [fingerprints.of(Request(URL, meta={"host": host})) for host in "ab"] == ["a", "b"]


def test_the_shared_dupefilter_remembers_by_url() -> None:
    dupefilter = RFPDupeFilter(None, "key")
    fingerprints = load_fingerprints(get_crawler(), dupefilter, 10)
    known = fingerprints.of(Request(URL))
    dupefilter.fingerprinter = None  # nobody to ask
    assert fingerprints.of(Request(URL)) == known
