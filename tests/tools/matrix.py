"""Run the environments of tox.ini one by one, and print a table of what ran on what.

python -m tests.tools.matrix [-e ENVIRONMENT,...] [-- arguments for pytest]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

WORK = Path(".tox")
COLUMNS = ("environment", "Python", "Scrapy", "redis-py", "Twisted", "passed", "failed", "skipped")
VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version
def of(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"
print(platform.python_version(), of("scrapy"), of("redis"), of("twisted"))
"""


def environments() -> list[str]:
    """Return the environments of tox.ini, in their order."""
    listed = subprocess.run([*_tox(), "list", "--no-desc"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


def run(environment: str, arguments: list[str]) -> tuple[list[str], bool]:
    """Run one environment; return its line of the table, and whether all is well."""
    folder = WORK / environment
    report = folder / "tests.xml"
    report.unlink(missing_ok=True)
    WORK.mkdir(exist_ok=True)
    log = WORK / f"{environment}.log"
    with log.open("w") as out:
        command = [*_tox(), "run", "-e", environment, "--skip-missing-interpreters", "true"]
        done = subprocess.run([*command, "--", *arguments], stdout=out, stderr=subprocess.STDOUT)
    text = log.read_text(errors="replace")
    if f"{environment}: SKIP" in text:
        return [environment, "no such interpreter"], True
    well = done.returncode == 0
    if not report.exists():
        return [environment, *_versions(folder), "ok" if well else f"FAILED, see {log}"], well
    return [environment, *_versions(folder), *_counts(report)], well


def _tox() -> list[str]:
    return [sys.executable, "-m", "tox"]


def _versions(folder: Path) -> list[str]:
    python = folder / "bin" / "python"
    if not python.exists():
        return ["-"] * 4
    asked = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    return asked.stdout.split()


def _counts(report: Path) -> list[str]:
    suites = list(ElementTree.parse(report).iter("testsuite"))

    def total(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    failed, skipped = total("failures") + total("errors"), total("skipped")
    return [str(total("tests") - failed - skipped), str(failed), str(skipped)]


def _print_line(cells: list[str]) -> None:
    widths = (14, 8, 8, 9, 9, 7, 7, 7)
    print(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip(), flush=True
    )


def main() -> int:
    """Run what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-e", "--environments", help="names of tox.ini; by default, all", default="")
    parser.add_argument("arguments", nargs="*", help="for pytest, after --")
    options = parser.parse_args()
    lines, all_well = [], True
    for environment in options.environments.split(",") if options.environments else environments():
        print(f"{environment} ...", flush=True)
        line, well = run(environment, options.arguments)
        lines.append(line)
        all_well = all_well and well
    _print_line(list(COLUMNS))
    for line in lines:
        _print_line(line)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
