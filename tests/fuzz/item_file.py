"""Entries of a stream of items that somebody has made up: their file has each item once, and whole lines."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.collect.item_file import Entry, ItemFile

from .hostile import blobs, raw, texts, values
from .oracle import Complaint, crash, one_line_faults
from .target import Target

FORMATS = ("jsonlines", "csv", "json", "xml")


class ItemFiles(Target):
    """Batches of entries, some of which come again, after which the writer may end without a word."""

    name = "item-file"

    def cases(self) -> st.SearchStrategy[dict[str, Any]]:
        names = st.one_of(st.sampled_from(["a", "b", "c"]), texts(4))
        item = st.dictionaries(names, st.one_of(texts(), values()), max_size=3)
        page, n = st.sampled_from("pqr"), st.integers(0, 3)
        good = st.fixed_dictionaries({"page": page, "n": n, "item": item})
        bad = st.fixed_dictionaries({"id": blobs(), "data": blobs()})
        return st.fixed_dictionaries(
            {
                "format": st.sampled_from(FORMATS),
                "batches": st.lists(st.lists(st.one_of(good, good, bad), max_size=4), max_size=4),
                "dies": st.booleans(),
            }
        )

    def examine(self, cases: list[dict[str, Any]]) -> Iterator[Complaint]:
        for case in cases:
            folder = Path(tempfile.mkdtemp(dir=self.world.folder))
            try:
                yield from _examine(case, folder)
            except Exception as error:
                yield crash(error, f"a file of items ({case['format']})")
            finally:
                shutil.rmtree(folder)


def _examine(case: dict[str, Any], folder: Path) -> Iterator[Complaint]:
    settings = get_crawler().settings
    problems: list[str] = []
    for batch in case["batches"]:
        file = ItemFile(folder / "items", {"format": case["format"]}, settings)
        file.open(overwrites=False)
        try:
            file.add([_entry(one) for one in batch])
            problems += file.problems
        finally:
            file.close(is_complete=not case["dies"] and batch is case["batches"][-1])
    for problem in problems:
        yield from one_line_faults(problem, "problem of an item")
    path = folder / "items"
    if case["format"] == "jsonlines":
        written = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        # Bytes of somebody's own may be an item, too.
        found = [json.dumps(json.loads(line)) for line in written]
        missing = [item for item in _expected(case["batches"]) if item not in found]
        if missing:
            yield Complaint("an item is missing", f"{missing} of {found}"[:1000])
        if len(found) > sum(map(len, case["batches"])):
            yield Complaint("there are more items than entries", f"{found}"[:1000])


def _expected(batches: list[list[dict[str, Any]]]) -> list[str]:
    """Return the items that come for the first time, as the file has them."""
    counts: Counter[str] = Counter()
    items = []
    for one in (one for batch in batches for one in batch if "page" in one):
        if one["n"] >= counts[one["page"]]:
            counts[one["page"]] = one["n"] + 1
            items.append(json.dumps(json.loads(_data(one))))
    return items


def _data(one: dict[str, Any]) -> bytes:
    return json.dumps(one["item"], default=str).encode()


def _entry(one: dict[str, Any]) -> Entry:
    if "id" in one:
        return Entry.of(b"1-0", {b"id": raw(one["id"]), b"item": raw(one["data"])})
    return Entry.of(b"1-0", {b"id": f"1-{one['page']}-{one['n']}".encode(), b"item": _data(one)})
