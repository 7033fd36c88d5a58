"""Why Redis refuses a step, in one line for each reason: what is so, of what, and what to do."""

from __future__ import annotations

import shlex
from typing import Any

from ..errors import (
    FleetFinishedError,
    FleetFullError,
    FleetStoppedError,
    FrontierError,
    FrontierMismatchError,
    RedisUnsuitableError,
    one_line,
)
from ..keys import Keys


def to_join(problem: bytes, rest: list[Any], keys: Keys) -> FrontierError:
    """Return why a worker must not join, from what ``lua/open.lua`` has answered."""
    if problem == b"type":
        key, found, expected = (text.decode() for text in rest)
        if expected == "none":
            return RedisUnsuitableError(
                f"What was seen is kept by CompactDupeFilter at {keys.dupefilter!r}, and this "
                "worker is set up with another filter. Set its DUPEFILTER_CLASS or its "
                "SCHEDULER_DUPEFILTER_KEY otherwise"
            )
        return RedisUnsuitableError(
            f"Key {key!r} in Redis is a {found}, where the frontier of spider "
            f"{keys.spider!r} needs a {expected}. Rename or delete it, or set another key"
        )
    if problem == b"full":
        return FleetFullError(
            f"{rest[0]} workers are at it, as many as FRONTIER_MAX_WORKERS allows spider {keys.spider!r}. "
            "To have further ones wait in line, set FRONTIER_MAX_WORKERS_POLICY to 'wait'"
        )
    if problem == b"finished":
        return FleetFinishedError(
            f"The crawl of spider {keys.spider!r} was finished while this worker waited for a place in it"
        )
    if problem == b"stopped":
        return FleetStoppedError(
            f"The fleet of spider {keys.spider!r} was told to stop while this worker waited for a place in it"
        )
    if problem == b"converting" and rest == [b"import"]:
        return FrontierMismatchError(
            f"A frontier is being imported for spider {keys.spider!r}, or that broke off. Let it "
            f"end; or remove what was imported: scrapy frontier clear {keys.spider} --force"
        )
    if problem == b"converting":
        return FrontierMismatchError(
            f"The requests of spider {keys.spider!r} are being converted to another serializer, or "
            f"that broke off. Run it to its end: scrapy frontier convert {keys.spider}"
        )
    name, there, ours = (text.decode() for text in rest)
    if (name, there, ours) == ("dupefilter", "exact", "compact"):
        return FrontierMismatchError(
            f"The frontier of spider {keys.spider!r} has a dupefilter 'exact', which others "
            "use, and this worker is set up with 'compact'. Stop them all, then start them with "
            "CompactDupeFilter: what was seen is converted while they crawl"
        )
    if name == "FRONTIER_PROJECT":
        return FrontierMismatchError(
            f"The frontier of spider {keys.spider!r} is another project's: {there!r} made it, "
            f"and this worker is {ours!r}. Give this crawl keys of its own: set FRONTIER_JOB, and put "
            "%(job)s into SCHEDULER_QUEUE_KEY, SCHEDULER_DUPEFILTER_KEY and REDIS_START_URLS_KEY; or use "
            "another database of Redis. If both are to share one frontier, set FRONTIER_PROJECT to the same "
            "text in both"
        )
    convert = ""
    if name == "SCHEDULER_SERIALIZER":
        options = f"--from {shlex.quote(one_line(there))} --to {shlex.quote(ours)}"
        convert = f"convert what waits (scrapy frontier convert {keys.spider} {options}), "
    return FrontierMismatchError(
        f"The frontier of spider {keys.spider!r} was made with {name} {there!r}, and "
        f"this worker is set up with {ours!r}. Set it up alike, {convert}or start the frontier anew "
        "with SCHEDULER_FLUSH_ON_START"
    )


def to_convert(problem: bytes, rest: list[Any], keys: Keys, is_list: bool) -> FrontierError:
    """Return why a conversion must not begin, from what ``lua/convert/begin.lua`` has answered."""
    spider = keys.spider
    if problem == b"type":
        return FrontierError(
            f"Key {keys.requests!r} in Redis is a {rest[0].decode()}, where this queue class needs "
            f"a {'list' if is_list else 'zset'}. Set SCHEDULER_QUEUE_CLASS to the class that it "
            "was filled with"
        )
    if problem == b"alive":
        return FrontierError(f"{rest[0]} workers are at the frontier of spider {spider!r}. Stop them first")
    if problem == b"held":
        return FrontierError(
            f"Workers that died hold requests of spider {spider!r}. Start a worker as they were set up, "
            "so that these go back to the queue, and stop it again"
        )
    if problem == b"exporting":
        return FrontierError(f"The frontier of spider {spider!r} is being exported. Run this when it is done")
    if problem == b"importing":
        return FrontierError(
            f"A frontier is being imported for spider {spider!r}, or that broke off. Let it end; or "
            f"remove what was imported: scrapy frontier clear {spider} --force"
        )
    source, target = (name.decode() for name in rest)
    return FrontierError(
        f"A conversion of spider {spider!r} from {source} to {target} broke off. Run that to its end "
        f"first: --from {source} --to {target}"
    )
