"""Store the pools of a worker's settings in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ..codec.pools import Pool, entries
from .pool_key import items_at
from .scripts import register


class PoolStore:
    """Stores *pools*, with their items.

    :param server: a redis-py client, and :param keys: the keys that each script gets.
    :param worker: the worker's name.
    """

    def __init__(self, server: Any, keys: Sequence[str], worker: str, pools: Sequence[Pool]) -> None:
        self._server, self._keys, self._worker, self._pools = server, keys, worker, pools
        self._script = register(server, "pools")
        # The arguments of the script, once the items were read.
        self._arguments: list[Any] = []

    def read(self) -> None:
        """Read the items of the pools, unless they were read before.

        :raises SettingError: if an item is not valid.
        """
        if self._arguments or not self._pools:
            return
        arguments: list[Any] = []
        for pool in self._pools:
            items = list(entries(pool, items_at(self._server, pool.key)))
            arguments += [pool.wire_name, pool.limits, len(items), *chain(*items)]
        self._arguments = ["fill", self._worker, len(self._pools), *arguments]

    def fill(self) -> None:
        """Store the pools. May be repeated.

        :raises SettingError: if an item is not valid.
        """
        self.read()
        if self._arguments:
            self._script(keys=self._keys, args=self._arguments)
