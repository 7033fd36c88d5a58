"""A PostgreSQL of one's own, and the consumer of the recipe for streams, which stores items in it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .crawl import wait_until
from .pages import DOCS, examples

#: Where Debian has the server's programs, which are not on its PATH.
DEBIAN = Path("/usr/lib/postgresql")
#: Stands for psycopg where that is not installed.
STAND_IN = Path(__file__).parent / "by_psql"


def server_programs() -> Path | None:
    """Return the folder with the newest ``postgres`` of this machine, if its other programs are beside it."""
    on_path = shutil.which("postgres")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(DEBIAN.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    return next((it for it in found if all((it / name).exists() for name in ("initdb", "psql"))), None)


def has_psycopg() -> bool:
    """Return whether psycopg is installed here."""
    return importlib.util.find_spec("psycopg") is not None


class PrivatePostgres:
    """A server that other users cannot reach; use it as a context manager.

    PostgreSQL refuses to run as root. Then it runs as ``nobody``, who could not enter a test's folder.
    """

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="scrapy-rq-sched-pg-"))
        self._as_user: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @property
    def url(self) -> str:
        """The server's address: a socket in its folder."""
        return f"postgresql://crawler@/postgres?host={self.folder}"

    def __enter__(self) -> PrivatePostgres:
        data = self.folder / "data"
        # No password: nobody else can enter the folder of the socket.
        options = ["--auth", "trust", "--username", "crawler", "--encoding", "UTF8", "--no-sync"]
        with (self.folder / "log").open("wb") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": log, "cwd": self.folder, **self._as_user}
            subprocess.run([self.programs / "initdb", "-D", data, *options], check=True, **output)
            command = [self.programs / "postgres", "-D", data, "-k", self.folder, "-h", ""]
            self._process = subprocess.Popen(command, start_new_session=True, **output)
        wait_until(lambda: self._psql("SELECT 1").returncode == 0, 30, "PostgreSQL does not answer")
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGINT)  # at once, and in good order
        self._process.wait(30)
        shutil.rmtree(self.folder)

    def column(self, query: str) -> Counter[str]:
        """Return how often each text is in the only column that *query* gives; nothing if it fails."""
        return Counter(self._psql(query).stdout.splitlines())

    def _psql(self, query: str) -> subprocess.CompletedProcess[str]:
        command = [self.programs / "psql", self.url, "-X", "-A", "-t", "-c", query]
        return subprocess.run(command, capture_output=True, text=True)

    def environment(self, of_psycopg: bool) -> Mapping[str, str]:
        """Return the environment of a program that uses this server.

        :param of_psycopg: whether it uses psycopg itself, or what stands for it.
        """
        folders = [] if of_psycopg else [str(STAND_IN)]
        python_path = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return {"DATABASE_URL": self.url, "PYTHONPATH": python_path, "PATH": path}


def stream_consumer(uses_postgres: bool) -> str:
    """Return the program of ``docs/recipes/stream.md`` as it is printed.

    :param uses_postgres: whether with the definitions that the page has for PostgreSQL.
    """
    blocks = [example.code for example in examples(DOCS / "recipes" / "stream.md", "python")]
    (program,) = [code for code in blocks if "def consume(" in code]
    (definitions,) = [code for code in blocks if "import psycopg" in code]
    begin, main, end = program.partition('if __name__ == "__main__":\n')
    return f"{begin}{definitions}\n\n{main}{end}" if uses_postgres else program


def start_consumer(
    program: Path, spider: str, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start the consumer of the items of *spider*; what it says is added to *log*."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, str(program), spider, "one"],
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
        )
