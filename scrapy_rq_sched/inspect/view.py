"""Find a frontier in Redis, with its keys and the settings that it was made with."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from scrapy import Spider
from scrapy.settings import SETTINGS_PRIORITIES
from typing_extensions import Self

from .. import connection, serializers
from ..assembly.keys import load_keys
from ..assembly.queue import load_queue_class
from ..codec.values import class_path, text_of
from ..errors import InspectionError, bounded
from ..frontier.entries import Entries, Part
from ..keys import Keys
from ..queue import DISCIPLINES
from ..settings import FrontierSettings

#: Maximum of seconds to wait until Redis has freed the memory of a cleared frontier.
FREED_WITHIN = 30.0
#: Number of keys in a step of a search.
SCAN_STEP = 1000
#: Fields of ``meta``, and bytes of each of them, at most. Workers write far fewer and shorter ones.
MOST_FIELDS, LONGEST_FIELD = 1000, 256 * 1024

_SERIALIZER = "SCHEDULER_SERIALIZER"
#: The spider's name in an entry of the history.
_SPIDER = re.compile(r'"spider":"([^"\\]+)"')
#: The priority of a setting that the user has named for one command.
_BY_HAND = SETTINGS_PRIORITIES["cmdline"]
_QUEUES = {class_path(cls): cls for cls in DISCIPLINES}


@dataclass(frozen=True)
class View:
    """The frontier of one spider.

    :param server: a redis-py client that returns bytes.
    :param keys: the frontier's keys.
    :param settings: the settings of this process; the frontier's own, in *meta*, take precedence.
    :param meta: the fields of the frontier's ``meta``; empty if no worker has ever joined it.
    :param spidercls: the spider's class, if this project has it.
    :param scrapy_settings: Scrapy's settings, with those of the spider.
    :param redis_key: the seeds' key, or several, if they differ from those of the class.
    :param is_named: whether the user has named this frontier.
    """

    server: Any
    keys: Keys
    settings: FrontierSettings
    meta: Mapping[str, str]
    spidercls: type[Spider] | None = None
    scrapy_settings: Any = None
    redis_key: Any = None
    is_named: bool = False

    @classmethod
    def from_settings(
        cls, settings: Any, spider: str, spidercls: type[Spider] | None = None, redis_key: Any = None
    ) -> Self:
        """Return the view of the frontier of the spider called *spider*.

        :param settings: Scrapy's, as ``scrapy.utils.project.get_project_settings()`` returns them.
        :param spidercls: its class; its ``custom_settings`` and its ``redis_key`` apply as in a crawl.
        :param redis_key: the seeds' key, or several, if they differ from those of the class.
        :raises SettingError: if a setting has an invalid value.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        view = cls.without_meta(settings, spider, spidercls, redis_key)
        return replace(view, is_named=True).as_it_is_now(redis_key)

    @classmethod
    def without_meta(
        cls, settings: Any, spider: str, spidercls: type[Spider] | None = None, redis_key: Any = None
    ) -> Self:
        """Return the view without asking Redis: its ``meta`` is empty.

        :param spidercls: as in :meth:`from_settings`, like :param redis_key: the seeds' key.
        :raises SettingError: if a setting has an invalid value.
        """
        if spidercls is not None:
            settings = settings.copy()
            spidercls.update_settings(settings)
            redis_key = redis_key or getattr(spidercls, "redis_key", None)
        read = FrontierSettings.from_settings(settings)
        server = connection.get_client(settings)
        keys = load_keys(read, server, spider, redis_key)
        return cls(server, keys, read, {}, spidercls, settings, redis_key)

    def as_it_is_now(self, redis_key: Any = None) -> Self:
        """Return the same frontier with its current ``meta`` from Redis.

        :param redis_key: as in :meth:`from_settings`.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        meta, keys = read_meta(self.server, self.keys.meta), self.keys
        if meta.get("dupefilter_key") and not (redis_key or getattr(self.spidercls, "redis_key", None)):
            keys = _keys_of(meta, self.spider, keys.requests)
        return replace(self, meta=meta, keys=keys)

    def of_spider(self, spidercls: type[Spider] | None) -> Self:
        """Return the same frontier with the settings of its spider's class.

        :param spidercls: the class; None: change nothing.
        :raises SettingError: if a setting has an invalid value.
        """
        if spidercls is None:
            return self
        settings = self.scrapy_settings.copy()
        spidercls.update_settings(settings)
        read = FrontierSettings.from_settings(settings)
        return replace(self, settings=read, scrapy_settings=settings, spidercls=spidercls)

    @property
    def spider(self) -> str:
        """The spider's name."""
        return self.keys.spider

    @property
    def exists(self) -> bool:
        """Whether the frontier exists: a worker has joined, and it was not cleared since."""
        return "epoch" in self.meta

    @property
    def has_traces(self) -> bool:
        """Whether Redis has something of a frontier without a crawl: its history, its failed list, or seeds.

        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        names = (self.keys.crawls, self.keys.failed, *self.keys.start_urls)
        return any(connection.server_of(self.server, name).exists(name) for name in names)

    def require(self) -> None:
        """Check that the frontier exists.

        :raises InspectionError: if it does not.
        """
        if not self.exists:
            raise InspectionError(
                f"There is no frontier of spider {self.spider!r} at {connection.address(self.server)} (key "
                f"{self.keys.meta!r} does not exist): no worker has joined yet, or the crawl is finished "
                "and its keys were removed. To list all frontiers: scrapy frontier status"
            )

    @cached_property
    def named_queue_class(self) -> Any:
        """The queue's class according to ``meta`` or the settings; the queue's key is not checked.

        :raises InspectionError: if it is a custom class that pushes and pops by itself.
        :raises SettingError: if it cannot be loaded.
        """
        name = self.meta.get("SCHEDULER_QUEUE_CLASS", "")
        cls = _QUEUES.get(name) or load_queue_class(self.settings)
        if not issubclass(cls, DISCIPLINES):
            raise InspectionError(
                f"The queue of spider {self.spider!r} is a {cls.__name__}, which stores requests in its own "
                "form: it cannot be inspected"
            )
        return cls

    @cached_property
    def queue_class(self) -> Any:
        """The queue's class, which fits the queue's key.

        :raises InspectionError: if it is unknown, or is a custom class that pushes and pops by itself.
        """
        cls = self.named_queue_class
        kind = connection.server_of(self.server, self.keys.requests).type(self.keys.requests).decode()
        expected = cls.key_type
        if kind not in ("none", expected):
            raise InspectionError(
                f"Key {self.keys.requests!r} is a {kind}, but {cls.__name__} uses a {expected}. Add the "
                "queue's class: -s SCHEDULER_QUEUE_CLASS=…"
            )
        return cls

    @property
    def is_sorted(self) -> bool:
        """Whether the queue is a sorted set."""
        return bool(self.queue_class.key_type == "zset")

    @cached_property
    def serializer(self) -> serializers.Serializer:
        """The serializer of the waiting requests.

        :raises InspectionError: if the frontier names one that may run code, and it is not trusted.
        """
        ours = serializers.load_serializer(self.settings.serializer)
        theirs = self.meta.get("SCHEDULER_SERIALIZER", "")
        is_safe = serializers.serializer_name(ours) in serializers.HARMLESS or self._is_trusted
        if is_safe and theirs in ("", serializers.serializer_name(ours)):
            return ours
        if theirs in serializers.HARMLESS or not theirs:
            return serializers.load_serializer(theirs or "json")
        # Redis may name any module: only a name that is known to be a serializer is repeated as an option.
        named = "=pickle" if serializers.names_pickle(theirs) else ""
        raise InspectionError(
            f"The requests of spider {self.spider!r} were written by {bounded(theirs)!r}, which may run code "
            f"that is stored in Redis. If you trust it, add -s SCHEDULER_SERIALIZER{named}"
        )

    @property
    def _is_trusted(self) -> bool:
        """Whether a serializer of the settings that may run code is meant for this frontier.

        Any program with some rights in Redis can make a frontier of its own. So the frontier must be that of
        a spider of this project, at the keys of the settings; or the user must have named the frontier and,
        with ``-s``, the serializer.
        """
        if self.is_named and (self.scrapy_settings.getpriority(_SERIALIZER) or 0) >= _BY_HAND:
            return True
        if self.spidercls is None:
            return False
        usual = load_keys(self.settings, self.server, self.spider, self.redis_key)
        return usual.requests == self.keys.requests

    @property
    def dupefilter(self) -> str:
        """The dupefilter's kind, which names its script ``lua/store/filter/<dupefilter>.lua``."""
        return "compact" if self.meta.get("dupefilter") == "compact" else "exact"

    def wait_until_freed(self) -> None:
        """Wait until Redis has freed the memory of cleared keys, because it is slow meanwhile."""
        server = connection.server_of(self.server, self.keys.requests)
        patience = time.monotonic() + FREED_WITHIN
        with contextlib.suppress(connection.ResponseError):  # this user may lack the right to INFO
            while server.info("memory").get("lazyfree_pending_objects", 0) and time.monotonic() < patience:
                time.sleep(0.25)

    def pipeline(self) -> Any:
        """Return a pipeline, without a transaction, to the server that has the frontier."""
        return connection.server_of(self.server, self.keys.requests).pipeline(transaction=False)


