"""``scrapy frontier metrics``: metrics for Prometheus, of all spiders or of some."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from .. import connection
from ..inspect import View, find_frontiers
from ..metrics.exposition import as_openmetrics, require_library, serve, write_textfile
from ..metrics.snapshots import Snapshots
from .action import Action, Context

#: The default address to listen on, which other machines cannot reach.
HOST = "127.0.0.1"
#: Seconds to wait for Redis: Prometheus itself waits for ten.
PATIENCE = 2.0


class Metrics(Action):
    """``scrapy frontier metrics [SPIDER...]``."""

    name = "metrics"
    summary = "Print or serve metrics of crawls for Prometheus"
    description = (
        "Print metrics of some spiders in the OpenMetrics format, or of all spiders in this Redis; or write "
        "them to a file for a node exporter, or serve them to Prometheus until Ctrl-C. To find all spiders, "
        "Redis goes through the names of all its keys, at most every 30 seconds."
    )
    spider = "none"
    syntax = ("[SPIDER...]",)
    examples = (
        "scrapy frontier metrics",
        "scrapy frontier metrics quotes --listen 9410",
        "scrapy frontier metrics --out /var/lib/node_exporter/scrapy.prom",
    )
    last = "spiders"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the spiders, and the output."""
        parser.add_argument("spiders", nargs="*", metavar="SPIDER", help="the spiders' names (default: all)")
        to = parser.add_mutually_exclusive_group()
        to.add_argument(
            "--out", type=Path, metavar="FILE", help="replace FILE atomically, in Prometheus's text format"
        )
        to.add_argument(
            "--listen",
            type=_address,
            metavar="[HOST:]PORT",
            help=f"serve them at http://HOST:PORT/metrics (default HOST: {HOST}; PORT 0: any free port)",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int:
        """Print, write or serve them.

        :return: 1 if Redis does not answer.
        """
        require_library()
        context.settings = _impatient(context.settings)
        spiders = list(dict.fromkeys(opts.spiders))
        if opts.listen:
            return _listen(context, spiders, *opts.listen)
        snapshot = _snapshots(context, spiders, context.output.warn).take(all_slots=True)
        if opts.out:
            write_textfile(snapshot, opts.out)
        else:
            context.output.say(as_openmetrics(snapshot).rstrip("\n"))
        return int(not all(snapshot.up.values()))


def _listen(context: Context, spiders: list[str], host: str, port: int) -> int:
    warn = context.output.warn
    snapshots = _snapshots(
        context, spiders, lambda text: warn(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {text}")
    )
    snapshots.latest()  # report wrong settings before the first scrape
    # Also around the line that names Ctrl-C: who reads it may be quicker than this process.
    with suppress(KeyboardInterrupt):
        port = serve(snapshots.latest, host, port)
        shown = f"[{host}]" if ":" in host else host
        context.output.say(f"Metrics are at http://{shown}:{port}/metrics until Ctrl-C")
        threading.Event().wait()
    return 0


def _snapshots(context: Context, spiders: list[str], say: Callable[[str], None]) -> Snapshots:
    server = connection.get_client(context.settings)
    return Snapshots(lambda: _views(context, spiders), server, say, are_named=bool(spiders))


def _impatient(settings: Any) -> Any:
    """Return *settings* without retries of Redis: Prometheus asks again soon."""
    try:
        own = settings.getdict("REDIS_PARAMS")
    except (ValueError, TypeError):
        return settings  # the reader of this setting refuses it
    params = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE, "retry": connection.no_retry()}
    settings = settings.copy()
    # With the priority of the project's setting, so that a spider's own REDIS_PARAMS override it.
    settings.set("REDIS_PARAMS", {**params, **own}, priority=settings.getpriority("REDIS_PARAMS") or 0)
    return settings


def _views(context: Context, spiders: list[str]) -> list[View]:
    if spiders:
        return [context.view(spider) for spider in spiders]
    found = [view.of_spider(context.spidercls(view.spider)) for view in find_frontiers(context.settings)]
    known = {view.spider for view in found}
    return found + [context.view(spider) for spider in context.spiders() if spider not in known]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isdecimal() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} must be a port such as 9410, or HOST:PORT")
    return host.strip("[]") or HOST, int(port)
