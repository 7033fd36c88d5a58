"""How one setting is read: as text or as what it is, and refused in one line if it is something else."""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from scrapy.utils.misc import load_object

from ..errors import SettingError
from .templates import check_job, is_template, templates_of_seeds

_JOB = re.compile(r"[^\s:{}%]+")


class SettingReader:
    """Reads one setting at a time.

    Each method raises ``SettingError`` if the setting has a value that it must not have.

    :param settings: Scrapy's.
    """

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return a setting that is True or False."""
        try:
            return bool(self._settings.getbool(name, default))
        except (ValueError, TypeError):
            raise self._refusal(name, "True or False") from None

    def number(self, name: str, default: float, least: float, most: float = math.inf) -> float:
        """Return a setting that is a number from *least* to *most*."""
        value = self._settings.get(name)
        if value is None:
            return default
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not least <= number <= most or math.isinf(number):
            raise self._refusal(name, f"a number of {_range(least, most)}")
        return number

    def whole(self, name: str, default: int, least: int, most: float = math.inf) -> int:
        """Return a setting that is a whole number from *least* to *most*."""
        number = self.number(name, default, least, most)
        if number != int(number):
            raise self._refusal(name, f"a whole number of {_range(least, most)}")
        return int(number)

    def concurrency(self, default: int, prefetch: int) -> int:
        """Return how many requests a worker may be at: if Scrapy has no limit, as many as at hand."""
        concurrency = int(self._settings.getint("CONCURRENT_REQUESTS", default))
        # 0 is no limit to Scrapy. What is begun is fetched again when a worker is killed, so it has one here:
        # as many as a worker may have at hand.
        return concurrency if concurrency > 0 else self.whole("FRONTIER_PREFETCH", prefetch, 1, 1000)

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """Return a setting that is one of those *allowed*."""
        value = self._settings.get(name) or default
        if value not in allowed:
            raise self._refusal(name, " or ".join(map(repr, allowed)))
        return str(value)

    def choices(
        self, name: str, allowed: tuple[str, ...], default: frozenset[str] = frozenset()
    ) -> frozenset[str]:
        """Return a setting that is a list of any of those *allowed*."""
        if self._settings.get(name) is None:
            return default
        try:
            values = frozenset(self._settings.getlist(name))
        except TypeError:
            values = frozenset({None})
        if not values.issubset(allowed):
            raise self._refusal(name, f"a list of any of {', '.join(map(repr, allowed))}")
        return values

    def template(self, name: str, default: str) -> str:
        """Return a setting that is a key."""
        value = self._settings.get(name) or default
        if not is_template(value):
            raise self._refusal(name, f"a key such as {default!r}, with %(spider)s for the spider's name")
        check_job(name, value, self.job())
        return str(value)

    def optional_template(self, name: str) -> str:
        """Return a setting that is a key, or empty."""
        return self.template(name, "") if self._settings.get(name) else ""

    def templates(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a setting that is a key, or a list of keys."""
        return templates_of_seeds(name, self._settings.get(name) or default, self.job())

    def job(self) -> str:
        """Return the job: ``FRONTIER_JOB``, or what Scrapyd has put into the environment."""
        job = self._settings.get("FRONTIER_JOB") or os.environ.get("SCRAPY_JOB")
        if job and not _JOB.fullmatch(str(job)):
            raise SettingError(
                f"FRONTIER_JOB is {job!r}; it may be a name with no space, colon, %, {{ or }} in it"
            )
        return str(job or "")

    def function(self, name: str) -> Callable[[Any], Any] | None:
        """Return the function that a setting names; None if it is not set."""
        value = self._settings.get(name)
        if not value:
            return None
        try:
            function: Callable[[Any], Any] = load_object(value)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise SettingError(f"{name} is {value!r}, which cannot be loaded: {error}") from None
        if not callable(function):
            raise self._refusal(name, "a function, or the path of one")
        return function

    def url(self, name: str) -> str:
        """Return a setting that is the URL of a web server, or empty; an error does not show it."""
        value = str(self._settings.get(name) or "")
        try:
            parts = urlsplit(value)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            # What no header can carry, and a login: urllib would look for a host of that name.
            is_one = is_one and value.isascii() and value.isprintable() and not set(value) & {" ", "@"}
        except ValueError:
            is_one = False
        if value and not is_one:
            raise SettingError(
                f"{name} is no URL such as 'https://example.com/hook': it begins with {value[:8]!r}"
            )
        return value

    def secret(self, name: str) -> str:
        """Return a setting that nobody may see, and that is in base64 if it begins with ``whsec_``."""
        value = str(self._settings.get(name) or "")
        try:
            is_one = bool(base64.b64decode(value.removeprefix("whsec_"), validate=True))
        except ValueError:
            is_one = False
        if value.startswith("whsec_") and not is_one:
            raise SettingError(f"{name} begins with 'whsec_', and what follows is not base64")
        return value

    def encoding(self, name: str, default: str) -> str:
        """Return a setting that is the name of an encoding."""
        value = self._settings.get(name) or default
        try:
            "".encode(value)
        except (LookupError, TypeError, ValueError):
            raise self._refusal(name, "the name of an encoding, such as 'utf-8'") from None
        return str(value)

    def _refusal(self, name: str, allowed: str) -> SettingError:
        return SettingError(f"{name} is {self._settings.get(name)!r}; it may be {allowed}")


def _range(least: float, most: float) -> str:
    return f"{least} or more" if math.isinf(most) else f"{least} to {most}"
