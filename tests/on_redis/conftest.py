"""Fixtures of several tests with a real Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus


@pytest.fixture
def slots(redis_url: str) -> Callable[[], Slots]:
    return lambda: Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))


@pytest.fixture
def status(slots: Callable[[], Slots]) -> Callable[[], SlotStatus]:
    return lambda: next(slots().read(["a"]))
