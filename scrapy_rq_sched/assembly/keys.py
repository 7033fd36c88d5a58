"""The keys that settings name."""

from __future__ import annotations

from typing import Any

from .. import connection
from ..codec.templates import templates_of_seeds
from ..errors import SettingError
from ..keys import Keys
from ..settings import FrontierSettings


def load_keys(settings: FrontierSettings, server: Any, spider: str, redis_key: Any = None) -> Keys:
    """Return the keys of the frontier of the spider called *spider*.

    :param redis_key: the spider's ``redis_key``: one or several templates for the keys of its seeds.
    :raises SettingError: if *redis_key* is not a valid key, or if the keys are on several slots of a Cluster.
    """
    seeds = settings.start_urls_keys
    if redis_key is not None:
        seeds = templates_of_seeds("redis_key", redis_key, settings.job)
    hash_tag = connection.needs_hash_tag(server)
    keys = Keys(
        spider,
        settings.queue_key,
        settings.dupefilter_key,
        seeds,
        settings.job,
        hash_tag,
        slots_template=settings.slots_key,
        places_template=settings.places_key,
        # Without FRONTIER_ITEMS, the frontier does not use the key, which may be on any slot of a Cluster.
        items_template=settings.items_key if settings.items else "",
    )
    check_slots(keys, server)
    return keys


def check_slots(keys: Keys, server: Any) -> None:
    """Check that all *keys* are on one slot of a Cluster.

    :raises SettingError: if they are not.
    """
    slots: dict[int, str] = {}
    for key in keys.all():
        slots.setdefault(connection.slot(server, key), key)
    if len(slots) > 1:
        one, other, *_ = slots.values()
        raise SettingError(
            f"The keys {one!r} and {other!r} are on different slots of the Redis Cluster, but all keys of a "
            "frontier must be on one slot. Give the templates of all keys (SCHEDULER_QUEUE_KEY, "
            "SCHEDULER_DUPEFILTER_KEY, REDIS_START_URLS_KEY, FRONTIER_SLOTS_KEY, FRONTIER_MAX_WORKERS_KEY, "
            "REDIS_ITEMS_KEY with FRONTIER_ITEMS) the same part in braces, such as {%(spider)s}"
        )
