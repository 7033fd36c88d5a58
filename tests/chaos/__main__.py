"""Play the scenarios one after the other, print what each cost, and exit with 1 if that was too much."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sys
from dataclasses import asdict
from pathlib import Path

from .ledger import COLUMNS, cells, line, page, remark
from .mutants import PACKAGE, ROOT
from .referee import Verdict
from .scenarios import SCENARIOS, run


def main() -> int:
    """Play, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--short", action="store_true", help="some seconds each, as the tests do")
    parser.add_argument("--seed", type=int, help="of all that is random; by default a new one each")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help="these scenarios")
    parser.add_argument("--ledger", type=Path, help="write the table and what was run to this page")
    parser.add_argument("--keep", type=Path, help="keep logs and records in this folder")
    parser.add_argument(
        "--results",
        type=Path,
        help="add each row to this file; what is there and as it should be is not played again",
    )
    options = parser.parse_args()
    print(line(COLUMNS), flush=True)
    verdicts = _read(options.results)
    for name in options.only or SCENARIOS:
        if name in verdicts and verdicts[name].ok:
            continue
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        folder = None
        if options.keep is not None:
            folder = options.keep / name
            folder.mkdir(parents=True)
        verdict = run(SCENARIOS[name], seed, not options.short, folder)
        verdicts[name] = verdict
        if options.results is not None:
            with options.results.open("a") as results:
                results.write(json.dumps([_code(), asdict(verdict)]) + "\n")
        print(line(cells(verdict), f"{verdict.seconds:.1f} s  {remark(verdict)}"), flush=True)
    if options.ledger is not None:
        in_order = [verdicts[name] for name in SCENARIOS if name in verdicts]
        options.ledger.write_text(page(in_order, not options.short))
    return 0 if all(verdict.ok for verdict in verdicts.values()) else 1


def _read(results: Path | None) -> dict[str, Verdict]:
    """Return the last row of each scenario that *results* has of the code as it is."""
    if results is None or not results.exists():
        return {}
    rows = [json.loads(text) for text in results.read_text().splitlines()]
    verdicts = [Verdict(**row) for code, row in rows if code == _code()]
    return {verdict.scenario: verdict for verdict in verdicts if verdict.scenario in SCENARIOS}


def _code() -> str:
    """Return what differs where the package does."""
    files = sorted(path for path in (ROOT / PACKAGE).rglob("*") if path.suffix in (".py", ".lua"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
