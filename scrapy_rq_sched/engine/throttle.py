"""Scrapy's AutoThrottle: what it is set to, and how to take the delays from it."""

from __future__ import annotations

from typing import Any, NamedTuple

from scrapy.extensions.throttle import AutoThrottle


class ThrottleSettings(NamedTuple):
    """The settings of AutoThrottle; times in seconds.

    :param target: how many requests of a slot shall be under way at a time.
    :param start: the first delay of a slot, :param least: the shortest delay, and :param most: the longest.
    """

    target: float
    start: float
    least: float
    most: float


def _adjust_nothing(slot: Any, latency: float, response: Any) -> None:
    pass


def take_over(crawler: Any, least: float) -> ThrottleSettings | None:
    """Keep AutoThrottle from adjusting delays, because the fleet does so, and return what it is set to.

    :param least: the delay of Scrapy's settings.
    :return: None if it is off, is a subclass with a formula of its own, or is that of a Scrapy that has no
        such method.
    """
    extensions = [one for one in crawler.extensions.middlewares if isinstance(one, AutoThrottle)]
    formula = getattr(AutoThrottle, "_adjust_delay", None)
    if not extensions or formula is None or any(type(one)._adjust_delay is not formula for one in extensions):
        return None
    for one in extensions:
        one._adjust_delay = _adjust_nothing  # type: ignore[method-assign]
    settings = crawler.settings
    return ThrottleSettings(
        settings.getfloat("AUTOTHROTTLE_TARGET_CONCURRENCY"),
        max(least, settings.getfloat("AUTOTHROTTLE_START_DELAY")),
        least,
        settings.getfloat("AUTOTHROTTLE_MAX_DELAY"),
    )
