"""Seeds that stand in a file, one a line: read as often as is needed, and never as a whole."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from ..errors import InspectionError

#: What stands for the standard input where a file is named.
STANDARD_INPUT = "-"
#: Characters of a line. A longer one is passed over: it may be anything, and is no seed.
LONGEST = 16 * 1024 * 1024


class Lines:
    """The lines of *file* that are not blank, each with its number; None stands for one that is too long.

    :param file: opened for bytes; it can be read anew from its beginning.
    :param name: what it is called in an error.
    :param encoding: of its text.
    :param are_urls: whether they are URLs and JSON objects. Then white space around them means nothing, and
        what begins with ``#`` is no seed but a comment.
    """

    def __init__(self, file: BinaryIO, name: str, encoding: str, are_urls: bool = True) -> None:
        self._file = file
        self._name = name
        self._encoding = encoding
        self._are_urls = are_urls
        self._stamp = self._read_stamp()

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        """Yield them, from the first one on.

        :raises InspectionError: if the file cannot be read, or is not in this encoding.
        """
        stripped = None if self._are_urls else "\r\n"
        for number, line in enumerate(self._read(), 1):
            if line is None:
                yield number, None
            elif line and not line.isspace():
                seed = line.strip(stripped)
                if not (self._are_urls and seed.startswith("#")):
                    yield number, seed

    def check_unchanged(self) -> None:
        """Check that these are still the lines that they were.

        :raises InspectionError: if somebody has written to the file since.
        """
        if self._read_stamp() != self._stamp:
            raise InspectionError(
                f"{self._name} was changed while it was read. Run this again when nobody writes to it"
            )

    def _read(self) -> Iterator[str | None]:
        self._file.seek(0)
        # What is no text is kept as it is: it is that line's fault, and is said of it.
        text = io.TextIOWrapper(self._file, self._encoding, "surrogateescape", newline="\n")
        try:
            line = text.readline(LONGEST).removeprefix("\ufeff")
            while line:
                if len(line) == LONGEST and not line.endswith("\n"):
                    while (rest := text.readline(LONGEST)) and not rest.endswith("\n"):
                        pass
                    yield None
                else:
                    yield line
                line = text.readline(LONGEST)
        except OSError as error:
            raise InspectionError(f"{self._name} cannot be read: {error.strerror}") from error
        except UnicodeError as error:
            raise InspectionError(
                f"{self._name} is no text in {self._encoding}: {error}. Set REDIS_ENCODING to what it is in"
            ) from error
        finally:
            text.detach()  # or the file would be closed with it

    def _read_stamp(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


@contextmanager
def open_lines(path: str, encoding: str, are_urls: bool = True) -> Iterator[Lines]:
    """Give the lines of the file at *path*, ``-`` for those of the standard input.

    What can be read only once, such as a pipe, is copied to a temporary file first.

    :raises InspectionError: if it cannot be read.
    """
    name = "The standard input" if path == STANDARD_INPUT else repr(path)
    with ExitStack() as stack:
        try:
            is_file = path != STANDARD_INPUT
            file = stack.enter_context(open(path, "rb")) if is_file else sys.stdin.buffer
            if not (is_file and file.seekable()):
                copy = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(file, copy)
                copy.flush()
                file = copy
        except OSError as error:
            raise InspectionError(f"{name} cannot be read: {error.strerror}") from error
        yield Lines(file, name, encoding, are_urls)
