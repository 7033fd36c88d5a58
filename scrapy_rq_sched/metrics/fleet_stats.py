"""Statistics that :class:`~scrapy_rq_sched.stats.RedisStatsCollector` adds up in Redis."""

from __future__ import annotations

import math

from .. import connection
from ..collect.stat_values import decode, is_number
from ..inspect import View
from .labels import LONGEST, is_url

#: Statistics that are exported, and that are read at most: spiders may create any number of them.
MOST, LOOKED_AT = 500, 2000


def read_stats(view: View) -> dict[str, float]:
    """Return the numeric statistics of *view*'s spider; empty if no collector stores them in Redis.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    settings = view.settings
    key = connection.expand_key(view.server, settings.stats_key, view.spider, settings.job)
    server, cursor = connection.server_of(view.server, key), 0
    found: dict[str, float] = {}
    looked_at = 0
    while looked_at < LOOKED_AT:
        try:
            cursor, some = server.hscan(key, cursor, count=LOOKED_AT)
        except connection.ResponseError:  # not a hash, or this user may not read it
            return {}
        looked_at += len(some)
        for field, data in some.items():
            name, value = field.decode("utf-8", "replace"), _finite(data)
            if value is not None and len(name) <= LONGEST and not is_url(name):
                found[name] = value
        if not cursor:
            break
    return {name: found[name] for name in sorted(found)[:MOST]}


def _finite(data: bytes) -> float | None:
    try:
        value = decode(data)
        number = float(value) if is_number(value) else math.nan
    except (OverflowError, ValueError):  # more digits than Python converts
        return None
    return number if math.isfinite(number) else None
