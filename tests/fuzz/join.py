"""Parts of a file of items that workers have left, torn or spoiled: joining loses no whole item."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter

from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.supervise.feeds import Feed

from .hostile import blobs, raw, texts, values
from .oracle import Complaint, crash, one_line_faults
from .target import Target

ENCODINGS = ("utf-8", "latin-1", "cp1251", "utf-8-sig", "utf-16", "utf-16-le", "ascii")
#: What may follow the whole items of a part: nothing, or the beginning of another.
TORN = ("", '{"n": 1', '"', "a,", "a", '"a\n', '{"n": "\\', "\r")


class Join(Target):
    """Parts: whole items as Scrapy writes them, what a kill has left behind them, or any bytes."""

    name = "join"

    def cases(self) -> st.SearchStrategy[dict[str, Any]]:
        names = st.one_of(st.sampled_from(["a", "b", "c"]), texts(4))
        items = st.lists(st.dictionaries(names, st.one_of(texts(), values()), max_size=3), max_size=3)
        part = st.fixed_dictionaries(
            {"items": items, "torn": st.one_of(st.sampled_from(TORN), blobs()), "bytes": st.none()}
        )
        any_part = st.fixed_dictionaries({"items": st.just([]), "torn": st.just(""), "bytes": blobs()})
        return st.fixed_dictionaries(
            {
                "format": st.sampled_from(["jsonlines", "csv"]),
                "encoding": st.sampled_from(ENCODINGS),
                "replaces": st.booleans(),
                "there": items,
                "parts": st.lists(st.one_of(part, part, part, any_part), max_size=3),
            }
        )

    def examine(self, cases: list[dict[str, Any]]) -> Iterator[Complaint]:
        for case in cases:
            folder = Path(tempfile.mkdtemp(dir=self.world.folder))
            try:
                yield from _examine(case, folder)
            finally:
                shutil.rmtree(folder)


def _examine(case: dict[str, Any], folder: Path) -> Iterator[Complaint]:
    kind, encoding = case["format"], case["encoding"]
    path = folder / "items"
    there, _ = _written(kind, encoding, case["there"])
    path.write_bytes(there)
    try:
        feed = Feed(str(path), kind, folder / "parts", encoding)
    except FrontierError as error:  # a format or an encoding that it does not join
        yield from one_line_faults(str(error), "refusal of a file of items")
        return
    feed.replaces = case["replaces"]
    expected: Counter[Any] = Counter() if feed.replaces else _read(kind, encoding, there)
    is_ours = True
    for number, part in enumerate(case["parts"]):
        data, is_whole = _written(kind, encoding, part["items"])
        is_ours = is_ours and is_whole and part["bytes"] is None
        expected += _read(kind, encoding, data)
        torn = raw(part["torn"])
        # Whole lines are no torn item; and a torn row of a table is the beginning of one that Scrapy writes.
        torn = torn.rpartition(b"\n")[2] if kind == "jsonlines" else _torn(encoding, part["torn"])
        data = raw(part["bytes"]) if part["bytes"] is not None else data + torn
        uri = feed.option(f"worker-{number}").rpartition(":")[0]
        part_path = folder / "parts" / _name_of(uri)
        next((folder / "parts").iterdir()).joinpath(part_path.name).write_bytes(data)
    try:
        feed.join()
    except FrontierError as error:
        yield from one_line_faults(str(error), "error of joining")
        if is_ours:
            yield Complaint(f"parts that Scrapy has written are not joined ({kind})", str(error)[:1000])
        return
    except Exception as error:
        yield crash(error, f"joining {kind}")
        return
    if not is_ours:
        return
    found = _read(kind, encoding, path.read_bytes())
    if lost := expected - found:
        yield Complaint(
            f"joining has lost items ({kind})", f"{lost} of {expected}: {path.read_bytes()!r:.500}"
        )
    elif (more := found - expected) and more != Counter({(): 1}):
        yield Complaint(f"joining has made items up ({kind})", f"{more}: {path.read_bytes()!r:.500}")
    if left := [part for part in (folder / "parts").rglob("*") if part.is_file()]:
        yield Complaint("a part is left", str(left))


def _name_of(uri: str) -> str:
    return uri.rpartition("/")[2]


def _torn(encoding: str, text: str) -> bytes:
    """Return what a kill leaves of a row whose first field is *text*."""
    encoding = encoding.removesuffix("-sig")  # the mark stands only before the first row
    whole, _ = _written("csv", encoding, [{"a": f"{text},x"}], header=False)
    return whole[: max(0, len(whole) - 2 - len(text) // 2)] if text else b""


def _written(
    kind: str, encoding: str, items: list[dict[str, Any]], header: bool = True
) -> tuple[bytes, bool]:
    """Return *items* as Scrapy writes them, as many as it can; and whether it could write all."""
    file = io.BytesIO()
    if kind == "csv":
        fields = list(dict.fromkeys(name for item in items for name in item))
        exporter: Any = CsvItemExporter(
            file, include_headers_line=header, encoding=encoding, fields_to_export=fields or None
        )
    else:
        exporter = JsonLinesItemExporter(file, encoding=encoding)
    exporter.start_exporting()
    try:
        for item in items:
            exporter.export_item(item)
    except Exception:  # it cannot be written in this encoding: a worker logs that
        return b"", False
    finally:
        exporter.finish_exporting()
    return file.getvalue(), True


def _read(kind: str, encoding: str, data: bytes) -> Counter[Any]:
    """Return the items in *data*, which Scrapy has written."""
    if kind == "jsonlines":
        return Counter(line for line in data.split(b"\n") if line)
    rows = list(csv.reader(io.StringIO(data.decode(encoding), newline="")))
    header, *others = rows or [[]]
    pairs = (zip(header, row, strict=False) for row in others)
    return Counter(tuple(sorted((name, value) for name, value in row if value)) for row in pairs)
