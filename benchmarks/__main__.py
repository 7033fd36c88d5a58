"""Measure, and write the tables: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path

from . import (
    broad,
    checkout,
    commands,
    connections,
    cores,
    crawl,
    fleet,
    http,
    idle,
    items,
    large,
    memory,
    metrics,
    polite_cost,
    quotes,
    replay,
    seeds,
    slots,
    start_stop,
)
from .arena import ROOT, Arena
from .figures import Figures, Options, console
from .report import Results

DOCS = ROOT / "docs"
WORKLOADS: dict[str, Callable[[Arena, Options], Figures]] = {
    "crawl": crawl.run,
    "growing": crawl.run_growing,
    "replay": replay.run,
    "http": http.run,
    "items": items.run,
    "item_sizes": items.run_sizes,
    "fleet": fleet.run,
    "cores": cores.run,
    "broad": broad.run,
    "polite_cost": polite_cost.run,
    "slots": slots.run,
    "connections": connections.run,
    "seeds": seeds.run,
    "idle": idle.run,
    "memory": memory.run,
    "large": large.run,
    "start_stop": start_stop.run,
    "commands": commands.run,
    "metrics": metrics.run,
}


def main() -> None:
    """Run the workloads that are asked for; what is known of the others stays on the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(WORKLOADS), metavar="NAME", help=", ".join(WORKLOADS)
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: 5)")
    parser.add_argument("--quick", action="store_true", help="small crawls: to see that everything works")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for the tables (docs)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--ages", action="store_true", help="only print how old the figures are")
    only.add_argument("--readme", action="store_true", help="only write docs/benchmarks.json into the pages")
    options = parser.parse_args()
    if options.quick and options.out.resolve() == DOCS:
        parser.error(
            "--quick needs --out FOLDER: its figures mean nothing, and must not replace those of docs/"
        )
    if options.readme:
        _fill_pages(Results.read(DOCS / "benchmarks.json"))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results.read(options.out / "benchmarks.json")
    if not options.ages:
        _measure(options, results)
        console.print(f"Written: {options.out / 'benchmarks.md'}")
        if options.out.resolve() == DOCS:
            _fill_pages(results)
    for line in results.ages(_today()):
        print(line)


def _fill_pages(results: Results) -> None:
    (DOCS / "benchmarks.md").write_text(results.page())
    for page in quotes.fill_pages(results.figures):
        console.print(f"Written: {page}")


def _measure(options: argparse.Namespace, results: Results) -> None:
    with Arena.open() as arena:
        server = str(arena.redis.info("server")["redis_version"])
        for name in options.only or WORKLOADS:
            commit = checkout.commit()
            figures = WORKLOADS[name](arena, Options(options.rounds, options.quick))
            if checkout.commit() != commit:  # it has changed meanwhile
                commit = commit.removesuffix(checkout.CHANGED) + checkout.CHANGED
            results.add(name, figures, server, _today().isoformat(), commit)
            # After each: what is measured is not lost if the next one fails.
            results.write(options.out)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


if __name__ == "__main__":
    main()