def read_meta(server: Any, key: str) -> dict[str, str]:
    """Return the fields of the hash *key* as text, without those that are too long for a worker."""
    _, pieces = Entries(server).step("HSCAN", key, 0, MOST_FIELDS, LONGEST_FIELD)
    return fields(Part(pieces, True))


def fields(part: Part) -> dict[str, str]:
    """Return the fields of a hash as text. Those that are too long are left out: a part would be wrong."""
    return {text_of(piece.name): text_of(piece.data) for piece in part.pieces if not piece.is_cut}


#: The ends of the names of the keys by which a frontier without a crawl is found, and a pattern of all of
#: them, and of ``:meta``.
_LASTING = (":meta:crawls", ":failed", ":start_urls")
_PATTERN = "*:[mfs]*[ads]"
#: How many of these keys are looked at.
MOST_ENDED = 2000


def find_frontiers(settings: Any, server: Any = None) -> Iterator[View]:
    """Yield all frontiers in a Redis, of any project, in the order of their spiders' names.

    A frontier without a crawl is found by its history, its failed list, or its seeds.

    This scans the names of all keys, :data:`SCAN_STEP` at a time.

    :param settings: Scrapy's settings.
    :param server: a client that returns bytes; by default, one is made from *settings*.
    :raises SettingError: if a setting has an invalid value.
    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    read = FrontierSettings.from_settings(settings)
    server = server or connection.get_client(settings)
    names = (text_of(key) for key in server.scan_iter(_PATTERN, count=SCAN_STEP))
    found = {name for name in names if name.endswith((":meta", *_LASTING))}
    views: dict[str, View] = {}
    for key in found:
        if not key.endswith(":meta"):
            continue
        meta = _meta_of(server, key)
        if "format" in meta and meta.get("requests_key"):
            keys = _keys_of(meta, meta.get("spider", ""), meta["requests_key"])
            if keys.meta != key:
                continue  # another program has written the name of another frontier's queue there
            views[keys.prefix] = View(server, keys, read, meta, None, settings)
    bound = {name for view in views.values() for name in (view.keys.failed, *view.keys.start_urls)}
    others = sorted(found - bound, key=lambda key: (_LASTING[0] not in key, key))
    # Another program may have written millions of such keys.
    for key in islice(others, MOST_ENDED):
        suffix = next((one for one in _LASTING if key.endswith(one)), "")
        prefix = key.removesuffix(suffix)
        # A meta that was passed over above claims the keys of another frontier.
        if not (suffix and prefix) or prefix in views or f"{prefix}:meta" in found:
            continue
        # This user may not read the keys of other teams, or the key is gone by now.
        with contextlib.suppress(connection.ResponseError):
            if (view := _ended(server, key, suffix, settings, read)) is not None:
                views[prefix] = view
    yield from sorted(views.values(), key=lambda view: (view.spider, view.keys.requests))


def _meta_of(server: Any, key: str) -> dict[str, str]:
    """Return the fields of the hash *key*; none if it has another type."""
    try:
        return read_meta(server, key)
    except connection.ResponseError:
        return {}


def _ended(server: Any, key: str, suffix: str, settings: Any, read: FrontierSettings) -> View | None:
    """Return the frontier without a crawl that has *key*; None if the key is of another program."""
    prefix = key.removesuffix(suffix)
    kind, spider = server.type(key).decode(), _in_braces(prefix)
    if suffix == ":meta:crawls":
        if kind != "hash":
            return None
        _, pieces = Entries(server).step("HSCAN", key, 0, MOST_FIELDS, LONGEST_FIELD)
        names = (_SPIDER.search(text_of(piece.data)) for piece in pieces)
        spider = next((name[1] for name in names if name), spider)
    elif suffix == ":failed":
        last = server.lindex(key, -1) if kind == "list" else None
        if last is None or not last.startswith(b"{") or b'"reason":' not in last[:10_000]:
            return None
    elif kind not in ("list", "set", "zset"):
        return None
    keys = replace(load_keys(read, server, spider), requests_template=f"{prefix}:requests".replace("%", "%%"))
    return View(server, keys, read, {}, None, settings)


def _in_braces(prefix: str) -> str:
    """Return the spider's name in the prefix of its keys, which has braces on a Redis Cluster."""
    return prefix[1:-1] if prefix.startswith("{") and prefix.endswith("}") else prefix


def _keys_of(meta: Mapping[str, str], spider: str, requests: str) -> Keys:
    def literal(key: str) -> str:
        return key.replace("%", "%%")

    seeds = tuple(map(literal, meta.get("start_urls_keys", "").split("\n")))
    slots = literal(meta.get("slot_states", ""))
    return Keys(
        spider,
        literal(requests),
        literal(meta.get("dupefilter_key", "")),
        seeds,
        slots_template=slots,
        places_template=literal(meta.get("places_key", "")),
    )
