"""Read seeds from a file, one on each line, repeatedly and without loading the whole file."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from ...errors import InspectionError

#: The name of a file that stands for the standard input.
STANDARD_INPUT = "-"
#: Maximum length of a line, in characters. Longer lines are reported as bad seeds.
LONGEST = 16 * 1024 * 1024


class Lines:
    """The lines of *file* that are not blank, each with its number; None stands for a line that is too long.

    :param file: a seekable file, opened for bytes.
    :param name: the file's name in errors.
    :param encoding: the encoding of its text.
    :param are_urls: whether the lines are URLs and JSON objects. If so, white space around them is removed,
        and a line that begins with ``#`` is a comment.
    """

    noun = "line"

    def __init__(self, file: BinaryIO, name: str, encoding: str, are_urls: bool = True) -> None:
        self._file = file
        self._name = name
        self._encoding = encoding
        self._are_urls = are_urls
        self._stamp = self._read_stamp()

    def __iter__(self) -> Iterator[tuple[int, str | None]]:
        """Yield the lines, beginning with the first.

        :raises InspectionError: if the file cannot be read or decoded.
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
        """Check that the file was not changed.

        :raises InspectionError: if it was.
        """
        if self._read_stamp() != self._stamp:
            raise InspectionError(
                f"{self._name} was changed while it was read. Run the command again when the file no longer "
                "changes"
            )

    def _read(self) -> Iterator[str | None]:
        self._file.seek(0)
        # Bytes that are not text are kept, so that the error names their line.
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
                f"{self._name} is not text in {self._encoding}: {error}. Set REDIS_ENCODING to its encoding"
            ) from error
        finally:
            text.detach()  # so that closing the text does not close the file

    def _read_stamp(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


@contextmanager
def open_lines(path: str, encoding: str, are_urls: bool = True) -> Iterator[Lines]:
    """Open the file at *path* and return its lines; ``-`` is the standard input.

    A pipe, which can be read only once, is copied to a temporary file first.

    :raises InspectionError: if the file cannot be read.
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
