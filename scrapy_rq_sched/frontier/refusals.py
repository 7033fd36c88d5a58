"""Turn the answer of a script that refuses into an error with the cause and the remedy."""

from __future__ import annotations

import shlex
from typing import Any

from ..codec.values import text_of
from ..errors import (
    FleetFinishedError,
    FleetFullError,
    FleetStoppedError,
    FrontierError,
    FrontierMismatchError,
    InspectionError,
    RedisUnsuitableError,
    bounded,
    frontier_command,
    one_line,
)
from ..keys import Keys
from ..serializers import HARMLESS, PickleSerializer, names_pickle
from .messages import FORMAT


def to_join(problem: bytes, rest: list[Any], keys: Keys) -> FrontierError:
    """Return the error for a worker that must not join.

    :param problem: the problem, as ``lua/scripts/open.lua`` names it.
    :param rest: the rest of its reply.
    """
    if problem == b"type":
        return _wrong_type(keys, *map(text_of, rest))
    if problem == b"full":
        return FleetFullError(
            f"{_running(rest[0])}, and FRONTIER_MAX_WORKERS allows no more for spider {keys.spider!r}. To "
            "let further workers wait in line, set FRONTIER_MAX_WORKERS_POLICY to 'wait'"
        )
    if problem == b"finished":
        return FleetFinishedError(
            f"The crawl of spider {keys.spider!r} finished while this worker waited in line for a place"
        )
    if problem == b"stopped":
        return FleetStoppedError(
            f"The fleet of spider {keys.spider!r} was told to stop while this worker waited in line for a "
            "place"
        )
    if problem == b"converting" and rest == [b"import"]:
        return FrontierMismatchError(_importing(keys.spider))
    if problem == b"converting":
        return FrontierMismatchError(
            f"The requests of spider {keys.spider!r} are being converted to another serializer, or a "
            f"conversion was interrupted. {how_to_convert(keys.spider, text_of(rest[0]))}"
        )
    return _made_with_something_else(keys, *map(text_of, rest))


def _wrong_type(keys: Keys, key: str, found: str, expected: str) -> FrontierError:
    if expected == "none":
        return RedisUnsuitableError(
            f"The fingerprints at {keys.dupefilter!r} are stored by CompactDupeFilter, but this worker uses "
            "another dupefilter. Set its DUPEFILTER_CLASS to scrapy_rq_sched.CompactDupeFilter, or its "
            "SCHEDULER_DUPEFILTER_KEY to another key"
        )
    return RedisUnsuitableError(
        f"Key {key!r} in Redis is a {found}, but the frontier of spider {keys.spider!r} needs a {expected} "
        "there. Rename or delete the key, or set another key"
    )


def why_not_flushed(unflushed: str) -> str:
    """Return why ``SCHEDULER_FLUSH_ON_START`` has cleared nothing.

    :param unflushed: the reason, as ``lua/scripts/open.lua`` names it.
    """
    reason, _, details = unflushed.partition(" ")
    if reason == "lost":
        milliseconds, _, worker = details.partition(" ")
        return (
            f"worker {bounded(worker)} has ended without finishing the crawl, and may be started again (for "
            f"{int(milliseconds) / 1000:.0f} s more, this is assumed)"
        )
    return {
        "running": "other workers are running",
        "run": "workers of the same scrapy frontier crawl have taken part in this crawl",
        "late": "the crawl was finished after scrapy frontier crawl had been started",
    }[reason]


def _made_with_something_else(
    keys: Keys, name: str, there: str, ours: str, unflushed: str = ""
) -> FrontierError:
    if (name, there, ours) == ("dupefilter", "exact", "compact"):
        return FrontierMismatchError(
            f"The frontier of spider {keys.spider!r} has the dupefilter 'exact', and other workers use it, "
            "but this worker has 'compact'. Stop all workers, then start them with CompactDupeFilter: they "
            "convert the fingerprints while they crawl"
        )
    if name == "FRONTIER_PROJECT":
        return FrontierMismatchError(
            f"The frontier of spider {keys.spider!r} belongs to another project: {there!r} made it, but this "
            f"worker is {ours!r}. Give this crawl its own keys: set FRONTIER_JOB, and put %(job)s into "
            "SCHEDULER_QUEUE_KEY, SCHEDULER_DUPEFILTER_KEY and REDIS_START_URLS_KEY; or use another database "
            "of Redis. If both projects should share the frontier, set FRONTIER_PROJECT to the same text in "
            "both"
        )
    if name == "format":
        return FrontierMismatchError(
            f"The data of spider {keys.spider!r} in Redis has the format {one_line(there)}, but this version "
            f"of scrapy-rq-sched uses {ours}. Install the version of the other workers. To upgrade all of "
            f"them, stop them ({frontier_command('stop', keys.spider)}) before you start one with the new "
            "version; docs/upgrading.md has the versions that continue a crawl of an older one"
        )
    convert = ""
    if name == "SCHEDULER_SERIALIZER":
        convert = f". {how_to_convert(keys.spider, there, ours)}"
    clear = "with SCHEDULER_FLUSH_ON_START"
    if unflushed:
        clear = (
            f"({frontier_command('clear', keys.spider)}). SCHEDULER_FLUSH_ON_START has cleared nothing, "
            f"because {why_not_flushed(unflushed)}"
        )
    return FrontierMismatchError(
        f"The frontier of spider {keys.spider!r} was made with {name} {bounded(there)!r}, but this worker "
        f"has {ours!r}. Set up this worker in the same way, or clear the frontier {clear}{convert}"
    )


