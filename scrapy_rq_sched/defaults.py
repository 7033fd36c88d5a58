"""The default values, with scrapy-redis's names. To change a default, change the setting, not this module."""

from __future__ import annotations

from typing import Any

from . import connection, keys
from .codec.values import class_path
from .dupefilter import RFPDupeFilter
from .servers import topology
from .settings import FrontierSettings

#: The key of a dupefilter that is used on its own, without a spider.
DUPEFILTER_KEY = keys.STANDALONE_DUPEFILTER
#: ``REDIS_ITEMS_KEY``
PIPELINE_KEY = FrontierSettings.items_key
#: ``STATS_KEY``
STATS_KEY = FrontierSettings.stats_key

#: The class of the client, unless ``REDIS_PARAMS`` has a ``redis_cls``.
REDIS_CLS: type = topology.DEFAULT_CLASS
#: ``REDIS_ENCODING``: the encoding of seeds only.
REDIS_ENCODING = FrontierSettings.encoding
#: The default arguments of a client, to which ``REDIS_PARAMS`` is added.
REDIS_PARAMS: dict[str, Any] = dict(connection.DEFAULT_PARAMS)
#: Scrapy's ``CONCURRENT_REQUESTS``
REDIS_CONCURRENT_REQUESTS = FrontierSettings.concurrency

#: ``SCHEDULER_QUEUE_KEY``
SCHEDULER_QUEUE_KEY = FrontierSettings.queue_key
#: ``SCHEDULER_QUEUE_CLASS``
SCHEDULER_QUEUE_CLASS = FrontierSettings.queue_class
#: ``SCHEDULER_DUPEFILTER_KEY``
SCHEDULER_DUPEFILTER_KEY = FrontierSettings.dupefilter_key
#: ``DUPEFILTER_CLASS`` of this package's scheduler, if the setting is not set.
SCHEDULER_DUPEFILTER_CLASS = class_path(RFPDupeFilter)
#: ``SCHEDULER_PERSIST``
SCHEDULER_PERSIST = FrontierSettings.persist
#: ``REDIS_START_URLS_KEY``
START_URLS_KEY = FrontierSettings.start_urls_keys[0]
#: ``REDIS_START_URLS_AS_SET``, ``REDIS_START_URLS_AS_ZSET``: not used; the type of the key decides.
START_URLS_AS_SET = START_URLS_AS_ZSET = False
#: ``MAX_IDLE_TIME_BEFORE_CLOSE``
MAX_IDLE_TIME = FrontierSettings.max_idle_time
