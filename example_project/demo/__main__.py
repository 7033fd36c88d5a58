"""Watch three workers crawl one site, and one of them die: ``python -m demo``.

Redis is the one that ``REDIS_URL`` names, or else a private one that ends with the demo.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .signals import Interrupted, Interrupts

HELP = """\
Three workers crawl a bookshop of 2,202 pages on this machine, and share one frontier in Redis. Half-way, one
worker is killed with kill -9. At the end the demo counts the pages that were lost and those that were fetched
twice. It takes half a minute. Press 1, 2 or 3 to kill that worker yourself."""


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m demo",
        description=HELP,
        epilog="Without REDIS_URL in the environment, the demo starts and stops a Redis of its own.",
    ).parse_args()
    # Before anything that takes time, so that Ctrl-C never meets Python's own handler.
    interrupts = Interrupts()
    interrupts.install()
    # The package that this project shows: the one installed, or else the one beside it.
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
    from .run import run

    try:
        return run(interrupts)
    except Interrupted as interrupted:
        print(f"Stopped by {interrupted}; no process was left behind.", file=sys.stderr)
        # What a shell reports of a process that a signal ended.
        return 128 + interrupted.number


if __name__ == "__main__":
    sys.exit(main())
