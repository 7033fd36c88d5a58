"""What a recipe needs of psycopg, by ``psql``: each transaction is one run of it.

A stand-in, on the ``PYTHONPATH`` of a program where psycopg is not installed. The server is real.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class Connection:
    """Also the cursor that it gives."""

    def __init__(self, url: str) -> None:
        self._psql = ["psql", url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction"]
        self._statements: list[str] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._statements.clear()
        yield
        script = ";\n".join([*self._statements, ""])
        subprocess.run(self._psql, input=script, text=True, check=True, stdout=subprocess.DEVNULL)

    @contextmanager
    def cursor(self) -> Iterator[Connection]:
        yield self

    def execute(self, statement: str, row: Sequence[str] = ()) -> None:
        self._statements.append(statement % tuple(map(_quoted, row)))

    def executemany(self, statement: str, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            self.execute(statement, row)


def connect(url: str) -> Connection:
    return Connection(url)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
