"""Play the scenarios one after the other, print what each cost, and exit with 1 if that was too much."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from .ledger import COLUMNS, cells, line, page, remark
from .scenarios import SCENARIOS, run


def main() -> int:
    """Play, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--short", action="store_true", help="some seconds each, as the tests do")
    parser.add_argument("--seed", type=int, help="of all that is random; by default a new one each")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help="these scenarios")
    parser.add_argument("--ledger", type=Path, help="write the table and what was run to this page")
    parser.add_argument("--keep", type=Path, help="keep logs and records in this folder")
    options = parser.parse_args()
    print(line(COLUMNS), flush=True)
    verdicts = []
    for name in options.only or SCENARIOS:
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        folder = None
        if options.keep is not None:
            folder = options.keep / name
            folder.mkdir(parents=True)
        verdict = run(SCENARIOS[name], seed, not options.short, folder)
        verdicts.append(verdict)
        print(line(cells(verdict), f"{verdict.seconds:.1f} s  {remark(verdict)}"), flush=True)
    if options.ledger is not None:
        options.ledger.write_text(page(verdicts, not options.short))
    return 0 if all(verdict.ok for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
