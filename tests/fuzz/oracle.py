"""Decides whether a program has behaved: no crash, no raw byte, no forged line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import scrapy_rq_sched

from .hostile import FORGED

PACKAGE = Path(scrapy_rq_sched.__file__).parent
_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9]+")
#: Frames of a traceback in a log.
_FRAME = re.compile(r'  File "([^"]+)", line \d+, in (\S+)')


class Complaint(NamedTuple):
    """Something that must not happen.

    :param kind: the same for all cases that show the same fault.
    :param details: all that is known of it.
    """

    kind: str
    details: str


def printable_faults(text: str, place: str) -> Iterator[Complaint]:
    """Yield what is wrong with *text*, which a terminal or a log shows.

    :param place: such as ``log of the worker``.
    """
    for line in text.split("\n"):
        if line.startswith(FORGED):
            yield Complaint(f"a forged line in the {place}", line)
        if not line.isprintable():
            odd = sorted({repr(c) for c in line if not c.isprintable()})
            yield Complaint(f"raw characters in the {place}", f"{', '.join(odd)} in {line!r:.1000}")


def one_line_faults(text: str, place: str) -> Iterator[Complaint]:
    """Yield what is wrong with *text*, which must be one printable line."""
    if "\n" in text:
        yield Complaint(f"more than one line in the {place}", repr(text)[:1000])
    else:
        yield from printable_faults(text, place)


def crash(error: BaseException, place: str) -> Complaint:
    """Return the complaint about an *error* that nobody expected."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    where = f"{Path(ours[-1].filename).relative_to(PACKAGE)}:{ours[-1].name}" if ours else "?"
    return Complaint(
        f"{type(error).__name__} in {where} ({place})",
        "".join(traceback.format_exception(error))[-3000:],
    )


def log_faults(log: str, place: str) -> Iterator[Complaint]:
    """Yield what is wrong with the *log* of a worker: also tracebacks that end in this package."""
    found = set()
    for complaint in printable_faults(log, place):
        # One raw character for each kind of message, in which numbers do not count.
        message = complaint.details.rpartition(" in ")[2] if complaint.kind.startswith("raw") else ""
        kind = f"{complaint.kind}: {_kind_of(message)}" if message else complaint.kind
        if kind not in found:
            found.add(kind)
            yield Complaint(kind, complaint.details)
    for block in log.split("Traceback (most recent call last):\n")[1:]:
        frames = _FRAME.findall(block.split("\n2", 1)[0])
        ours = [(path, name) for path, name in frames if Path(path).is_relative_to(PACKAGE)]
        if frames and frames[-1] in ours:
            path, name = ours[-1]
            yield Complaint(
                f"a traceback from {Path(path).relative_to(PACKAGE)}:{name} ({place})", block[:3000]
            )


def _kind_of(line: str) -> str:
    """Return the beginning of a line of a log, which says which message it is."""
    message = line.partition("[")[2] or line
    return _NUMBER.sub("0", message)[:40]


def refusal_of_a_script(error: Exception) -> bool:
    """Return whether *error* of Redis is a fault of a script, such as a comparison with nil."""
    text = str(error)
    return "user_script" in text and ("attempt to" in text or "bad argument" in text or "malformed" in text)