def how_to_convert(spider: str, source: str, target: str = "") -> str:
    """Return a sentence with the command that converts the waiting requests, and what it means.

    :param source: the serializer of the requests, which Redis may name: the sentence repeats it only if it
        is harmless.
    :param target: the serializer to convert them to; by default, the command chooses it.
    """
    trust = ""
    if names_pickle(source):
        source = PickleSerializer.name
        trust = ", if you trust every program that can write to this Redis (a pickle runs any code in it)"
    elif source not in HARMLESS:
        source = "IMPORT.PATH"
        trust = ", if you know and trust the code of their serializer"
    options = ("--from", source, *(("--to", shlex.quote(target)) if target else ()))
    return f"To convert the waiting requests{trust}: {frontier_command('convert', spider, *options)}"


def untrusted_serializer(spider: str, key: str, name: str | None, option: str = "--from") -> FrontierError:
    """Return the error for a conversion whose serializer only Redis names, and which may run code.

    :param key: the key that should name the serializer.
    :param name: the name there; None if there is no name.
    :param option: the option with which the user can name it.
    """
    if name is None:
        return FrontierError(
            f"Key {key!r} in Redis does not name the serializer of the requests of spider {spider!r}. If "
            "scrapy-redis has not filled the queue, name the serializer with --from. If it has, they are "
            f"pickles. {how_to_convert(spider, 'pickle')}"
        )
    if option == "--to":
        remedy = "Name the serializer to convert to with --to"
    else:
        remedy = how_to_convert(spider, name)
    return FrontierError(
        f"Key {key!r} in Redis names the serializer {bounded(name)!r}, which may run code. Redis may only "
        f"choose {', '.join(sorted(HARMLESS))}. {remedy}"
    )


def untrusted_import(spider: str, name: str) -> InspectionError:
    """Return the error for an exported frontier with a serializer that only its file names.

    :param name: the name, which is not a harmless one.
    """
    if names_pickle(name):
        remedy = "If you trust its writer (a pickle runs any code in it), add -s SCHEDULER_SERIALIZER=pickle"
    else:
        remedy = "If you know and trust it, name it yourself with -s SCHEDULER_SERIALIZER"
    return InspectionError(
        f"The first line of the file says that the requests of spider {spider!r} were written by the "
        f"serializer {bounded(name)!r}, which may run code. Nothing was imported. {remedy}"
    )


def to_exchange(error: Exception, keys: Keys) -> FrontierError | None:
    """Return the error for a worker whose exchanges can no longer succeed; None if *error* may pass.

    :param error: the error that ``lua/exchange/check.lua`` has returned.
    """
    kind, _, there = str(error).partition(" ")
    if kind != "FORMAT":
        return None
    return FrontierMismatchError(
        f"While this worker was silent, workers with another version of scrapy-rq-sched have continued the "
        f"crawl of spider {keys.spider!r}: its data in Redis now has the format {one_line(there)}, and this "
        f"version uses {FORMAT}. No request is lost: the other workers have those that this worker held. "
        "Install their version, then start this worker again"
    )


def to_convert(problem: bytes, rest: list[Any], keys: Keys, is_list: bool) -> FrontierError:
    """Return the error for a conversion that must not begin.

    :param problem: the problem, as ``lua/scripts/convert/begin.lua`` names it.
    :param rest: the rest of its reply.
    :param is_list: whether the queue class needs a list.
    """
    spider = keys.spider
    if problem == b"type":
        return FrontierError(
            f"Key {keys.requests!r} in Redis is a {rest[0].decode()}, but this queue class needs a "
            f"{'list' if is_list else 'zset'}. Set SCHEDULER_QUEUE_CLASS to the class that filled the queue"
        )
    if problem == b"alive":
        them = "it" if rest[0] == 1 else "them"
        return FrontierError(f"{_running(rest[0])} for spider {spider!r}. Stop {them} first")
    if problem == b"held":
        return FrontierError(
            f"Workers that died still hold requests of spider {spider!r}. Start a worker with the settings "
            "that they had, so that it puts these requests back into the queue. Then stop it, and try again"
        )
    if problem == b"exporting":
        return FrontierError(
            f"The frontier of spider {spider!r} is being exported. Try again when the export has ended"
        )
    if problem == b"importing":
        return FrontierError(_importing(spider))
    source, target = map(text_of, rest)
    return FrontierError(
        f"A conversion of spider {spider!r} from {bounded(source)!r} to {bounded(target)!r} was "
        f"interrupted, as {keys.converting!r} says. Complete it first. "
        f"{how_to_convert(spider, source, target if target in HARMLESS or names_pickle(target) else '')}"
    )


def _importing(spider: str) -> str:
    return (
        f"A frontier is being imported for spider {spider!r}, or an import was interrupted. Wait until it "
        f"ends, or remove the imported data: {frontier_command('clear', spider, '--force')}"
    )


def _running(workers: int) -> str:
    return f"{workers} {'worker is' if workers == 1 else 'workers are'} running"
