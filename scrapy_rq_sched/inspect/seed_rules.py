"""What may be a seed of a spider, and what seeds are given that do not say so themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scrapy import Request, Spider

from ..codec.seeds import request_from_seed
from ..codec.stand_in import spider_for
from ..errors import InspectionError, SeedError, UnknownCodeError
from ..spiders import RedisMixin
from .seed_lines import LONGEST
from .view import View


class SeedRules:
    """What may be a seed of *view*'s spider: the same as its workers take.

    :param priority: what seeds get that have none; None: nothing.
    :param meta: what is put into their meta, unless they have it there.
    :raises InspectionError: if seeds of this spider cannot be given that.
    """

    def __init__(
        self, view: View, priority: int | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        self._spider_name = view.spider
        self._form_data = view.settings.seed_form_data
        self._priority = priority
        self._meta = dict(meta or {})
        make = getattr(view.spidercls, "make_request_from_data", None)
        #: Whether the spider makes requests of its seeds in a way of its own; nobody else can tell good ones.
        self.are_its_own = make not in (None, RedisMixin.make_request_from_data)
        #: The encoding of the seeds.
        self.encoding: str = (
            make and getattr(view.spidercls, "redis_encoding", None)
        ) or view.settings.encoding
        self._spider = _without_init(view)
        self._check_given()

    def prepare(self, text: str | None) -> bytes:
        """Return what is pushed for the line *text*.

        :raises SeedError: if that cannot be written in the encoding of the seeds.
        """
        if text is None:
            raise SeedError(f"longer than {LONGEST:,} characters")
        if self._priority is not None or self._meta:
            text = self._with_given(text)
        try:
            return text.encode(self.encoding, "surrogateescape")
        except UnicodeError as error:
            raise SeedError(f"not text in {self.encoding}: {error}") from error

    def request(self, seed: bytes) -> Request:
        """Return the request that a worker makes of *seed*.

        :raises SeedError: saying what is wrong with it.
        :raises UnknownCodeError: if the spider lacks a callback that it names.
        """
        spider = self._spider or spider_for(_parsed(seed, self.encoding), self._spider_name)
        return request_from_seed(seed, spider, self.encoding, self._form_data)

    def priority(self, seed: bytes) -> int:
        """Return that of the request which a worker makes of *seed*, a good one."""
        if self.are_its_own or self._form_data:
            return 0
        return int(_parsed(seed, self.encoding).get("priority", 0))

    def _with_given(self, text: str) -> str:
        try:
            text.encode(self.encoding)
            fields = json.loads(text) if text.startswith("{") else {"url": text}
        except (ValueError, RecursionError):
            return text  # what is wrong with it is said where it is checked
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
                f"redis_encoding of spider {self._spider_name!r} is {self.encoding!r}; it may be the name of "
                "an encoding, such as 'utf-8'"
            ) from None
        if self._priority is None and not self._meta:
            return
        if self.are_its_own:
            raise InspectionError(
                f"Spider {self._spider_name!r} makes requests of its seeds in a way of its own "
                "(make_request_from_data), so nobody else can add a priority or meta to them. Leave it away"
            )
        if self._priority is not None and self._form_data:
            raise InspectionError(
                "With FRONTIER_SEED_FORM_DATA a seed has no priority: it would be a field of its form. Leave "
                "the priority away"
            )
        try:
            self.request(self.prepare("http://localhost/"))
        except (SeedError, UnknownCodeError) as error:
            raise InspectionError(f"Seeds cannot be given this priority or meta: {error}") from error


def _without_init(view: View) -> Spider | None:
    """Return the spider, not made as in a crawl: its constructor may do anything. None if it is not here."""
    if view.spidercls is None:
        return None
    spider = view.spidercls.__new__(view.spidercls)
    spider.name = view.spider
    return spider


def _parsed(seed: bytes, encoding: str) -> dict[str, Any]:
    """Return what *seed* has, if it is a JSON object."""
    try:
        text = seed.decode(encoding).strip()
        return dict(json.loads(text)) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
