"""Texts, values and bytes of somebody who means harm, or whose program is broken.

A case is kept in a file of JSON. So bytes are text in it: UTF-8, with ``surrogateescape``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

#: The beginning of a line that no program of ours writes: a log has it only if somebody has forged a line.
FORGED = "2030-01-01 00:00:00 [fuzz] CRITICAL: forged"
NASTY = [
    f"x\n{FORGED}",
    f"x\r\n{FORGED}",
    f"\n{FORGED}\n",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[31m",
    "\x9b2J",
    "\x00",
    "\x7f\b\b\b",
    "\u202egnp.exe",
    "\u2066\u2069",
    "a\u2028b\x85c",
    "\u200b\ufeff",
    "\t",
    "\r",
    "%s %(name)s {0} {name} %d",
    "'; touch /tmp/x; '",
    "$(id)`id`",
    "<script>alert(1)</script>",
    "../../../etc/passwd",
    "a b",
    "*",
    "@",
    "~",
    "шапка 🙂 ﷽",
    "9" * 400,
    "nan",
    "-inf",
    "1e999",
    "__class__",
    "\ud800",
    "",
    " ",
]
NUMBERS = [0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e300, 5e-324]


def texts(most: int = 12) -> st.SearchStrategy[str]:
    """Return texts: nasty ones, any, and both together."""
    any_text = st.text(st.characters(), max_size=most)
    nasty = st.sampled_from(NASTY)
    return st.one_of(nasty, any_text, st.builds("{}{}{}".format, any_text, nasty, any_text))


def numbers() -> st.SearchStrategy[Any]:
    """Return numbers that a program may stumble over."""
    return st.one_of(st.sampled_from(NUMBERS), st.integers(-100, 100), st.floats())


def values() -> st.SearchStrategy[Any]:
    """Return whatever JSON can express, NaN included."""
    plain = st.one_of(st.none(), st.booleans(), numbers(), texts())
    return st.recursive(
        plain,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts(4), inner, max_size=3)),
        max_leaves=4,
    )


def raw(text: str) -> bytes:
    """Return the bytes that *text* stands for."""
    return text.encode("utf-8", "surrogateescape")


def kept(data: bytes) -> str:
    """Return a text that stands for *data*."""
    return data.decode("utf-8", "surrogateescape")


def as_json(value: Any) -> str:
    """Return *value* as JSON in ASCII: lone surrogates and NaN stay what they are."""
    return json.dumps(value)


def blobs() -> st.SearchStrategy[str]:
    """Return bytes, as text: any, nasty texts, and JSON that has nothing to do with the place."""
    nasty = st.sampled_from([text for text in NASTY if text != "\ud800"])
    deep = st.sampled_from(["[" * 100_000, '{"a":' * 3000, "{}", "[]", "null", '{"url": NaN}', "\xff"])
    return st.one_of(st.binary(max_size=24).map(kept), nasty, values().map(as_json), deep)


@st.composite
def mutated(draw: st.DrawFn, originals: Sequence[str]) -> str:
    """Return one of *originals* (bytes, as text) with some of its bytes changed, as text."""
    data = bytearray(raw(draw(st.sampled_from(originals))))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["cut", "drop", "flip", "insert", "number", "twice"]))
        if how == "cut":
            del data[place:]
        elif how == "drop":
            del data[place : place + draw(st.integers(1, 8))]
        elif how == "flip" and place < len(data):
            data[place] ^= draw(st.integers(1, 255))
        elif how == "twice":
            data[place:place] = data[place : place + 40]
        elif how == "number":
            data[place:place] = str(draw(st.sampled_from(NUMBERS))).encode()
        else:
            data[place:place] = raw(draw(blobs()))
    return kept(bytes(data))
