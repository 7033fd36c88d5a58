"""``scrapy frontier export`` and ``import``: the whole frontier, as a stream."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .. import connection
from ..errors import FrontierError, InspectionError
from ..inspect import ArchiveReader, verify
from ..inspect import Export as FrontierExport
from ..inspect import Import as FrontierImport
from .action import Action, Context
from .output import number

#: How the kinds of entries are called at the end, in this order.
_NAMES = {
    "waiting": "waiting",
    "leased": "held by workers",
    "noted": "done meanwhile",
    "delayed": "delayed",
    "seeds": "seeds",
    "failed": "failed",
    "seen": "seen",
    "compact": "seen, compactly",
    "started": "started",
}


class Export(Action):
    """``scrapy frontier export SPIDER``."""

    name = "export"
    summary = "The whole frontier as a stream, for a backup or another Redis"
    description = (
        "Write all that a spider's crawl has in Redis, but items and statistics, to the standard output or a "
        "file: text, one JSON array a line. A crawl may be under way; of the pages done meanwhile some are "
        "crawled again after an import, and none is missing. What requests hold, cookies for example, is in "
        "the file."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add where it goes."""
        parser.add_argument(
            "--file", metavar="FILE", help="write to FILE, when all is there (default: stdout)"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Export.

        :raises InspectionError: if it cannot be done, or broke off.
        """
        if not opts.file and sys.stdout.isatty():
            raise InspectionError(
                "This would be written to the terminal. Say where: scrapy frontier export "
                f"{opts.spider} > FILE"
            )
        export = FrontierExport(context.view(opts.spider))
        with (
            _whole_or_said(context),
            _written_to(opts.file) as stream,
            context.output.progress("Exporting", export.total) as bar,
        ):
            done = 0
            for line in export.lines():
                stream.write(line)
                now = sum(export.entries.values())
                bar.advance(now - done)
                done = now
            stream.flush()
        context.output.warn(f"spider {opts.spider} was exported: {_counts(export.entries)}")


class Import(Action):
    """``scrapy frontier import SPIDER``."""

    name = "import"
    summary = "Import what export has written, where the spider has no frontier"
    description = (
        "Import what `scrapy frontier export` has written, from the standard input or a file, as the "
        "frontier of this spider, which may have nothing yet but seeds. No worker joins until all is there. "
        "A file is checked before anything is changed, a pipe as it is read."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add where it comes from."""
        parser.add_argument("--file", metavar="FILE", help="read FILE (default: stdin)")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Import.

        :raises InspectionError: if it cannot be done, or broke off.
        """
        if not opts.file and sys.stdin.isatty():
            raise InspectionError(
                f"Nothing is given to import. Say what: scrapy frontier import {opts.spider} < FILE"
            )
        with _read_from(opts.file) as stream:
            if stream.seekable():
                with context.output.progress("Checking", None) as bar:
                    for count in verify(stream):
                        bar.advance(count)
            reader = ArchiveReader(stream)
            restored = FrontierImport(context.view(opts.spider), reader)
            with context.output.progress("Importing", restored.total) as bar:
                try:
                    for count in restored.steps():
                        bar.advance(count)
                except KeyboardInterrupt:
                    raise restored.broken("Interrupted") from None
        context.output.say(
            f"Spider {opts.spider}: the frontier that spider {reader.header.get('spider')} had at "
            f"{reader.header.get('time')} was imported: {_counts(reader.entries)}"
        )


@contextmanager
def _whole_or_said(context: Context) -> Iterator[None]:
    """Say of an export that breaks off that it is none."""
    incomplete = "What was written is no whole export, and import refuses it"
    try:
        yield
    except KeyboardInterrupt:
        raise InspectionError(f"Interrupted. {incomplete}") from None
    except connection.RedisError as error:
        described = connection.describe_error(connection.get_client(context.settings), error)
        raise InspectionError(f"{described}. {incomplete}") from error
    except FrontierError as error:
        raise InspectionError(f"{error}. {incomplete}") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InspectionError(f"It cannot be written: {error}. {incomplete}") from error


@contextmanager
def _written_to(name: str | None) -> Iterator[IO[bytes]]:
    """Give the file called *name*, which is what it was until all is written; without one, stdout."""
    if name is None:
        yield sys.stdout.buffer
        return
    path = Path(name)
    if path.exists() and not path.is_file():
        # What is no file, a pipe for example, cannot be replaced.
        with path.open("wb") as stream:
            yield stream
        return
    # Of its own name, for another may write to the same; and for nobody else: there may be cookies in it.
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f"{path.name}.", suffix=".part", delete=False
    ) as stream:
        part = Path(stream.name)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if path.exists():
                shutil.copymode(path, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _read_from(name: str | None) -> Iterator[IO[bytes]]:
    if name is None:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - closed below; what is refused here is the opening
    except OSError as error:
        raise InspectionError(f"{name} cannot be read: {error.strerror}") from error
    with stream:
        yield stream


def _counts(entries: dict[str, int]) -> str:
    entries = {**entries, "waiting": entries.get("waiting", 0) + entries.get("by slot", 0)}
    found = [f"{number(entries[kind])} {name}" for kind, name in _NAMES.items() if entries.get(kind)]
    return ", ".join(found) or "nothing waits in it"
