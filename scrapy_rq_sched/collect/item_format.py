"""The format of a file of items: Scrapy's exporters, with the ``FEED_EXPORT_…`` settings."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from scrapy.utils.conf import feed_complete_default_values_from_settings
from scrapy.utils.misc import load_object

from ..errors import FrontierError, SettingError, a_type, counted, one_line, shown

#: Scrapy's names of the format that is written item by item.
LINES = ("jsonlines", "jsonl", "jl")
#: What an exporter raises for a single item: a character that the encoding lacks, or a value.
ITEM_ERRORS = (ValueError, TypeError, RecursionError)
#: How many items that an export leaves out have a line each.
MOST_LINES = 10


class ItemFormat:
    """How items become a file, and a file becomes items.

    :param path: the path of the file.
    :param feed: the options of Scrapy's feed, as in ``FEEDS``; at least its ``format``.
    :param settings: Scrapy's; the ``FEED_EXPORT_…`` settings apply to options that *feed* lacks.
    :ivar has_lines: whether each item is a line of its own; if not, the file is made of all items together.
    :ivar left_out: how many items the last export has left out.
    :ivar stores_empty: whether there is a file if there are no items.
    :raises SettingError: if the format cannot be written.
    """

    def __init__(self, path: Path, feed: Mapping[str, Any], settings: Any) -> None:
        options = feed_complete_default_values_from_settings(dict(feed), settings)
        name = options["format"]
        self.has_lines = name in LINES
        self.stores_empty = bool(options["store_empty"])
        self.left_out = 0
        self._path = path
        self._name = name
        self._encoding = options["encoding"] or "utf-8"
        self._fields = options["fields"]
        self._arguments = {
            "encoding": options["encoding"] or None,
            "indent": options["indent"],
            **options["item_export_kwargs"],
        }
        _check_encoding(path, self._encoding, self.has_lines)
        # No item has a line break.
        exporter = settings.getwithbase("FEED_EXPORTERS").get("jsonlines" if self.has_lines else name)
        if exporter is None:
            raise SettingError(f"{path}: FEED_EXPORTERS has no exporter of the format {name!r}")
        self._exporter = load_object(exporter)
        self._buffer = io.BytesIO()
        self._lines = self._make(self._buffer, self._fields) if self.has_lines else None

    def line(self, item: dict[str, Any]) -> bytes:
        """Return *item* as a line of the file, or of the items of which the file is made.

        :raises ValueError: if the format cannot have it; also ``TypeError`` and ``RecursionError``.
        """
        if self._lines is None:
            return json.dumps(item).encode() + b"\n"
        try:
            self._lines.export_item(item)
            return self._buffer.getvalue()
        finally:
            self._buffer.seek(0)
            self._buffer.truncate()

    def export(self, lines: Callable[[], Iterable[bytes]], target: BinaryIO) -> list[str]:
        """Write all items to *target*, and return a line for each problem.

        :param lines: returns the items as :meth:`line` does, from the first one; it may be called twice.
        """
        problems: list[str] = []
        self.left_out = 0
        fields = self._fields
        if self._name == "csv" and not fields:
            # Scrapy's exporter would drop the fields that the first item lacks.
            fields = self._columns(lines(), problems)
        exporter = self._make(target, fields)
        exporter.start_exporting()
        # A table whose items have no fields has no rows.
        for line in lines() if self._name != "csv" or fields else ():
            try:
                exporter.export_item(json.loads(line))
            except ITEM_ERRORS as error:
                self.left_out += 1
                if self.left_out <= MOST_LINES:
                    item = one_line(line[:200].decode("ascii", "replace").rstrip())
                    problems.append(f"An item is left out of {self._path}: {one_line(error)}: {item}")
        exporter.finish_exporting()
        if self.left_out > MOST_LINES:
            further = counted(self.left_out - MOST_LINES, "further item is", "further items are")
            problems.append(f"{further} left out of {self._path}")
        return problems

    def problem(self, path: Path) -> str:
        """Return why other programs cannot read the file that was made at *path*; empty if they can."""
        if self._name != "xml":
            return ""
        try:
            with path.open("rb") as file:
                expat.ParserCreate().ParseFile(file)
        except expat.ExpatError as error:
            is_odd = error.code == expat.errors.codes[expat.errors.XML_ERROR_UNKNOWN_ENCODING]
            if not is_odd:
                return (
                    f"{self._path} is not valid XML: {error}. An item has a character, or a field has a "
                    "name, that XML cannot have"
                )
        except ValueError:  # expat does not know the encoding, and cannot tell
            return ""
        return ""

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the items of a file that is appended to.

        :raises FrontierError: if they cannot be read, or if the new file would lack a part of them.
        """
        if not self._path.exists() or not self._path.stat().st_size:
            return
        # Another program may have put a mark before the first character.
        encoding = "utf-8-sig" if codecs.lookup(self._encoding).name == "utf-8" else self._encoding
        try:
            with self._path.open(encoding=encoding, newline="") as file:
                for item in self._items_of(file):
                    yield self._with_names_of_fields(item)
        except (*ITEM_ERRORS, csv.Error) as error:
            raise FrontierError(
                f"The items cannot be appended to {self._path}: {one_line(error)}. Use -O to replace it (in "
                "FEEDS: 'overwrite': True), or write to another file"
            ) from error

    def _items_of(self, file: io.TextIOBase) -> Iterator[dict[str, Any]]:
        if self._name == "json":
            items = json.load(file)
            if not isinstance(items, list):
                raise TypeError(f"it must be a list of objects, not {a_type(type(items))}")
            for item in items:
                if not isinstance(item, dict):
                    raise TypeError(f"it must be a list of objects, but has {a_type(type(item))}")
                yield item
        elif self._name == "csv":
            csv.field_size_limit(2**31 - 1)  # a field may be a whole page
            rows: Any = csv.DictReader(file)
            columns = rows.fieldnames or []
            for number, name in enumerate(columns):
                if name in columns[:number]:
                    raise ValueError(f"it has two columns {one_line(repr(name))}")
            for row in rows:
                if None in row:
                    raise ValueError(f"line {rows.line_num} has more cells than the first line")
                yield row
        else:
            raise ValueError(f"nothing can be appended to {self._name}")

    def _with_names_of_fields(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return *item* of the file with the names that its fields have before the export."""
        if not self._fields:
            return item
        is_mapping = isinstance(self._fields, Mapping)
        names = {self._fields[name] if is_mapping else name: name for name in self._fields}
        for name in item:
            if name not in names:
                raise ValueError(f"FEED_EXPORT_FIELDS lacks its field {one_line(repr(name))}")
        return {names[name]: value for name, value in item.items()}

    def _columns(self, lines: Iterable[bytes], problems: list[str]) -> list[str]:
        columns, names = [], {}
        for line in lines:
            # An item that cannot be read is left out, with its own line.
            with contextlib.suppress(*ITEM_ERRORS):
                names.update(dict.fromkeys(json.loads(line)))
        for name in names:
            try:
                name.encode(self._encoding)
            except ValueError as error:
                problems.append(f"A field is left out of {self._path}: {one_line(error)}: {shown(name)}")
            else:
                columns.append(name)
        return columns

    def _make(self, target: Any, fields: Any) -> Any:
        return self._exporter(target, fields_to_export=fields or None, **self._arguments)


def ends_lines(encoding: str) -> bool:
    """Return whether the byte of a line break ends a line in *encoding*, so that lines can be appended.

    :raises LookupError: if there is no such encoding, and :raises ValueError: if its name is not valid.
    """
    return "a\n".encode(encoding).endswith(b"a\n")


def _check_encoding(path: Path, encoding: str, has_lines: bool) -> None:
    """Refuse an encoding in which a byte of a line break does not always end a line."""
    try:
        has_line_breaks = ends_lines(encoding)
    except (LookupError, ValueError):
        raise SettingError(
            f"FEED_EXPORT_ENCODING must be the name of an encoding, such as 'utf-8', not {encoding!r}"
        ) from None
    if has_lines and not has_line_breaks:
        raise SettingError(
            f"{path}: lines cannot be appended in the encoding {encoding}. Set FEED_EXPORT_ENCODING to utf-8"
        )
