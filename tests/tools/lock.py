"""Write constraints.txt: the versions of all that a developer's environment has, on each Python.

python -m tests.tools.lock
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "constraints.txt"
EXTRAS = "demo,test,lint"

_HEAD = """\
# The versions of all packages that `make test` and `make lint` install.
# Users' installations, `make demo` and the environments of tox.ini do not have these constraints.
# Written by `make lock`.
"""
_PYTHON = "Programming Language :: Python :: 3."


def pythons() -> list[str]:
    """Return the versions of Python that setup.cfg names, such as ``3.11``, in ascending order."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["metadata"]["classifiers"].split("\n")
    return [line.removeprefix(_PYTHON[:-2]) for line in lines if line.startswith(_PYTHON)]


def normalized(name: str) -> str:
    """Return the name of a package as all tools write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(python: str) -> dict[str, str]:
    """Return the packages that a new environment with *python* would have, and their versions.

    :raises SystemExit: if there is no such interpreter, or its pip does not succeed.
    """
    executable = shutil.which(f"python{python}")
    if executable is None:
        raise SystemExit(
            f"python{python} is not on the PATH. The lock needs each Python that setup.cfg names"
        )
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        done = subprocess.run(
            [executable, "-m", "pip", "install", *options, f".[{EXTRAS}]"],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"pip of {executable} has failed:\n{done.stderr}")
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    versions = {normalized(package["name"]): package["version"] for package in found}
    del versions["scrapy-rq-sched"]
    return versions


def merged(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the constraints of all environments, with a marker where their versions differ.

    :param found: for each Python, in ascending order, its packages and their versions.
    """
    versions: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for python, packages in found.items():
        for name, version in packages.items():
            versions[name].setdefault(version, []).append(python)
    lines = []
    for name, by_version in sorted(versions.items()):
        for version, its_pythons in by_version.items():
            marker = f" ; {_marker(its_pythons, list(found))}" if len(by_version) > 1 else ""
            lines.append(f"{name}=={version}{marker}")
    return lines


def _marker(its: list[str], every: list[str]) -> str:
    first = every.index(its[0])
    if every[first : first + len(its)] != its:
        return " or ".join(f'python_version == "{python}"' for python in its)
    if its[0] == its[-1] not in (every[0], every[-1]):
        return f'python_version == "{its[0]}"'
    bounds = []
    if its[0] != every[0]:
        bounds.append(f'python_version >= "{its[0]}"')
    # A Python that is newer than all of these gets what the newest has.
    if its[-1] != every[-1]:
        bounds.append(f'python_version <= "{its[-1]}"')
    return " and ".join(bounds)


def main() -> int:
    """Write the file."""
    found = {}
    for python in pythons():
        print(f"Resolving for Python {python} ...", flush=True)
        found[python] = resolve(python)
    lines = merged(found)
    FILE.write_text(_HEAD + "\n".join(lines) + "\n")
    print(f"{FILE.name}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
