"""In which groups a request is, and for which it waits."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.codec.groups import followed_by, groups_of, inherit, note_waited
from scrapy_rq_sched.worker.groups import Groups
from scrapy_rq_sched.worker.outbox import Outbox

PAGE = Request("http://a.example/page", meta={"group": "order"})


def request(**meta: Any) -> Request:
    return Request("http://a.example/", meta=meta)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("g", {"g"}),
        (17, {"17"}),
        (["g", 17], {"g", "17"}),
        (("h", "g"), {"g", "h"}),
        (None, set()),
        ("", set()),
    ],
)
def test_groups_are_names_integers_or_lists_of_these(value: Any, names: set[str]) -> None:
    assert groups_of(request(group=value)) == names
    assert followed_by(request(after=value)) == names


@pytest.mark.parametrize("value", [{}, 1.5, True, [None], [""], "x" * 1001, "订" * 200, ["x"] * 51])
def test_other_values_are_no_groups(value: Any) -> None:
    with pytest.raises(ValueError, match=r"must (be a name or a list of names|have (names of )?at most)"):
        groups_of(request(group=value))


def test_a_long_url_is_a_name() -> None:
    url = "http://a.example/订单?" + "x=1&" * 100
    assert groups_of(request(group=url)) == {url}


def test_a_request_without_groups_inherits_the_groups_of_its_page() -> None:
    child, grandchild = request(), request()
    inherit(child, PAGE)
    inherit(grandchild, child)
    assert groups_of(child) == groups_of(grandchild) == {"order"}
    assert "group" not in child.meta


@pytest.mark.parametrize(("own", "names"), [("article", {"article"}), (None, set())])
def test_the_groups_of_a_request_replace_the_groups_of_its_page(own: Any, names: set[str]) -> None:
    child = request(group=own)
    inherit(child, PAGE)
    assert groups_of(child) == names


def test_a_request_stays_out_of_a_group_for_which_it_waits() -> None:
    child = request(after="order")
    inherit(child, PAGE)
    assert groups_of(child) == set()
    assert followed_by(child) == {"order"}


def test_a_group_that_is_not_valid_hides_no_group_of_the_page() -> None:
    child, grandchild = request(group={"of": "the user"}), request()
    inherit(child, PAGE)
    inherit(grandchild, child)
    assert groups_of(grandchild) == {"order"}
    assert child.meta["group"] == {"of": "the user"}


def test_a_retry_of_a_request_that_has_waited_does_not_wait_again() -> None:
    page = request(after=["first"], group="second")
    assert followed_by(page) == {"first"}
    note_waited(page)
    retry = page.copy()
    assert (groups_of(retry), followed_by(retry)) == ({"second"}, frozenset())
    assert page.meta["after"] == ["first"]
    retry.meta["after"].append("third")
    assert followed_by(retry) == {"first", "third"}


def test_a_link_with_a_copy_of_the_meta_of_its_page_waits_as_its_page_did() -> None:
    page = request(after="first", group="second")
    note_waited(page)
    link = request(**page.meta)
    inherit(link, page)
    assert (groups_of(link), followed_by(link)) == ({"second"}, {"first"})


def test_an_after_of_other_code_hides_no_group_of_the_page() -> None:
    child = request(after={"cursor": 1.5})
    inherit(child, PAGE)
    assert groups_of(child) == {"order"}


def test_a_page_that_is_yielded_again_stays_in_its_groups() -> None:
    page = request()
    inherit(page, PAGE)
    inherit(page, page)
    assert groups_of(page) == {"order"}


def test_a_request_that_waits_for_its_own_group_is_not_in_it(caplog: pytest.LogCaptureFixture) -> None:
    groups = Groups(Outbox())
    groups.stats = MemoryStatsCollector(get_crawler())
    assert groups.of(request(group=["g", "h"], after="g"))[:2] == ("h", "g")
    assert "it waits for group 'g', and would wait for itself" in caplog.text
    waited = request(group="g", after="g")
    note_waited(waited)
    assert groups.of(waited)[:2] == ("", "")


@pytest.mark.parametrize("value", [{}, 1.5, True, "x" * 2000])
def test_a_request_that_cannot_wait_begins_at_once(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    groups = Groups(Outbox())
    groups.stats = MemoryStatsCollector(get_crawler())
    assert groups.of(request(after=value, group="g"))[:2] == ("g", "")
    assert 'are ignored: meta["after"] must ' in caplog.text


@pytest.mark.parametrize("value", [{}, "x" * 2000])
def test_a_queue_that_does_not_keep_groups_refuses_no_request(value: Any) -> None:
    groups = Groups(Outbox())
    groups.are_kept = False
    assert groups.of(request(after=value, group=value)) == ("", "", 0)


def test_sets_and_tuples_become_lists_so_that_they_can_be_stored() -> None:
    one = request(group={"b", "a"}, after=("d", "c"))
    assert Groups(Outbox()).of(one)[:2] == ("a|b", "c|d")
    assert one.meta == {"group": ["a", "b"], "after": ["d", "c"]}
