"""Measure, and write the tables: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path

from . import (
    broad,
    commands,
    connections,
    cores,
    crawl,
    fleet,
    http,
    items,
    large,
    memory,
    metrics,
    seeds,
    slots,
    start_stop,
)
from .arena import ROOT, Arena
from .figures import Figures, Options, console
from .report import Results

WORKLOADS: dict[str, Callable[[Arena, Options], Figures]] = {
    "crawl": crawl.run,
    "growing": crawl.run_growing,
    "http": http.run,
    "items": items.run,
    "item_sizes": items.run_sizes,
    "fleet": fleet.run,
    "cores": cores.run,
    "broad": broad.run,
    "slots": slots.run,
    "connections": connections.run,
    "seeds": seeds.run,
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
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder for the tables (docs)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results.read(options.out / "benchmarks.json")
    with Arena.open() as arena:
        server = str(arena.redis.info("server")["redis_version"])
        for name in options.only or WORKLOADS:
            figures = WORKLOADS[name](arena, Options(options.rounds, options.quick))
            date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
            results.add(name, figures, server, date)
            # After each: what is measured is not lost if the next one fails.
            results.write(options.out)
    console.print(f"Written: {options.out / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
