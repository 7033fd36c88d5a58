"""The kind of an error has what is the same in all of its reasons."""

from __future__ import annotations

import pytest

from scrapy_rq_sched.codec.error_kinds import error_of


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (
            "its download failed: DNSLookupError: DNS lookup failed: no results for hostname lookup: a.b",
            "its download failed: DNSLookupError",
        ),
        (
            "its download failed: twisted.internet.error.DNSLookupError: x",
            "its download failed: twisted.internet.error.DNSLookupError",
        ),
        ("its download failed: status 503", "its download failed: status 503"),
        ("its callback raised H2Error: 7", "its callback raised H2Error"),
        ("its callback raised KeyError: 'price: 5'", "its callback raised KeyError"),
        ("its worker died 5 times", "its worker died … times"),
        ("ValueError: Missing scheme in request url: htp//a", "ValueError"),
        ("not JSON: Expecting value: line 1", "not JSON"),
        ("unknown field 'x: y'. The known fields are url", "unknown field …. The known fields are url"),
        ("the site's page isn't there: 7", "the site's page isn't there"),
        ("the page of https://a.example/1 has no price", "the page of … has no price"),
        ("the price is 7.50", "the price is …"),
        ("http://a.example/: bad", "… bad"),
        ("", ""),
        (":", ""),
    ],
)
def test_the_kind_of_an_error_is_its_reason_without_the_details(reason: str, kind: str) -> None:
    assert error_of(reason) == kind


def test_a_reason_of_megabytes_has_a_short_kind() -> None:
    assert len(error_of("'" * 5_000_000)) <= 500
