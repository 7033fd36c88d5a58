"""The scheduler and the frontier that settings name."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from scrapy.crawler import Crawler

from ..codec.values import class_path
from ..errors import SettingError
from ..frontier.client import Frontier
from ..frontier.close_limits import CloseLimits
from ..frontier.custom_queue import CustomQueueFrontier
from ..frontier.fleet_config import FleetConfig
from ..keys import Keys
from ..serializers import serializer_name
from ..settings import FrontierSettings
from .dupefilter import filters_in_exchange, fingerprints_by
from .queue import is_custom


def load_scheduler(cls: Any, crawler: Crawler, server: Any, settings: FrontierSettings) -> Any:
    """Return a scheduler of *cls*, the class that ``SCHEDULER`` names.

    :raises SettingError: if the class cannot be instantiated.
    """
    try:
        return cls(crawler, server, settings)
    except TypeError as error:
        raise SettingError(
            f"{class_path(cls)} cannot be instantiated: {error}. The constructor of a scheduler must accept "
            "crawler, server, settings and refusal, as that of scrapy_rq_sched.Scheduler does. What "
            "scrapy-redis's constructor accepts are attributes here, to be set before open()"
        ) from error


def not_opened(scheduler: Any) -> SettingError:
    """Return the error of a scheduler whose ``open`` has been overridden without a call of the original."""
    cls = next(cls for cls in type(scheduler).__mro__ if "open" in vars(cls))
    return SettingError(
        f"{class_path(cls)}.open() does not call super().open(spider), so this worker has not joined the "
        "frontier. Call it there, or set SCHEDULER to 'scrapy_rq_sched.Scheduler'"
    )


def make_frontier(
    queue: Any, dupefilter: Any, server: Any, keys: Keys, worker: str, settings: FrontierSettings
) -> Frontier:
    """Return the frontier with the waiting requests of *queue* and the fingerprints of *dupefilter*."""
    kind = dupefilter.kind if filters_in_exchange(dupefilter) else "custom"
    same = {
        one.name: getattr(settings, one.name) for one in fields(FleetConfig) if hasattr(settings, one.name)
    }
    others = {"policy": settings.max_waiting_policy, "close": CloseLimits.of(settings)}
    config = FleetConfig(**same | others | ({} if settings.by_slot else {"order": "slots"}))
    if not is_custom(queue):
        if settings.order == "priority" and not queue.has_priorities:
            raise SettingError(
                f"FRONTIER_ORDER is 'priority', but SCHEDULER_QUEUE_CLASS is {type(queue).__name__}, which "
                "ignores priorities. Set SCHEDULER_QUEUE_CLASS to scrapy_rq_sched.PriorityQueue, or "
                "FRONTIER_ORDER to 'slots'"
            )
        return Frontier(server, keys, worker, queue.discipline, config, kind)
    if settings.max_waiting and settings.max_waiting_policy == "drop-lowest":
        raise SettingError(
            "FRONTIER_MAX_WAITING_POLICY is 'drop-lowest', which is not possible with SCHEDULER_QUEUE_CLASS "
            f"{type(queue).__name__}: it has its own push or pop. Set FRONTIER_MAX_WAITING_POLICY to 'slow'"
        )
    return CustomQueueFrontier(queue, server, keys, worker, config, kind)


def made_with(
    queue: Any, dupefilter: Any, crawler: Crawler, project: str = "", items: str = ""
) -> dict[str, str]:
    """Return the properties that all workers of a frontier must have in common.

    :param project: ``FRONTIER_PROJECT``: replaces the names of the bot and the spider's class, if these may
        differ.
    :param items: how and at which key items are stored; empty if they are not.
    """
    return {
        "FRONTIER_PROJECT": project or project_of(crawler.settings, crawler.spidercls),
        "SCHEDULER_QUEUE_CLASS": class_path(type(queue)),
        "SCHEDULER_SERIALIZER": serializer_name(getattr(queue, "serializer", None)),
        "REQUEST_FINGERPRINTER_CLASS": fingerprints_by(dupefilter, crawler),
        "FRONTIER_ITEMS": items,
    }


#: The settings that the history of crawls shows, if they are not Scrapy's own values.
SHOWN_SETTINGS = (
    *("CONCURRENT_REQUESTS", "CONCURRENT_REQUESTS_PER_DOMAIN", "DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT"),
    *("AUTOTHROTTLE_ENABLED", "ROBOTSTXT_OBEY", "DEPTH_LIMIT", "RETRY_TIMES", "HTTPCACHE_ENABLED"),
    *("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_ITEMCOUNT", "CLOSESPIDER_TIMEOUT", "FRONTIER_MAX_PAGES"),
    *("FRONTIER_MAX_WORKERS", "FRONTIER_LEASE_TIMEOUT", "FRONTIER_FLEET_LIMITS", "FRONTIER_SET_ASIDE"),
    *("FRONTIER_JOB", "SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START"),
)


def shown_settings(settings: Any) -> str:
    """Return the settings that matter to compare two crawls, as a JSON object."""
    return json.dumps(
        {name: settings.get(name) for name in SHOWN_SETTINGS if settings.getpriority(name)}, default=str
    )


def items_at(settings: FrontierSettings, keys: Keys) -> str:
    """Return how and at which key items are stored with the release of their page; empty if they are not."""
    return f"{settings.items} {keys.items}" if settings.items else ""


def project_of(settings: Any, spidercls: type) -> str:
    """Return the default of ``FRONTIER_PROJECT``: the name of the bot and the class of the spider."""
    return f"{settings.get('BOT_NAME')}/{class_path(spidercls)}"
