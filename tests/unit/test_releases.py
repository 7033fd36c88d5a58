"""Which releases of Redis and Valkey have the known security fixes."""

from __future__ import annotations

import pytest

from scrapy_rq_sched.servers.releases import needed_update


@pytest.mark.parametrize(
    ("kind", "version", "needed"),
    [
        ("Redis", "6.2.14", "6.2.23"),
        ("Redis", "6.2.22", "6.2.23"),
        ("Redis", "6.2.23", ""),
        ("Redis", "6.2.100", ""),
        ("Redis", "7.0.15", "7.2.15"),
        ("Redis", "7.4.9", "7.4.10"),
        ("Redis", "7.4.10", ""),
        ("Redis", "8.0.6", "8.2.8"),
        ("Redis", "8.8.0", "8.8.1"),
        ("Redis", "8.10.0", ""),
        ("Redis", "255.255.255", ""),
        ("Valkey", "7.2.13", "7.2.14"),
        ("Valkey", "8.0.10", ""),
        ("Valkey", "8.1.8", "8.1.9"),
        ("Valkey", "9.1.0", "9.1.1"),
        ("Valkey", "9.2.0", ""),
        ("Another", "1.0", ""),
    ],
)
def test_a_release_without_the_known_fixes_names_the_one_to_update_to(
    kind: str, version: str, needed: str
) -> None:
    assert needed_update(kind, version) == needed
