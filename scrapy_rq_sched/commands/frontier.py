"""``scrapy frontier``: look into a crawl from a terminal, and steer it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from .. import connection
from ..errors import FrontierError
from . import own_redis
from .action import Action, Context
from .control import Drain, Pause, Resume, Stop
from .convert import Convert
from .crawl import Crawl
from .dashboard import Dashboard
from .doctor import Doctor
from .edit import Clear, Remove, Reprioritize
from .events import Events
from .failed import Failed
from .forget import Forget
from .look import Explain, Leases, Peek
from .metrics import Metrics
from .output import Output
from .seed import Seed
from .slots import SlotsAction
from .status import Status, Workers
from .transfer import Export, Import

#: In the order in which the help lists them.
ACTIONS: tuple[type[Action], ...] = (
    Crawl,
    Status,
    Workers,
    Events,
    Leases,
    Peek,
    Explain,
    SlotsAction,
    Metrics,
    Failed,
    Seed,
    Forget,
    Reprioritize,
    Remove,
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


class Command(ScrapyCommand):
    """``scrapy frontier <command>``."""

    requires_project = False
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as Scrapy's own commands have it

    def syntax(self) -> str:
        """Return what follows ``scrapy frontier``."""
        return "<command> [options] [args]"

    def short_desc(self) -> str:
        """Return what ``scrapy`` says of it in its list."""
        return "Look into a crawl that is shared in Redis, and steer it"

    def long_desc(self) -> str:
        """Return what ``scrapy frontier --help`` says of it."""
        return (
            "Look into a crawl that is shared in Redis, and steer it. Inside a project its settings say "
            "which Redis; elsewhere --redis-url does. A crawl may be under way. What a command does and "
            "takes: scrapy frontier <command> --help"
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the commands to *parser*, each with options of its own."""
        commands = parser.add_subparsers(title="Commands", dest="action", metavar="<command>", required=True)
        for action in (cls() for cls in ACTIONS):
            added = commands.add_parser(
                action.name,
                usage=action.usage(),
                help=action.summary,
                description=action.description or f"{action.summary}.",
                formatter_class=parser.formatter_class,
                conflict_handler="resolve",
                allow_abbrev=False,
            )
            added.set_defaults(run=action)
            if action.spider != "none":
                nargs = "?" if action.spider == "optional" else None
                added.add_argument("spider", nargs=nargs, metavar="SPIDER", help="the spider's name")
            action.add_arguments(added)
            group = added.add_argument_group(title="Which frontier")
            group.add_argument("--redis-url", metavar="URL", help="where Redis is (default: REDIS_URL)")
            group.add_argument(
                "-a",
                dest="spider_arguments",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="what the spider's workers are given; redis_key says where its seeds are",
            )
            super().add_options(added)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Take over what the command line says.

        :raises UsageError: if it says what no command knows.
        """
        last = getattr(opts, opts.run.last, None) if opts.run.last else None
        if args and opts.run.last and not any(arg.startswith("-") and arg != "-" for arg in args):
            # argparse has given it nothing if an option stands before it.
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
        """Do what the command line says."""
        output = Output()
        if opts.run.name != Crawl.name:
            own_redis.use_if_there(self.settings)
        context = Context(self.settings, output, opts.spider_arguments.get("redis_key"))
        try:
            self.exitcode: Any = opts.run.run(context, opts) or 0
        except FrontierError as error:
            self._refuse(output, str(error))
        except connection.RedisError as error:
            server = context.server or connection.get_client(self.settings)
            self._refuse(output, connection.describe_error(server, error))
        except KeyboardInterrupt:
            self._refuse(output, "interrupted", 130)
        except BrokenPipeError:
            # Whoever read has had enough, as `head` has. What is left in the buffer is not for anybody.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.exitcode = 141

    def _refuse(self, output: Output, text: str, code: int = 1) -> None:
        output.warn(text)
        self.exitcode = code
