"""Limits of slots in the settings, and the names of slots."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from scrapy import Request

from scrapy_rq_sched.codec.slot_limits import UNLIMITED, SlotLimits, SlotPolicy
from scrapy_rq_sched.codec.slot_rules import SlotRule, slot_rules
from scrapy_rq_sched.codec.slots import LONGEST, AssignedSlot, forget_assigned_slot, slot_name, slot_of
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.worker.slots import Politeness

# -- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "slot"),
    [
        ("http://example.com/", "example.com"),
        ("https://Example.COM:8443/a?b", "example.com"),
        ("http://[::1]:80/", "::1"),
        ("data:,", "-"),
        ("file:///etc/hosts", "-"),
    ],
)
def test_a_slot_is_the_host_of_its_requests(url: str, slot: str) -> None:
    assert slot_of(Request(url)) == slot


def test_a_slot_that_the_request_names_comes_before_its_host() -> None:
    assert slot_of(Request("http://example.com", meta={"download_slot": "shop"})) == "shop"


@pytest.mark.parametrize(
    "slot", ["a b", "a@b", "{a}", "a*b", "a\nb", "\x00", "%", "é", "\ud800", "-", "a" * 10_000, "é" * 300]
)
def test_the_name_of_a_slot_with_odd_characters_is_printable_and_short(slot: str) -> None:
    name = slot_name(slot)
    assert name.isascii()
    assert name.isprintable()
    assert not set(name) & set(" @{}*?[]")
    assert 0 < len(name) <= LONGEST


def test_different_slots_have_different_names() -> None:
    slots = [
        "",
        "-",
        "%2D",
        "a b",
        "a%20b",
        "a" * 10_000,
        "a" * 9_999,
        "é",
        "%C3%A9",
        slot_name("a" * 10_000),
    ]
    assert len({slot_name(slot) for slot in slots}) == len(slots)


def test_a_slot_that_is_no_text_has_a_name() -> None:
    assert slot_of(Request("http://example.com", meta={"download_slot": 7})) == "7"


def test_a_slot_that_the_downloader_has_assigned_does_not_count() -> None:
    request = Request("http://www.example.com", meta={"download_slot": AssignedSlot("example.com")})
    assert slot_of(request) == "www.example.com"
    forget_assigned_slot(request)
    assert request.meta == {}


def test_a_slot_of_the_user_is_kept() -> None:
    request = Request("http://www.example.com", meta={"download_slot": "proxy-1"})
    forget_assigned_slot(request)
    assert request.meta == {"download_slot": "proxy-1"}


@pytest.mark.parametrize(
    "copied",
    [
        lambda request: Request("http://b.test", meta=request.meta),
        lambda request: request.replace(url="http://b.test"),
        lambda request: Request("http://b.test", meta=copy.copy(request.meta)),
        lambda request: Request("http://b.test", meta=copy.deepcopy(request.meta)),
        lambda request: Request("http://b.test", meta={**request.meta, "page": 2}),
    ],
    ids=["meta", "replace", "copy", "deepcopy", "unpacked"],
)
def test_a_copy_of_meta_shows_that_the_downloader_has_assigned_the_slot(copied: Any) -> None:
    request = Request("http://a.test", meta={"download_slot": AssignedSlot("a.test")})
    assert slot_of(copied(request)) == "b.test"


def test_an_assigned_slot_is_the_same_text_to_others() -> None:
    slot = AssignedSlot("a.test")
    assert {slot: 1}["a.test"] == 1
    assert json.dumps({"download_slot": slot}) == '{"download_slot": "a.test"}'
    assert type(pickle.loads(pickle.dumps(slot))) is str


# -- rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({"delay": 2}, SlotRule("*", delay=2.0)),
        ({"delay": "2.5", "jitter": 0.5}, SlotRule("*", delay=2.5, jitter=0.5)),
        ({"concurrency": 1}, SlotRule("*", concurrency=1)),
        ({"rate": "60/m"}, SlotRule("*", delay=1.0)),
        ({"rate": "2/s"}, SlotRule("*", delay=0.5)),
        ({"rate": "1.5/h"}, SlotRule("*", delay=2400.0)),
        ({"rate": "60/m", "delay": 2}, SlotRule("*", delay=2.0)),
    ],
)
def test_a_rule_says_delay_rate_jitter_and_concurrency(said: dict[str, Any], rule: SlotRule) -> None:
    assert slot_rules("S", {"*": said}) == (rule,)


def test_rules_may_be_json() -> None:
    assert slot_rules("S", '{"a": {"delay": 1}}') == (SlotRule("a", delay=1.0),)


@pytest.mark.parametrize("value", [None, "", {}])
def test_there_may_be_no_rules(value: Any) -> None:
    assert slot_rules("S", value) == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a mapping"),
        (7, "must be a mapping"),
        ({"": {}}, "must be a text"),
        ({3: {}}, "must be a text"),
        ({"a": 2}, r"S\['a'\] must be a mapping .*, not 2$"),
        ({"a": {"delai": 2}}, "has unknown fields: delai. The known fields are delay"),
        ({"a": {"delay": -1}}, "must be a number from 0 to 86400"),
        ({"a": {"delay": True}}, "must be a number"),
        ({"a": {"delay": "soon"}}, "delay must be .*, not 'soon'"),
        ({"a": {"delay": float("nan")}}, "must be a number"),
        ({"a": {"delay": 1e9}}, "must be a number"),
        ({"a": {"jitter": 2}}, "must be a number from 0 to 1"),
        ({"a": {"concurrency": 1.5}}, "must be an integer ≥ 0"),
        ({"a": {"rate": "60"}}, "such as '60/m'"),
        ({"a": {"rate": "0/s"}}, "such as '60/m'"),
        ({"a": {"rate": "1/y"}}, "such as '60/m'"),
        ({"a": {"rate": "0.001/d"}}, "such as '60/m'"),
    ],
)
def test_a_rule_that_is_not_valid_is_refused_by_its_name(value: Any, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        slot_rules("S", value)


# -- what the fleet keeps ----------------------------------------------------------------------------

DELAYED = SlotLimits(delay=2.0, jitter=0.5, concurrency=8)


def test_the_fleet_keeps_no_limit_that_is_not_named() -> None:
    assert Politeness(DELAYED).of("a") == UNLIMITED
    assert Politeness(DELAYED, fleet=frozenset({"delay"})).of("a") == SlotLimits(2.0, 0.5, 0)
    assert Politeness(DELAYED, fleet=frozenset({"concurrency"})).of("a") == SlotLimits(0, 0, 8)


def test_a_slot_of_scrapys_settings_has_limits_of_its_own() -> None:
    polite = Politeness(DELAYED, {"slow": SlotLimits(delay=9)}, fleet=frozenset({"delay"}))
    assert polite.policy == SlotPolicy(SlotLimits(2.0, 0.5), {"slow": SlotLimits(delay=9)})


def test_the_first_rule_that_fits_holds_over_scrapys_settings() -> None:
    rules = slot_rules("S", {"b.com": {"delay": 1}, "*.com": {"delay": 5}})
    polite = Politeness(DELAYED, {"a.com": SlotLimits(delay=9)}, rules, frozenset({"delay"}))
    assert [polite.of(slot).delay for slot in ("a.com", "b.com", "c.org")] == [5, 1, 2]


def test_a_rule_holds_for_the_fleet_though_the_setting_names_no_limits() -> None:
    assert Politeness(DELAYED, rules=slot_rules("S", {"a": {"concurrency": 1}})).of("a").concurrency == 1


def test_a_rule_for_all_slots_is_a_pattern_of_the_policy() -> None:
    polite = Politeness(DELAYED, rules=slot_rules("S", {"*": {"delay": 5}}))
    assert polite.policy.patterns == (("*", SlotLimits(delay=5)),)
    assert not polite.policy.named


def test_a_rule_without_wildcards_names_its_slot_as_the_frontier_does() -> None:
    polite = Politeness(rules=slot_rules("S", {"My Shop": {"delay": 5}}))
    assert set(polite.policy.named) == {"my shop", "my%20shop"}


def test_a_name_has_the_limits_of_the_first_rule_that_fits_it() -> None:
    polite = Politeness(rules=slot_rules("S", {"*.com": {"delay": 5}, "a.com": {"delay": 1}}))
    assert polite.policy.named["a.com"] == SlotLimits(delay=5)


def test_settings_without_limits_are_no_policy() -> None:
    assert not Politeness(DELAYED, {"slow": SlotLimits(delay=9)}).policy


def test_of_very_many_slots_not_all_are_remembered() -> None:
    polite = Politeness(DELAYED, fleet=frozenset({"delay"}))
    for number in range(25_000):
        polite.of(f"host{number}")
    assert len(polite._known) <= 10_000


def test_limits_that_were_set_hold_until_a_turn_comes_without_them() -> None:
    polite = Politeness(DELAYED, fleet=frozenset({"delay"}))
    leased = [Lease("1.1", "request", 0, b"x", "a", 1.0)]
    polite.take_reply(Reply("1", leases=leased, limits={"a": SlotLimits(delay=0.5)}))
    assert (polite.gap_of("a"), polite.gap_of("b")) == (0.5, 1.0)
    polite.take_reply(Reply("1"))
    assert polite.gap_of("a") == 0.5
    polite.take_reply(Reply("1", leases=leased))
    assert polite.gap_of("a") == 1.0


def test_the_downloader_keeps_its_own_delay_only_of_slots_without_a_delay_of_the_fleet() -> None:
    rules = slot_rules("S", {"free": {"delay": 0}, "few": {"concurrency": 1}})
    polite = Politeness(DELAYED, rules=rules)
    assert [polite.gap_of(slot) for slot in ("free", "few", "a")] == [0, None, None]


def test_a_slot_with_a_concurrency_that_was_set_keeps_the_delay_of_each_worker() -> None:
    polite = Politeness(DELAYED)
    polite.take_reply(Reply("1", limits={"a": SlotLimits(concurrency=1)}))
    assert polite.gap_of("a") is None
    polite.take_reply(Reply("1", limits={"a": SlotLimits(delay=3)}, with_delay=frozenset({"a"})))
    assert polite.gap_of("a") == 3


@pytest.mark.parametrize("others", [{}, {"b": SlotLimits(delay=1)}], ids=str)
def test_a_slot_without_limits_here_needs_turns_while_the_limits_of_others_are_in_force(
    others: dict[str, SlotLimits],
) -> None:
    polite = Politeness(UNLIMITED, others, fleet=frozenset({"delay"}))

    def waits() -> set[bool]:
        return {polite.needs_turns("a"), polite.delays_outside("a")}

    assert waits() == {False}
    polite.joined("other", "delay 2 s")
    assert waits() == {True}
    polite.take_reply(Reply("1"))
    assert waits() == {False}
    polite.take_reply(Reply("1", limits_in_force=SlotLimits(delay=2)))
    assert waits() == {True}
    assert polite.counts("a")
    polite.take_reply(Reply("2"))  # the frontier has lost its data
    assert waits() == {True}
    assert (polite.gap_of("a"), polite.gap_of("b")) == (2, 1 if others else 2)
