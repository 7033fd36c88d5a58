"""``scrapy frontier failed``: what was set aside, and to try it again or forget it."""

from __future__ import annotations

import argparse
from collections import Counter, deque
from typing import Any

from ..codec.failed_request import FailedRequest
from ..errors import InspectionError, one_line
from ..failed import FailedRequests
from ..inspect import View, as_json
from ..inspect.set_aside import set_aside
from .action import Action, Context
from .output import Fields, Output, Table, number, single_line, when

#: Characters of a reason, or of a URL, in a line of the list.
LONGEST = 100


class Failed(Action):
    """``scrapy frontier failed SPIDER``."""

    name = "failed"
    summary = "What was set aside and why; try it again, or forget it"
    description = (
        "List what was set aside, the latest last. An entry's id begins with the worker who set it aside; "
        "with --id, all of that entry is shown. With --requeue or --forget, do that to all, or to those that "
        "--reason, --url and --id choose."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which entries are meant, and what becomes of them."""
        parser.add_argument(
            "-n", dest="most", type=_whole, default=20, metavar="N", help="list the latest N (default: 20)"
        )
        parser.add_argument("--reason", metavar="TEXT", help="only those whose reason begins so")
        parser.add_argument(
            "--url", metavar="PATTERN", help="only those of a URL like this; * stands for anything"
        )
        parser.add_argument("--id", metavar="ID", help="only the one with this id")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--counts", action="store_true", help="how many there are of each reason")
        what.add_argument("--requeue", action="store_true", help="put them back to where they stood")
        what.add_argument(
            "--forget", action="store_true", help="remove them for good; they still count as seen"
        )
        parser.add_argument(
            "--json", action="store_true", help="print JSON: an object an entry, whole, one a line"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Do to them what is asked.

        :raises InspectionError: if there is no entry with the id, or it cannot be put back now.
        """
        view = context.view(opts.spider)
        chosen = {"reason": opts.reason, "id": opts.id, "url": opts.url}
        failed = _failed(view, context.output, again=opts.requeue)
        if opts.requeue or opts.forget:
            count = (failed.requeue if opts.requeue else failed.forget)(**chosen)
            done = "put back to where they stood" if opts.requeue else "forgotten; they still count as seen"
            context.output.say(f"{number(count)} of the failed list of spider {opts.spider} {done}")
            if opts.id is not None and not count:
                raise self._no_such(opts)
        elif opts.counts:
            self._count(context.output, failed, chosen, opts)
        else:
            entries = self._entries(failed, chosen, opts.most)
            if opts.id is not None and not entries:
                raise self._no_such(opts)
            self._show(context.output, failed, entries, opts)

    @staticmethod
    def _no_such(opts: argparse.Namespace) -> InspectionError:
        return InspectionError(
            f"The failed list of spider {opts.spider!r} has no such entry with the id {opts.id!r}: it was "
            "tried again, forgotten, or dropped as one of the oldest; or it cannot be read, and then not be "
            f"tried again. Which there are: scrapy frontier failed {opts.spider}"
        )

    @staticmethod
    def _entries(failed: FailedRequests, chosen: dict[str, Any], most: int) -> list[FailedRequest]:
        if any(wanted is not None for wanted in chosen.values()):
            return list(deque(failed.chosen(**chosen), most))
        return failed.latest(most)

    @staticmethod
    def _count(
        output: Output, failed: FailedRequests, chosen: dict[str, Any], opts: argparse.Namespace
    ) -> None:
        counts = Counter(entry.reason for entry in failed.chosen(**chosen)).most_common()
        if opts.json:
            for reason, count in counts:
                output.json({"reason": reason, "count": count})
        elif counts:
            output.show(Table(["COUNT", "REASON"], [[number(n), one_line(r)] for r, n in counts], _NUMBERS))
        else:
            output.say(_none(opts))

    @staticmethod
    def _show(
        output: Output, failed: FailedRequests, entries: list[FailedRequest], opts: argparse.Namespace
    ) -> None:
        if opts.json:
            for entry in entries:
                output.json(as_json.failed(failed, entry))
        elif opts.id is not None:
            output.show(*(one(failed, entry) for entry in entries))
        elif entries:
            output.show(overview(failed, entries))
            if len(failed) > len(entries) == opts.most:
                output.say(f"\nThe latest {opts.most} of those that were asked for; more with -n")
        else:
            output.say(_none(opts))


def _none(opts: argparse.Namespace) -> str:
    if (opts.reason, opts.url, opts.id) == (None, None, None):
        return f"Nothing of spider {opts.spider} is set aside"
    return "Nothing like that is set aside"


_NUMBERS = frozenset(("COUNT", "DEATHS"))


def _whole(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("it may be a whole number of 1 or more")
    return int(text)


def _failed(view: View, output: Output, again: bool) -> FailedRequests:
    failed, problem = set_aside(view, again)
    if problem:
        output.warn(f"{problem}. Their URLs are not shown, and --url matches none of them")
    return failed


def overview(failed: FailedRequests, entries: list[FailedRequest]) -> Table:
    """Return a line for each of *entries*."""
    rows = [
        [
            when(entry.time),
            entry.kind,
            _short(entry.reason),
            _short(failed.url_of(entry) or _text(entry.data)),
            _short(entry.id) or "-",
            number(entry.deaths),
        ]
        for entry in entries
    ]
    return Table(["TIME", "KIND", "REASON", "URL", "ID", "DEATHS"], rows, _NUMBERS)


def one(failed: FailedRequests, entry: FailedRequest) -> Fields:
    """Return all that is to be said of *entry*."""
    pairs = [
        ("id", single_line(entry.id)),
        ("kind", single_line(entry.kind)),
        ("reason", single_line(entry.reason)),
        ("time", when(entry.time)),
        ("url", single_line(failed.url_of(entry)) or "-"),
        ("worker", single_line(entry.worker) or "-"),
        ("deliveries", number(entry.deliveries)),
        ("deaths", number(entry.deaths)),
        ("history", "\n".join(entry.history.split()) or "-"),
        ("back to", "the queue" if entry.origin == "request" else f"the seeds ({entry.origin})"),
        ("score", single_line(entry.score)),
        ("data", _text(entry.data)),
        ("traceback", entry.traceback.rstrip() or "-"),
    ]
    return Fields(pairs)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _short(text: str) -> str:
    line = one_line(text[: LONGEST + 1])
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
