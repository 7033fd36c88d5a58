"""The doctor's checks of a frontier's pools."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice

from ..codec.values import text_of
from ..errors import frontier_command, shown
from .finding import Finding, problem, warning
from .pools import Pools, Use, awaited
from .status import PoolCounts, Status
from .view import View
from .wording import counted

#: How many uses of items are checked.
MOST_USES = 5000


def check_pools(view: View, status: Status, subject: str) -> Iterator[Finding]:
    """Check the pools of *view*'s frontier.

    :param status: its status.
    """
    waiting = awaited(view)
    if not status.pools and not waiting:
        return
    if lacking := [worker.name for worker in status.workers if worker.lacks_item]:
        yield warning(
            subject,
            f"worker {shown(lacking[0])} begins no request: it needs an item of a pool for its life, and all "
            "are in use, at rest or retired",
            f"Add an item, or end a worker that has one: {frontier_command('pool', view.spider)}",
        )
    known = {pool.name: pool for pool in status.pools}
    for name in sorted(waiting):
        pool = known.get(name, PoolCounts(name))
        add = frontier_command("pool", view.spider, "add", shlex.quote(name), "ITEM")
        if not pool.items:
            yield problem(
                subject,
                f"requests wait for an item of pool {shown(name)}, which has none",
                f"Add items: {add}",
            )
        elif pool.items == pool.retired:
            items = "its only item is" if pool.items == 1 else f"all of its {pool.items:,} items are"
            yield problem(
                subject,
                f"requests wait for an item of pool {shown(name)}, but {items} retired",
                f"Use one again, or add one: {add}",
            )
    if gone := _gone(view):
        names = sorted({f"{use.item} of pool {use.pool}" for use in gone})
        yield warning(
            subject,
            f"{counted(len(gone), 'item')} of pools {'is' if len(gone) == 1 else 'are'} in use by leases or "
            f"workers that are gone, such as {shown(names[0])}: another program has deleted keys",
            "They are free again when the next worker joins",
        )


def _gone(view: View) -> list[Use]:
    """Return the uses of items by leases or workers that do not exist."""
    keys, uses = view.keys, list(islice(Pools(view).uses(), MOST_USES))
    pipe = view.pipeline()
    for use in uses:
        if use.lease:
            pipe.hexists(keys.leases(use.worker), use.lease)
        else:
            pipe.hget(keys.worker(use.worker), f"pool {use.pool}")
    replies = pipe.execute(raise_on_error=False) if uses else []
    gone = [
        use
        for use, reply in zip(uses, replies, strict=True)
        if reply is not True and not (isinstance(reply, bytes) and text_of(reply) == use.item)
    ]
    # A script ends a use and its lease in one step: one that has ended meanwhile is not in the key any more.
    pipe = view.pipeline()
    for use in gone:
        pipe.zscore(keys.pool_uses, f"{use.pool} {use.item} {use.worker}/{use.lease}")
    still = pipe.execute(raise_on_error=False) if gone else []
    return [use for use, score in zip(gone, still, strict=True) if isinstance(score, float)]
