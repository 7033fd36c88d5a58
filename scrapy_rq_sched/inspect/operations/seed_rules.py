"""Check the seeds of a spider, and add a priority and meta to those without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scrapy import Request, Spider

from ...codec.seeds import request_from_seed
from ...codec.stand_in import spider_for
from ...errors import InspectionError, SeedError, UnknownCodeError
from ...spiders import RedisMixin
from ..view import View
from .seed_lines import LONGEST


class SeedRules:
    """The rules for seeds of *view*'s spider, the same as those of its workers.

    :param priority: the priority of seeds that have none; None: add no priority.
    :param meta: values that are added to the meta of seeds that lack them.
    :raises InspectionError: if seeds of this spider cannot have them.
    """

    def __init__(
        self, view: View, priority: int | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        self._spider_name = view.spider
        self._form_data = view.settings.seed_form_data
        self._most_bytes = view.settings.max_seed_bytes
        self._priority = priority
        self._meta = dict(meta or {})
        make = getattr(view.spidercls, "make_request_from_data", None)
        #: Whether the spider makes requests of seeds with its own method: then only a worker can check them.
        self.are_its_own = make not in (None, RedisMixin.make_request_from_data)
        #: The encoding of the seeds.
        self.encoding: str = (
            make and getattr(view.spidercls, "redis_encoding", None)
        ) or view.settings.encoding
        self._spider = _without_init(view)
        self._check_given()

    def prepare(self, text: str | None) -> bytes:
        """Return the seed that is pushed for the line *text*.

        :raises SeedError: if it cannot be written in the encoding of the seeds, or is too large.
        """
        if text is None:
            raise SeedError(f"longer than {LONGEST:,} characters")
        if self._priority is not None or self._meta:
            text = self._with_given(text)
        try:
            seed = text.encode(self.encoding, "surrogateescape")
        except UnicodeError as error:
            raise SeedError(f"not text in {self.encoding}: {error}") from error
        if len(seed) > self._most_bytes:
            raise SeedError(f"it has {len(seed):,} bytes; FRONTIER_MAX_SEED_BYTES is {self._most_bytes:,}")
        return seed

    def request(self, seed: bytes) -> Request:
        """Return the request that a worker makes of *seed*.

        :raises SeedError: if the seed is not valid, with the reason.
        :raises UnknownCodeError: if the spider lacks a callback that the seed names.
        """
        spider = self._spider or spider_for(_parsed(seed, self.encoding), self._spider_name)
        return request_from_seed(seed, spider, self.encoding, self._form_data)

    def priority(self, seed: bytes) -> int:
        """Return the priority of the request that a worker makes of the valid *seed*."""
        if self.are_its_own or self._form_data:
            return 0
        return int(_parsed(seed, self.encoding).get("priority", 0))

    def _with_given(self, text: str) -> str:
        try:
            text.encode(self.encoding)
            fields = json.loads(text) if text.startswith("{") else {"url": text}
        except (ValueError, RecursionError):
            return text  # the check reports the reason
        meta = fields.get("meta", {})
        if self._meta and isinstance(meta, dict):
            fields["meta"] = {**self._meta, **meta}
        if self._priority is not None:
            fields.setdefault("priority", self._priority)
        return json.dumps(fields)

    def _check_given(self) -> None:
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise InspectionError(
                f"redis_encoding of spider {self._spider_name!r} must be the name of an encoding, such as "
                f"'utf-8', not {self.encoding!r}"
            ) from None
        if self._priority is None and not self._meta:
            return
        if self.are_its_own:
            raise InspectionError(
                f"A priority or meta cannot be added: spider {self._spider_name!r} reads its seeds with its "
                "own make_request_from_data. Leave the priority and the meta out"
            )
        if self._priority is not None and self._form_data:
            raise InspectionError(
                "With FRONTIER_SEED_FORM_DATA a seed has no priority: it would become a field of the form. "
                "Leave the priority out"
            )
        try:
            self.request(self.prepare("http://localhost/"))
        except (SeedError, UnknownCodeError) as error:
            raise InspectionError(f"Seeds cannot have this priority or meta: {error}") from error


def _without_init(view: View) -> Spider | None:
    """Return the spider without running its constructor; None if its class is not in this project."""
    if view.spidercls is None:
        return None
    spider = view.spidercls.__new__(view.spidercls)
    spider.name = view.spider
    return spider


def _parsed(seed: bytes, encoding: str) -> dict[str, Any]:
    """Return the fields of *seed* if it is a JSON object, else an empty dict."""
    try:
        text = seed.decode(encoding).strip()
        return dict(json.loads(text)) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
