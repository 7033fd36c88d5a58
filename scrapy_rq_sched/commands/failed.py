"""``scrapy frontier failed``: list the failed requests and seeds, and retry or remove them."""

from __future__ import annotations

import argparse
from collections import Counter, deque
from typing import Any

from ..codec.failed_request import FailedRequest
from ..errors import InspectionError, frontier_command, one_line
from ..failed import FailedRequests
from ..inspect import View, as_json
from ..inspect.failed_groups import FailedGroup, grouped
from ..inspect.operations.failed import drop_failed, open_failed, requeue_failed
from ..inspect.operations.operation import Observer, Operation
from .action import Change, Context, Spectator
from .formats import number, single_line, when
from .output import Fields, Output, Table
from .periods import whole

#: Characters of a reason in the list.
LONGEST = 200

_LIST = ("TIME", "KIND", "DEATHS", "ID", "REASON", "URL")
_COUNTS = ("COUNT", "KIND", "ERROR", "HOSTS")
#: Hosts that a row of the counts names.
MOST_HOSTS = 3


class Failed(Change):
    """``scrapy frontier failed SPIDER``."""

    name = "failed"
    summary = "List the failed requests and seeds with their reasons; retry or remove them"
    description = (
        "List the requests and seeds that were set aside, the latest last. The id of an entry begins with "
        "the worker that set it aside; --id shows the whole entry. --requeue and --forget apply to all "
        "entries, or to those chosen by --reason, --error, --url and --id."
    )
    examples = (
        "scrapy frontier failed quotes --counts",
        "scrapy frontier failed quotes --reason 'its download failed' --requeue",
        "scrapy frontier failed quotes --url 'https://*.example.com/*' --forget",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which entries to take, and the action for them."""
        parser.add_argument(
            "-n", dest="most", type=whole, default=20, metavar="N", help="list the latest N (default: 20)"
        )
        parser.add_argument(
            "--reason", metavar="TEXT", help="only entries with a reason that begins with TEXT"
        )
        parser.add_argument(
            "--error", metavar="KIND", help="only entries with this kind of error, as --counts shows it"
        )
        parser.add_argument(
            "--url", metavar="PATTERN", help="only entries with such a URL; * stands for any text"
        )
        parser.add_argument("--id", metavar="ID", help="only the entry with this id")
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--counts", action="store_true", help="count the entries by kind of error")
        choice.add_argument(
            "--requeue", action="store_true", help="put them back into the queue or the seeds"
        )
        choice.add_argument(
            "--forget", action="store_true", help="remove them forever; their URLs still count as seen"
        )
        super().add_arguments(parser)
        parser.add_argument(
            "--json", action="store_true", help="print JSON: one whole entry, or one count, per line"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """List, count, requeue or forget them.

        :raises InspectionError: if no entry has the id, or it cannot be put back now.
        """
        if opts.requeue or opts.forget:
            if not self.perform(context, opts).touched and opts.id is not None:
                raise self._no_such(opts)
            return
        if opts.dry_run:
            raise InspectionError("Give --requeue or --forget with --dry-run: a list changes nothing")
        failed = open_failed(context.view(opts.spider), Spectator(context.output))
        if opts.counts:
            self._count(context.output, failed, _chosen(opts), opts)
        else:
            found = self._entries(failed, _chosen(opts), opts.most, opts.json)
            if opts.id is not None and not found:
                raise self._no_such(opts)
            self._show(context.output, failed, found, opts)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare to requeue or forget them."""
        change = requeue_failed if opts.requeue else drop_failed
        return change(view, observer, **_chosen(opts))

    @staticmethod
    def _no_such(opts: argparse.Namespace) -> InspectionError:
        return InspectionError(
            f"The failed list of spider {opts.spider!r} has no such entry with the id {opts.id!r}: it was "
            "retried, removed, or dropped as one of the oldest; or it cannot be retried, because it cannot "
            "be read, or because only its beginning was kept. "
            f"To list the entries: {frontier_command('failed', opts.spider)}"
        )

    @staticmethod
    def _entries(
        failed: FailedRequests, chosen: dict[str, Any], most: int, whole: bool
    ) -> list[FailedRequest]:
        if any(wanted is not None for wanted in chosen.values()):
            return list(deque(failed.chosen(**chosen), most))
        return failed.latest(most, whole)

    @staticmethod
    def _count(
        output: Output, failed: FailedRequests, chosen: dict[str, Any], opts: argparse.Namespace
    ) -> None:
        groups = by_kind(grouped(failed, failed.chosen(**chosen), lambda entry: (entry.kind, entry.error)))
        if opts.json:
            for (kind, error), group in groups.items():
                hosts = dict(group.hosts.most_common())
                output.json({"kind": kind, "error": error, "count": group.count, "hosts": hosts})
        elif groups:
            output.show(counts_table(groups))
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
            if len(failed) > len(entries):
                more = "-n lists more" if len(entries) == opts.most else "The others are too long for a list"
                output.say(f"\nThese are the latest {len(entries)}. {more}")
        else:
            output.say(_none(opts))


def _chosen(opts: argparse.Namespace) -> dict[str, Any]:
    return {"reason": opts.reason, "id": opts.id, "url": opts.url, "error": opts.error}


def _none(opts: argparse.Namespace) -> str:
    if not any(wanted is not None for wanted in _chosen(opts).values()):
        return f"The failed list of spider {opts.spider} is empty"
    return f"The failed list of spider {opts.spider} has no such entry"


def by_kind(groups: dict[tuple[str, str], FailedGroup]) -> dict[tuple[str, str], FailedGroup]:
    """Return *groups* by a kind and an error: the most frequent kind first, and its largest group."""
    of_kind = Counter[str]()
    for (kind, _), group in groups.items():
        of_kind[kind] += group.count
    # Sorting is stable: within a kind, the largest group stays first.
    return dict(sorted(groups.items(), key=lambda one: (-of_kind[one[0][0]], one[0][0])))


def counts_table(groups: dict[tuple[str, str], FailedGroup]) -> Table:
    """Return a table with a row for each kind and error."""
    rows = [
        [number(group.count), kind, one_line(error), _hosts(group)] for (kind, error), group in groups.items()
    ]
    return Table(_COUNTS, rows, texts=("ERROR", "HOSTS"))


def _hosts(group: FailedGroup) -> str:
    most = [(host, count) for host, count in group.hosts.most_common(MOST_HOSTS + 1) if host]
    named = [f"{one_line(host)} ({number(count)})" for host, count in most[:MOST_HOSTS]]
    others = len(group.hosts) - len(named) - ("" in group.hosts)
    return ", ".join([*named, *([f"{number(others)} more"] if others else [])]) or "-"


def overview(failed: FailedRequests, entries: list[FailedRequest]) -> Table:
    """Return a table with a row for each of *entries*."""
    rows = [
        [
            when(entry.time),
            entry.kind,
            number(entry.deaths),
            one_line(entry.id) or "-",
            _short(entry.reason),
            one_line(failed.url_of(entry)) or _short(_text(entry.data)),
        ]
        for entry in entries
    ]
    return Table(_LIST, rows, texts=("REASON", "URL"), dispensable=("DEATHS",))


def one(failed: FailedRequests, entry: FailedRequest) -> Fields:
    """Return all fields of *entry*."""
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
