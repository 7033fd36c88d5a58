"""``scrapy frontier export`` and ``import``: copy a whole frontier to a stream, and back."""

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
from ..errors import FrontierError, InspectionError, frontier_command, one_line
from ..inspect import ArchiveReader, verify
from ..inspect import Export as FrontierExport
from ..inspect import Import as FrontierImport
from .action import Action, Context, add_dry_run
from .formats import number

#: The names of the kinds of entries in the summary, in its order.
_NAMES = {
    "waiting": "waiting",
    "leased": "held by workers",
    "noted": "done meanwhile",
    "delayed": "delayed",
    "followers": "waiting for groups",
    "pool items": "items of pools",
    "seeds": "seeds",
    "failed": "failed",
    "seen": "seen",
    "compact": "seen, compactly",
    "started": "started",
}


class Export(Action):
    """``scrapy frontier export SPIDER``."""

    name = "export"
    summary = "Export the whole frontier, for a backup or another Redis"
    description = (
        "Write the whole frontier of a spider, without items and statistics, to standard output or a file: "
        "text, one JSON array per line. The crawl may be running: after an import, no page is missing, and "
        "some pages that were done meanwhile are crawled again. The file has all contents of the requests, "
        "such as cookies. Of the items of pools it has only the state, unless you give --with-secrets."
    )
    examples = (
        "scrapy frontier export quotes --file quotes.frontier",
        "scrapy frontier export quotes | gzip > quotes.frontier.gz",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file."""
        parser.add_argument(
            "--file", metavar="FILE", help="replace FILE when the export is complete (default: stdout)"
        )
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="also export the values of the items of pools, such as passwords, and their cookies",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Export.

        :raises InspectionError: if it fails, or is interrupted.
        """
        if not opts.file and sys.stdout.isatty():
            raise InspectionError(
                "The export would be written to the terminal. Give a file: "
                + frontier_command("export", opts.spider, "> FILE")
            )
        export = FrontierExport(context.view(opts.spider), opts.with_secrets)
        with (
            _complete_or_refused(context),
            _written_to(opts.file) as stream,
            context.output.progress("Exporting", export.total) as advance,
        ):
            done = 0
            for line in export.lines():
                stream.write(line)
                now = sum(export.entries.values())
                advance(now - done)
                done = now
            stream.flush()
        context.output.warn(f"spider {opts.spider} was exported: {_counts(export.entries)}")


class Import(Action):
    """``scrapy frontier import SPIDER``."""

    name = "import"
    summary = "Import an export as the frontier of a spider that has none"
    description = (
        "Import the output of `scrapy frontier export`, from standard input or a file, as the frontier of "
        "this spider. The spider must not have a frontier yet, except seeds. No worker can join until the "
        "import is complete. A file is checked before anything is changed, a pipe while it is read."
    )
    examples = (
        "scrapy frontier import quotes --file quotes.frontier",
        "gunzip < quotes.frontier.gz | scrapy frontier import quotes",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file."""
        parser.add_argument("--file", metavar="FILE", help="read FILE (default: stdin)")
        add_dry_run(parser, "check the file, and whether the frontier is empty, and change nothing")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Import.

        :raises InspectionError: if it fails, or is interrupted.
        """
        if not opts.file and sys.stdin.isatty():
            raise InspectionError(
                "There is nothing to import. Give a file: "
                + frontier_command("import", opts.spider, "< FILE")
            )
        with _read_from(opts.file) as stream:
            if stream.seekable():
                with context.output.progress("Checking", None) as advance:
                    for count in verify(stream):
                        advance(count)
            reader = ArchiveReader(stream)
            restored = FrontierImport(context.view(opts.spider), reader)
            with context.output.progress("Importing", restored.total) as advance:
                try:
                    for count in restored.plan() if opts.dry_run else restored.steps():
                        advance(count)
                except KeyboardInterrupt:
                    if opts.dry_run:
                        raise
                    raise restored.broken("Interrupted") from None
        # The first line of the file is text from outside.
        spider, moment = (one_line(reader.header.get(name)) for name in ("spider", "time"))
        context.output.say(
            f"Spider {opts.spider}: {'this would import' if opts.dry_run else 'imported'} the frontier that "
            f"spider {spider} had at {moment}: {_counts(reader.entries)}{' (--dry-run)' * opts.dry_run}"
        )


@contextmanager
def _complete_or_refused(context: Context) -> Iterator[None]:
    """Report an export that is not complete."""
    incomplete = "The export is incomplete, and import refuses it"
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
        raise InspectionError(f"The export cannot be written: {error}. {incomplete}") from error


@contextmanager
def _written_to(name: str | None) -> Iterator[IO[bytes]]:
    """Give a stream that replaces the file *name* when all is written; without a name, stdout."""
    if name is None:
        yield sys.stdout.buffer
        return
    path = Path(name)
    if path.exists() and not path.is_file():
        # A pipe, for example, cannot be replaced.
        with path.open("wb") as stream:
            yield stream
        return
    # With a unique name, because another export may write to the same file; readable by this user only,
    # because requests may have cookies.
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
        stream = Path(name).open("rb")  # noqa: SIM115 - closed below; only errors of opening are caught here
    except OSError as error:
        raise InspectionError(f"File {name!r} cannot be read: {error.strerror}") from error
    with stream:
        yield stream


def _counts(entries: dict[str, int]) -> str:
    entries = {**entries, "waiting": entries.get("waiting", 0) + entries.get("by slot", 0)}
    found = [f"{number(entries[kind])} {name}" for kind, name in _NAMES.items() if entries.get(kind)]
    return ", ".join(found) or "it is empty"
