"""``scrapy frontier events``: the events of a fleet, those of the past and new ones."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import time
from heapq import merge

from ..codec.event_types import TEXTS
from ..errors import InspectionError, counted
from ..events.event import Event
from ..events.follower import Follower
from ..events.stream import id_at
from ..inspect.events import folded, stream_of
from .action import Action, Context
from .formats import single_line, when
from .output import Styled
from .periods import seconds_in
from .status import all_views

#: How many of the latest events are shown, and how many with ``--follow``.
LATEST, LATEST_BEFORE = 100, 10
#: The longest time for which a command may run, in seconds.
COMMAND_TIMEOUT = 60.0
_ID = re.compile(r"[0-9]{6,}(-[0-9]+)?")


class Events(Action):
    """``scrapy frontier events [SPIDER]``."""

    name = "events"
    summary = "Show events: workers that join, leave or die, crawls that finish, failed requests"
    description = (
        "Show the events of a spider's workers and crawl; without a spider, those of all spiders. Redis "
        "keeps the latest FRONTIER_MAX_EVENTS of them, also after the end of the crawl. Of equal events that "
        "follow each other, the last one is shown, with their number."
    )
    examples = (
        "scrapy frontier events quotes --since 1h",
        "scrapy frontier events quotes --follow --type worker_lost --json",
        "scrapy frontier events --type crawl_finished --exec 'notify-send Scrapy'",
    )
    spider = "optional"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which events, and the commands to run for them."""
        parser.add_argument("--follow", action="store_true", help="then show new events until Ctrl-C")
        parser.add_argument(
            "--since",
            type=_since,
            metavar="WHEN",
            help=f"events since then: 10m, 2h or 1d, or the id of an event (default: the latest {LATEST})",
        )
        parser.add_argument(
            "--type",
            action="append",
            choices=sorted(TEXTS),
            metavar="TYPE",
            help=f"only events of this type (may be repeated): {', '.join(sorted(TEXTS))}",
        )
        parser.add_argument("--json", action="store_true", help="print JSON: one object per event and line")
        parser.add_argument(
            "--exec",
            dest="commands",
            action="append",
            default=[],
            metavar="COMMAND",
            help="run COMMAND for each event, with its JSON on standard input (may be repeated)",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Show them, once or until Ctrl-C; return 1 if a command has failed."""
        views = [context.view(opts.spider)] if opts.spider else all_views(context)
        if not views:
            raise InspectionError("This folder has no spiders, and this Redis no frontier. Name a spider")
        streams = [stream_of(view) for view in views]
        handle = _Handler(context, opts, len(views) > 1)
        events, last = [], {}
        for view, stream in zip(views, streams, strict=True):
            if opts.since:
                found = list(stream.all_after(view.server, opts.since))
            else:
                found = stream.latest(view.server, LATEST_BEFORE if opts.follow else LATEST)
            last[stream.key] = found[-1].id if found else opts.since or "0-0"
            events.append(found)
        # In the order of each stream, even if its server's clock was changed.
        past = filter(handle.chooses, merge(*events, key=lambda event: event.time))
        # A program gets each event.
        each = bool(opts.json or opts.commands)
        for event, count in ((one, 1) for one in past) if each else folded(past):
            handle(event, count)
        if opts.follow:
            # A spider may have its own REDIS_URL.
            settings = views[0].scrapy_settings if opts.spider else context.settings
            for event in filter(handle.chooses, Follower(settings, streams, last, context.output.warn)):
                handle(event)
        return 1 if handle.has_failed else None


class _Handler:
    """Shows an event, and runs the commands for it."""

    def __init__(self, context: Context, opts: argparse.Namespace, has_several: bool) -> None:
        self._output = context.output
        self._opts = opts
        self._has_several = has_several
        self.has_failed = False

    def chooses(self, event: Event) -> bool:
        """Return whether the event has one of the types to show."""
        return not self._opts.type or event.type in self._opts.type

    def __call__(self, event: Event, count: int = 1) -> None:
        if self._opts.json:
            self._output.json(event.as_dict())
        else:
            self._output.say(self._line(event, count))
        for command in self._opts.commands:
            problem = _run(command, json.dumps(event.as_dict()))
            if problem:
                self.has_failed = True
                self._output.warn(f"{command!r}, for event {event.id} ({event.type}): {problem}")

    def _line(self, event: Event, count: int) -> str:
        spider = f"{event.spider}: " if self._has_several else ""
        has_url, others = bool(event.details.get("url")), counted(count - 1, "other")
        times = f"{count:,} times: " if count > 1 and not has_url else ""
        more = f", and {others} with the same error" if count > 1 and has_url else ""
        line = single_line(f"{when(event.time)}  {event.type:<17}  {spider}{times}{event.text}{more}")
        return Styled(line, "yellow" if event.is_alarming else "")


def _run(command: str, text: str) -> str:
    """Run *command* with *text* on its standard input; return its problem, or an empty text."""
    try:
        done = subprocess.run(  # noqa: S603 - it is the user's own
            shlex.split(command), input=text, text=True, timeout=COMMAND_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"killed, because it ran for more than {COMMAND_TIMEOUT:g} s"
    except (OSError, ValueError, IndexError) as error:
        return f"cannot be run: {error}"
    return f"failed with exit code {done.returncode}" if done.returncode else ""


def _since(text: str) -> str:
    """Return the id of an event before the first to show."""
    if _ID.fullmatch(text):
        return text
    period = seconds_in(text)
    if period is None:
        raise argparse.ArgumentTypeError(f"must be a period such as 10m, or the id of an event, not {text!r}")
    return id_at(time.time() - period)
