"""``scrapy frontier``: inspect a crawl from a terminal, and control it."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from .. import connection
from ..errors import FrontierError
from ..servers import own_redis
from .action import Action, Context
from .convert import Convert
from .crawl import Crawl
from .dashboard import Dashboard
from .deny import Allow, DeniedAction, Deny
from .doctor import Doctor
from .edit import Clear, Drain, Pause, Remove, Reprioritize, Resume, Stop
from .events import Events
from .failed import Failed
from .groups import GroupsAction
from .history import History
from .items import Items
from .look import Explain, Leases, Peek
from .metrics import Metrics
from .output import Output
from .pool import PoolAction
from .seed import Forget, Seed
from .slots import SlotsAction
from .status import Status, Workers
from .transfer import Export, Import

#: In the order in which the help lists them.
ACTIONS: tuple[type[Action], ...] = (
    Crawl,
    Status,
    Workers,
    History,
    Events,
    Leases,
    Peek,
    Explain,
    GroupsAction,
    SlotsAction,
    PoolAction,
    Metrics,
    Failed,
    Items,
    Seed,
    Forget,
    Reprioritize,
    Remove,
    Deny,
    Allow,
    DeniedAction,
    Pause,
    Resume,
    Drain,
    Stop,
    Clear,
    Export,
    Import,
    Dashboard,
    Doctor,
    Convert,
)


class _Formatter(argparse.HelpFormatter):
    """Keep the lines of the examples, which end a help, and of options as they are."""

    def _format_action(self, action: argparse.Action) -> str:
        # Scrapy's formatter takes a line that ends with a colon for a heading. In an option's help none is.
        self._is_in_option = True
        try:
            return super()._format_action(action)
        finally:
            self._is_in_option = False

    def _join_parts(self, part_strings: Iterable[str]) -> str:
        if getattr(self, "_is_in_option", False):
            return argparse.HelpFormatter._join_parts(self, part_strings)
        return super()._join_parts(part_strings)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("Examples\n"):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


_UNKNOWN = re.compile(r"argument <command>: invalid choice: '([^']*)'")
_LIST = "To list the commands: scrapy frontier --help"


def _plainer(message: str) -> str:
    """Return argparse's *message*; about a missing or unknown command, in fewer words."""
    unknown = _UNKNOWN.match(message)
    if unknown:
        close = difflib.get_close_matches(unknown[1], [action.name for action in ACTIONS], n=1)
        meant = f" Do you mean {close[0]}?" if close else ""
        return f"there is no command {unknown[1]!r}.{meant} {_LIST}"
    return f"a command is missing. {_LIST}" if message.endswith("required: <command>") else message


class Command(ScrapyCommand):
    """``scrapy frontier <command>``."""

    requires_project = False
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as in Scrapy's own commands

    def syntax(self) -> str:
        """Return the arguments of ``scrapy frontier``."""
        return "<command> [options] [args]"

    def short_desc(self) -> str:
        """Return the line for the list of ``scrapy``."""
        return "Inspect a crawl that is shared in Redis, and control it"

    def long_desc(self) -> str:
        """Return the description for ``scrapy frontier --help``."""
        return (
            "Inspect a crawl that is shared in Redis, and control it, also while it runs. Inside a project, "
            "Redis is the one of the project's settings; elsewhere, give --redis-url. The options of a "
            "command, with examples: scrapy frontier <command> --help"
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the commands to *parser*, each with its own options."""

        class Formatter(_Formatter, parser.formatter_class):  # type: ignore[name-defined,misc]
            """Scrapy's format of a help, with the examples as they are."""

        refuse = parser.error
        parser.error = lambda message: refuse(_plainer(message))  # type: ignore[method-assign]
        commands = parser.add_subparsers(title="Commands", dest="action", metavar="<command>", required=True)
        for action in (cls() for cls in ACTIONS):
            added = commands.add_parser(
                action.name,
                prog=f"scrapy frontier {action.name}",
                usage=action.usage(),
                help=action.summary,
                description=action.description or f"{action.summary}.",
                epilog=action.epilog(),
                formatter_class=Formatter,
                conflict_handler="resolve",
                allow_abbrev=False,
            )
            added.set_defaults(run=action)
            if action.spider != "none":
                nargs = "?" if action.spider == "optional" else None
                added.add_argument("spider", nargs=nargs, metavar="SPIDER", help="the spider's name")
            action.add_arguments(added)
            group = added.add_argument_group(title="Which frontier")
            group.add_argument("--redis-url", metavar="URL", help="the URL of Redis (default: REDIS_URL)")
            group.add_argument(
                "-a",
                dest="spider_arguments",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="an argument of the spider, as for its workers; redis_key is the key of its seeds",
            )
            super().add_options(added)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Apply the options of the command line.

        :raises UsageError: if an argument is unknown.
        """
        last = getattr(opts, opts.run.last, None) if opts.run.last else None
        if args and opts.run.last and not any(arg.startswith("-") and arg != "-" for arg in args):
            # argparse leaves it empty if an option stands before it.
            if isinstance(last, list):
                last.extend(args)
                args = []
            elif last is None:
                setattr(opts, opts.run.last, args[0])
                args = args[1:]
        if args:
            raise UsageError(f"unrecognized arguments: {' '.join(args)}", print_help=False)
        super().process_options(args, opts)
        try:
            opts.spider_arguments = arglist_to_dict(opts.spider_arguments)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None
        if opts.redis_url:
            assert self.settings is not None  # noqa: S101 - Scrapy sets it before
            self.settings.set("REDIS_URL", opts.redis_url, priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the command of the command line."""
        output = Output()
        if opts.run.name != Crawl.name:
            own_redis.use_if_there(self.settings)
        context = Context(self.settings, output, opts.spider_arguments.get("redis_key"))
        try:
            self.exitcode: Any = opts.run.run(context, opts) or 0
        except FrontierError as error:
            self._refuse(output, str(error))
        except connection.RedisError as error:
            self._refuse(output, context.describe(error))
        except KeyboardInterrupt as error:
            self._refuse(output, str(error) or "interrupted", 130)
        except BrokenPipeError:
            # The reader has closed the pipe, as `head` does. Discard the rest of the buffer.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 141

    def _refuse(self, output: Output, text: str, code: int = 1) -> None:
        output.warn(text)
        self.exitcode = code
