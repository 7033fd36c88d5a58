"""Fuzz every entry in turn, print a line for each, and exit with 1 if anything was found."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrapy_rq_sched.embedded import PrivateRedis

from ..support import reaper
from .runner import Finding, Report, fuzz, replay
from .target import World
from .targets import TARGETS

#: Where findings are kept, to be replayed.
FOLDER = Path(".fuzz-findings")


def main() -> int:
    """Fuzz or replay, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=3600, help="for all targets together (default: 3600)"
    )
    parser.add_argument(
        "--only", type=_names, default=[*TARGETS], metavar="NAME,…", help=f"of {', '.join(TARGETS)}"
    )
    parser.add_argument("--seed", type=int, help="of all that is random; by default a new one")
    parser.add_argument(
        "--findings", type=Path, default=FOLDER, help=f"keep findings in it (default: {FOLDER})"
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try a finding again")
    options = parser.parse_args()
    with _world() as world:
        if options.replay is not None:
            return _replay(world, options.replay)
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        print(f"seed {seed}, {options.seconds / len(options.only):.0f} s for each target", flush=True)
        found = 0
        for name in options.only:
            report = fuzz(TARGETS[name](world), options.seconds / len(options.only), seed)
            _print(report, options.findings)
            found += len(report.findings)
    return 1 if found else 0


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - TARGETS.keys():
        raise argparse.ArgumentTypeError(f"no such targets: {', '.join(sorted(unknown))}")
    return names


@contextmanager
def _world() -> Iterator[World]:
    # In memory, if the system has that: thousands of files are written and removed.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz", dir=memory) as name:
        folder = Path(name)
        reaper.start(folder)
        with PrivateRedis(folder) as server:
            world = World(server.url, folder)
            try:
                yield world
            finally:
                world.close()


def _print(report: Report, folder: Path) -> None:
    rate = report.tries / max(0.001, report.seconds)
    print(
        f"{report.target:8} {report.tries:9,} tries  {report.seconds:6.0f} s  {rate:6.0f} a second  "
        f"{len(report.findings)} findings",
        flush=True,
    )
    for finding in report.findings:
        path = finding.write(folder)
        smallest = ascii(finding.cases[0] if len(finding.cases) == 1 else f"{len(finding.cases)} cases")
        print(f"    {finding.kind}\n        {smallest[:300]}\n        {path}", flush=True)


def _replay(world: World, path: Path) -> int:
    finding = Finding.read(path)
    complaints = replay(TARGETS[finding.target](world), finding)
    for complaint in complaints:
        print(f"{ascii(complaint.kind)[1:-1]}\n{complaint.details!a}", flush=True)
    if not complaints:
        print("Nothing is wrong with these cases any more")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
