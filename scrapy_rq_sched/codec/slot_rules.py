"""Read ``FRONTIER_SLOTS``: limits for slots, by name or by a pattern of names."""

from __future__ import annotations

import fnmatch
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from ..errors import SettingError
from .slot_limits import SlotLimits
from .slots import slot_name

#: The longest delay: a day, in seconds.
LONGEST_DELAY = 86_400.0
#: The fields of a rule.
FIELDS = ("delay", "jitter", "concurrency", "rate", "max_pages")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class SlotRule:
    """Limits for the slots that match a pattern. None means the limit of Scrapy's settings.

    :param pattern: a slot's name, in which ``*`` stands for any text and ``?`` for any character.
    :param delay: seconds between two requests.
    :param jitter: the random share of the delay to add or subtract, from 0 to 1.
    :param concurrency: the maximum number of downloads at a time; 0 for no limit.
    :param max_pages: the maximum number of pages in a crawl; 0 for no limit.
    """

    pattern: str
    delay: float | None = None
    jitter: float | None = None
    concurrency: int | None = None
    max_pages: int | None = None

    @property
    def is_glob(self) -> bool:
        """Whether the pattern may fit several slots."""
        return any(char in self.pattern for char in "*?[")

    @property
    def names(self) -> set[str]:
        """The names, in lower case, of the slots that a pattern without wildcards fits."""
        pattern = self.pattern.lower()
        return {pattern, slot_name(pattern), slot_name(pattern).lower()}

    def fits(self, slot: str) -> bool:
        """Return whether the rule applies to *slot*, by its name or by Scrapy's name for it, in any case."""
        pattern = self.pattern.lower()
        names = (slot.lower(), unquote(slot).lower())
        return any(fnmatch.fnmatchcase(name, pattern) for name in names)

    def applied_to(self, limits: SlotLimits) -> SlotLimits:
        """Return *limits*, replaced by the limits of this rule where it has any."""
        return SlotLimits(
            limits.delay if self.delay is None else self.delay,
            limits.jitter if self.jitter is None else self.jitter,
            limits.concurrency if self.concurrency is None else self.concurrency,
        )


def slot_rules(name: str, value: Any) -> tuple[SlotRule, ...]:
    """Return the rules in *value*, in their order. The first rule that matches a slot applies to it.

    :param name: the setting's name, for the error.
    :param value: a mapping from patterns to mappings, or the JSON text of one; None for no rules.
    :raises SettingError: if a rule is not valid. The message names the rule, and tells what it must be.
    """
    if not value:
        return ()
    try:
        rules = json.loads(value) if isinstance(value, (str, bytes)) else value
    except ValueError as error:
        raise SettingError(f"{name} is {value!r}, which is not valid JSON: {error}") from None
    if not isinstance(rules, Mapping):
        raise SettingError(
            f"{name} must be a mapping such as {{'*.example.com': {{'delay': 2}}}}, not {value!r}"
        )
    return tuple(slot_rule(f"{name}[{pattern!r}]", pattern, limits) for pattern, limits in rules.items())


def slot_rule(name: str, pattern: Any, limits: Any) -> SlotRule:
    """Return the rule for *pattern*.

    :param name: the name of the rule in an error.
    :param limits: the mapping with the limits of the rule.
    :raises SettingError: if the rule is not valid.
    """
    if not isinstance(pattern, str) or not pattern.strip():
        raise SettingError(f"{name}: the name of a slot must be a text, and must not be empty")
    if not isinstance(limits, Mapping):
        raise SettingError(f"{name} must be a mapping such as {{'delay': 2}}, not {limits!r}")
    unknown = [str(field) for field in limits if field not in FIELDS]
    if unknown:
        raise SettingError(
            f"{name} has unknown fields: {', '.join(unknown)}. The known fields are {', '.join(FIELDS)}"
        )
    delay = _number(name, limits, "delay", LONGEST_DELAY)
    rate = _delay_of_rate(name, limits["rate"]) if "rate" in limits else None
    jitter = _number(name, limits, "jitter", 1)
    concurrency = _whole(name, limits, "concurrency", 1_000_000)
    max_pages = _whole(name, limits, "max_pages", 2**53)
    delays = [one for one in (delay, rate) if one is not None]
    return SlotRule(pattern.strip(), max(delays, default=None), jitter, concurrency, max_pages)


def _whole(name: str, limits: Mapping[str, Any], field: str, most: float) -> int | None:
    number = _number(name, limits, field, most)
    if number is not None and number != int(number):
        raise SettingError(f"{name}: {field} must be an integer ≥ 0, not {number!r}")
    return None if number is None else int(number)


def _number(name: str, limits: Mapping[str, Any], field: str, most: float) -> float | None:
    if field not in limits:
        return None
    try:
        number = math.nan if isinstance(limits[field], bool) else float(limits[field])
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= most:
        raise SettingError(f"{name}: {field} must be a number from 0 to {most:g}, not {limits[field]!r}")
    return number


def _delay_of_rate(name: str, rate: Any) -> float:
    parts = _RATE.fullmatch(str(rate).replace(" ", ""))
    if parts is None or float(parts[1]) == 0 or _SECONDS[parts[2]] / float(parts[1]) > LONGEST_DELAY:
        raise SettingError(
            f"{name}: rate must be a number of requests per second, minute, hour or day, such as '60/m', not "
            f"{rate!r}"
        )
    return _SECONDS[parts[2]] / float(parts[1])
