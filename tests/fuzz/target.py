"""What is fuzzed: a source of cases, and an examiner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import redis
from hypothesis import strategies as st

from .oracle import Complaint


class World:
    """The real Redis that is fuzzed, and a folder for files.

    :param url: the address of the server, which has nothing in it that anybody needs.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.server: Any = redis.Redis.from_url(url)

    def close(self) -> None:
        """Close the connections."""
        self.server.close()


class Target(ABC):
    """An entry of the package."""

    name: ClassVar[str]
    #: How many cases are tried together: many if a process is started for them.
    batch: ClassVar[int] = 1

    def __init__(self, world: World) -> None:
        self.world = world

    @abstractmethod
    def cases(self) -> st.SearchStrategy[Any]:
        """Return the source of cases. A case is made of what JSON can express."""

    @abstractmethod
    def examine(self, cases: list[Any]) -> Iterator[Complaint]:
        """Try *cases* together, and yield what must not have happened."""

    def alone(self, case: Any) -> Iterator[Complaint]:
        """Try one case in this process, for a target that tries many together in another."""
        yield from ()

    def simpler(self, case: Any) -> Iterable[Any]:
        """Yield simpler forms of *case*, for a target that tries many together."""
        return ()
