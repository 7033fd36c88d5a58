"""Read and check one setting at a time. A value may also be text, as from the command line."""

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
from ..servers.addresses import show_webhook
from .lists import as_list
from .names import as_names
from .pools import Pool, pools_in
from .slot_rules import SlotRule, slot_rules
from .templates import check_job, is_template, templates_of_seeds

_JOB, _TOKENS = re.compile(r"[^\s:{}%]+"), re.compile(r"[a-z0-9]{1,64}(,[a-z0-9]{1,64})*")


class SettingReader:
    """Reads one setting at a time.

    Each method raises ``SettingError`` if the value is not valid. The message shows the value, unless it may
    hold a secret.

    :param settings: Scrapy's settings.
    """

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def value(self, name: str, default: Any) -> Any:
        """Return a setting of any type, which is checked when it is used."""
        return self._settings.get(name) or default

    def text(self, name: str, default: str) -> str:
        """Return a setting as text."""
        return str(self.value(name, default))

    def slots(self, name: str, default: tuple[SlotRule, ...]) -> tuple[SlotRule, ...]:
        """Return a setting that must be a mapping of the limits of slots."""
        return slot_rules(name, self._settings.get(name)) or default

    def pools(self, name: str, default: tuple[Pool, ...]) -> tuple[Pool, ...]:
        """Return a setting that must be a mapping of pools."""
        return pools_in(name, self._settings.get(name)) or default

    def boolean(self, name: str, default: bool) -> bool:
        """Return a setting that must be True or False."""
        try:
            return bool(self._settings.getbool(name, default))
        except (ValueError, TypeError):
            raise self._refusal(name, "True or False") from None

    def number(self, name: str, default: float, least: float, most: float = math.inf) -> float:
        """Return a setting that must be a number from *least* to *most*."""
        return self._number(name, default, least, most, f"a number {_range(least, most)}")

    def whole(self, name: str, default: int, least: int, most: float = math.inf) -> int:
        """Return a setting that must be an integer from *least* to *most*."""
        expected = f"an integer {_range(least, most)}"
        number = self._number(name, default, least, most, expected)
        if number != int(number):
            raise self._refusal(name, expected)
        return int(number)

    def _number(self, name: str, default: float, least: float, most: float, expected: str) -> float:
        value = self._settings.get(name)
        if value is None:
            return default
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not least <= number <= most or math.isinf(number):
            raise self._refusal(name, expected)
        return number

    def concurrency(self, name: str, default: int) -> int:
        """Return a setting that Scrapy checks."""
        return int(self._settings.getint(name, default))

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """Return a setting that must be one of the values *allowed*."""
        value = self._settings.get(name) or default
        if value not in allowed:
            raise self._refusal(name, " or ".join(map(repr, allowed)))
        return str(value)

    def choices(self, name: str, default: frozenset[str], allowed: tuple[str, ...]) -> frozenset[str]:
        """Return a setting that must be a list of any of the values *allowed*."""
        value = self._settings.get(name)
        if value is None:
            return default
        try:
            values = frozenset(as_list(value))
        except TypeError:
            values = frozenset({None})
        if not values.issubset(allowed):
            raise self._refusal(name, f"a list of any of {', '.join(map(repr, allowed))}")
        return values

    def names(self, name: str, default: frozenset[str]) -> frozenset[str]:
        """Return a setting that must be a list of names."""
        value = self._settings.get(name)
        if value is None:
            return default
        try:
            return as_names(as_list(value))
        except (TypeError, ValueError):
            raise self._refusal(name, "a list of names, such as ['browser']") from None

    def statuses(self, name: str, default: frozenset[int]) -> frozenset[int]:
        """Return a setting that must be a list of HTTP status codes."""
        value = self._settings.get(name)
        if value is None:
            return default
        try:
            codes = frozenset(int(code) for code in as_list(value))
        except (TypeError, ValueError):
            codes = frozenset({0})
        if not all(100 <= code <= 599 for code in codes):
            raise self._refusal(name, "a list of HTTP status codes, such as [429, 503]")
        return codes

    def tokens(self, name: str, default: str) -> str:
        """Return a setting that must be tokens of this package, with commas between them, or empty."""
        value = self._settings.get(name) or default
        if not (isinstance(value, str) and (not value or _TOKENS.fullmatch(value))):
            raise self._refusal(name, "tokens of letters and digits, as scrapy frontier crawl makes them")
        return value

    def feeds(self, name: str, default: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return a setting that must be a mapping from URIs of feeds to tokens of this package, or empty."""
        value = self._settings.get(name)
        if not value:
            return default
        try:
            pairs = tuple(self._settings.getdict(name).items())
        except (TypeError, ValueError):
            pairs = ((None, None),)
        if not all(isinstance(text, str) for pair in pairs for text in pair):
            raise self._refusal(name, "a mapping from URIs to tokens, as scrapy frontier crawl makes it")
        return pairs

    def template(self, name: str, default: str) -> str:
        """Return a setting that must be the template of a key."""
        value = self._settings.get(name) or default
        if not is_template(value):
            raise self._refusal(
                name, f"a key such as {default!r}, in which %(spider)s stands for the spider's name"
            )
        check_job(name, value, self._job())
        return str(value)

    def optional_template(self, name: str, default: str, example: str) -> str:
        """Return a setting that must be the template of a key, or empty.

        :param example: a valid value, for the error.
        """
        return self.template(name, example) if self._settings.get(name) else default

    def templates(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a setting that must be the template of a key, or a list of templates."""
        return templates_of_seeds(name, self._settings.get(name) or default, self._job())

    def job(self, name: str, default: str) -> str:
        """Return the job: the setting, or Scrapyd's environment variable ``SCRAPY_JOB``."""
        job = self._settings.get(name) or os.environ.get("SCRAPY_JOB")
        if job and not _JOB.fullmatch(str(job)):
            raise SettingError(f"{name} must be a name without spaces, colons, %, {{ and }}, not {job!r}")
        return str(job or default)

    def _job(self) -> str:
        return self.job("FRONTIER_JOB", "")

    def function(self, name: str, default: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        """Return the function that a setting names."""
        value = self._settings.get(name)
        if not value:
            return default
        try:
            function: Callable[[Any], Any] = load_object(value)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise SettingError(
                f"{name} must be a function or its import path, not {value!r}. It cannot be loaded: {error}"
            ) from None
        if not callable(function):
            raise self._refusal(name, "a function or its import path")
        return function

    def url(self, name: str, default: str) -> str:
        """Return a setting that must be an HTTP URL, or empty. An error shows only its scheme."""
        value = self.text(name, default)
        try:
            parts = urlsplit(value)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            # No header can carry other characters; and urllib takes a login for a part of the host name.
            is_one = is_one and value.isascii() and value.isprintable() and not set(value) & {" ", "@"}
        except ValueError:
            is_one = False
        if value and not is_one:
            raise SettingError(
                f"{name} must be a URL such as 'https://example.com/hook', without a login and without "
                f"spaces, not {show_webhook(value)!r}"
            )
        return value

    def secret(self, name: str, default: str) -> str:
        """Return a setting that no error shows. After ``whsec_`` it must be in base64."""
        value = self.text(name, default)
        try:
            is_one = bool(base64.b64decode(value.removeprefix("whsec_"), validate=True))
        except ValueError:
            is_one = False
        if value.startswith("whsec_") and not is_one:
            raise SettingError(f"{name} must be valid base64 after 'whsec_'. Its value is not shown here")
        return value

    def encoding(self, name: str, default: str) -> str:
        """Return a setting that must be the name of an encoding."""
        value = self._settings.get(name) or default
        try:
            "".encode(value)
        except (LookupError, TypeError, ValueError):
            raise self._refusal(name, "the name of an encoding, such as 'utf-8'") from None
        return str(value)

    def _refusal(self, name: str, expected: str) -> SettingError:
        return SettingError(f"{name} must be {expected}, not {self._settings.get(name)!r}")


def _range(least: float, most: float) -> str:
    return f"≥ {least}" if math.isinf(most) else f"from {least} to {most}"
