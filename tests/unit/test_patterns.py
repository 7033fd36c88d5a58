"""Which URLs a pattern, or a host, stands for."""

from __future__ import annotations

import fnmatch
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rq_sched.codec.patterns import Host, Pattern
from scrapy_rq_sched.errors import InspectionError

URL = "http://shop.example.com/items?page=2&sort=[price]"


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "**",
        URL,
        "http://shop.example.com/*",
        "*[price]",
        "*items*page=*",
        "http*//*.com/*?*",
        f"{URL}*",
        f"*{URL}",
    ],
)
def test_a_star_stands_for_anything_and_all_else_for_itself(pattern: str) -> None:
    assert Pattern(pattern).matches(URL)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "http",
        "*item",
        "items*",
        "http://shop?example.com/*",
        "*[a-z]rice]",
        "*page=2*page=2*",
        "HTTP*",
        ".*",
    ],
)
def test_a_pattern_is_of_the_whole_url_and_of_no_other(pattern: str) -> None:
    assert not Pattern(pattern).matches(URL)


def test_two_ends_of_a_pattern_do_not_share_a_text() -> None:
    assert not Pattern("aba*aba").matches("ababa")
    assert Pattern("aba*aba").matches("abaaba")


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    started = time.perf_counter()
    assert not Pattern("*a" * 40 + "*b").matches("a" * 4000)
    assert time.perf_counter() - started < 0.5


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_matches_as_in_a_shell(pattern: str, url: str) -> None:
    assert Pattern(pattern).matches(url) == bool(re.fullmatch(fnmatch.translate(pattern), url))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com:8080/a?b#c",
        "http://user:password@EXAMPLE.com/",
        "http://www.example.com/",
        "http://a.b.example.com./x",
        "//example.com/x",
    ],
)
def test_a_host_is_itself_and_its_subdomains(url: str) -> None:
    for name in ("example.com", "Example.COM", "example.com.", ".example.com"):
        assert Host(name).matches(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "http://notexample.com/",
        "http://example.com.evil.org/",
        "http://evil.org/example.com",
        "http://example.org/?u=http://example.com/",
        "http://[::1",
        "http://[x]/",
        "http://",
        "mailto:a@example.com",
        "\x00\ud800",
        "http://exa\ud800mple.com/",
        "http://" + "a" * 100 + "ü.com/",
    ],
)
def test_another_host_or_none_is_not_meant(url: str) -> None:
    assert not Host("example.com").matches(url)


def test_a_host_may_be_an_address_or_not_of_ascii() -> None:
    assert Host("127.0.0.1").matches("http://127.0.0.1:8000/")
    assert Host("::1").matches("http://[::1]:8000/")
    assert Host("[::1]").matches("http://[::1]/")
    assert Host("bücher.example").matches("http://xn--bcher-kva.example/")
    assert Host("xn--bcher-kva.example").matches("http://www.BÜCHER.example/")


@pytest.mark.parametrize(
    "name", ["", ".", "http://example.com", "example.com/", "*.example.com", "a b", "[]"]
)
def test_an_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(InspectionError, match="is not a valid host name"):
        Host(name)
