"""Files of items, opened as programs do that write them one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scrapy.utils.test import get_crawler

from scrapy_rq_sched.collect.item_file import Entry, ItemFile


def entry(page: str, n: int, **item: Any) -> Entry:
    """Return the n-th item of a page, as a stream has it."""
    return Entry(f"{page}-{n}".encode(), f"1-{page}-{n}", json.dumps(item or {"page": page, "n": n}).encode())


def lines(file: ItemFile) -> list[Any]:
    """Return the items of a file of JSON lines."""
    return [json.loads(line) for line in file.path.read_text().splitlines()]


def die(file: ItemFile) -> None:
    """Close the files of *file* as the end of its process does."""
    journal, opened = file._opened
    opened.close()
    journal.close(remove=False)
    file._journal = file._file = None


class Files:
    """Opens files of items in a folder, each as a new program does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[ItemFile] = []

    def __call__(
        self,
        name: str = "items.jsonl",
        format_: str = "jsonlines",
        overwrites: bool = False,
        is_new: bool = True,
        **settings: Any,
    ) -> ItemFile:
        """Open a file."""
        file = ItemFile(
            self.folder / name,
            {"format": format_, "overwrite": overwrites},
            get_crawler(settings_dict=settings).settings,
        )
        file.open(overwrites, is_new)
        self._opened.append(file)
        return file

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        return sorted(path.name for path in self.folder.iterdir())

    def close(self) -> None:
        """Close what is still open."""
        for file in self._opened:
            file.withdraw()
