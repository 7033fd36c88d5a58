"""Warnings about settings that do not have the effect they seem to have: for crawls and for the doctor."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from scrapy.settings import BaseSettings, default_settings

from .. import connection
from ..settings import FrontierSettings

logger = logging.getLogger(__name__)

#: The prefixes of this package's settings.
PREFIXES = ("FRONTIER_", "REDIS_", "SCHEDULER_", "MAX_IDLE_", "STATS_")
#: scrapy-redis's settings that this package does not read: see ``docs/migrating.md``.
NOT_READ = frozenset(("REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET"))
#: Settings that only the dashboard reads.
OF_THE_DASHBOARD = frozenset(("FRONTIER_DASHBOARD_PASSWORD",))
#: The minimum similarity of a misspelt name to the right name; and that of the parts after their common
#: prefix, because the prefix makes all names similar.
ALIKE, REST_ALIKE = 0.88, 0.72


class Remark(NamedTuple):
    """A setting without effect, and the advice."""

    text: str
    advice: str


def log(found: Iterable[Remark]) -> None:
    """Log each remark in one line."""
    for text, advice in found:
        logger.warning("%s. %s", text, advice)


def remarks(settings: Any) -> Iterator[Remark]:
    """Yield the remarks on Scrapy's *settings*, without those on feeds: see ``feeds.py``."""
    for name, meant in misspelt(settings):
        yield Remark(f"Unknown setting {name}: it has no effect", f"If you mean {meant}, correct the name")
    if settings.get("JOBDIR"):
        jobdir = str(settings.get("JOBDIR"))
        yield Remark(
            f"JOBDIR is {jobdir!r}, but this scheduler stores no requests or fingerprints there",
            "A stopped crawl resumes from its frontier in Redis. Remove JOBDIR, unless another component "
            "needs it, such as spider.state",
        )


class _Asked(BaseSettings):
    """Settings that note the names that are read."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        # A fixed value, so that the environment does not matter.
        super().__init__({"FRONTIER_JOB": "any"})

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of *name*, and note the name."""
        self.names.add(name)
        return super().get(name, default)


@cache
def known_settings() -> frozenset[str]:
    """Return the names of all settings that this package reads, including those of scrapy-redis."""
    asked = _Asked()
    FrontierSettings.from_settings(asked)
    connection.get_redis_from_settings(asked).close()
    read = frozenset(name for name in asked.names if not hasattr(default_settings, name))
    return read | OF_THE_DASHBOARD


def misspelt(settings: Any) -> Iterator[tuple[str, str]]:
    """Yield each unknown setting that resembles a known one, with the known one.

    Other unknown settings may belong to another package.
    """
    scrapys = {name for name in vars(default_settings) if name.startswith(PREFIXES)}
    known = known_settings() | scrapys
    for name in sorted(map(str, settings)):
        is_known = name in known or name in NOT_READ or hasattr(default_settings, name)
        if is_known or not settings.getpriority(name):
            continue
        meant = _closest(name.upper(), known)
        if meant:
            yield name, meant


def _closest(name: str, known: Collection[str]) -> str:
    """Return the name in *known* that *name* seems to mean, or an empty string."""
    alike = get_close_matches(name, known, 1, ALIKE)
    if alike:
        return alike[0]
    prefix = next(filter(name.startswith, PREFIXES), "")
    rest = name.removeprefix(prefix)
    if not (prefix and rest):
        return ""
    rests = {one.removeprefix(prefix): one for one in known if one.startswith(prefix)}
    alike = get_close_matches(rest, rests, 1, REST_ALIKE)
    if alike:
        return rests[alike[0]]
    # A part of one known name, or the same name with another prefix.
    parts = [one for r, one in rests.items() if r.startswith(f"{rest}_") or r.endswith(f"_{rest}")]
    parts += [one for one in known if one in (f"{other}{rest}" for other in PREFIXES)]
    return parts[0] if len(parts) == 1 else ""
