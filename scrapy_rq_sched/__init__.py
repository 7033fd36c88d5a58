"""A Scrapy scheduler and dupefilter that keep a crawl's frontier in Redis, for many workers."""

from .addon import Addon
from .codec.failed_request import FailedRequest
from .connection import get_redis, get_redis_from_settings
from .dupefilter import CompactDupeFilter, RFPDupeFilter
from .errors import FrontierError
from .failed import FailedRequests
from .queue import FifoQueue, LifoQueue, PriorityQueue
from .runtime import identity
from .scheduler import Scheduler
from .spiders import RedisCrawlSpider, RedisSpider

__version__ = identity.VERSION

__all__ = [
    "Addon",
    "CompactDupeFilter",
    "FailedRequest",
    "FailedRequests",
    "FifoQueue",
    "FrontierError",
    "LifoQueue",
    "PriorityQueue",
    "RFPDupeFilter",
    "RedisCrawlSpider",
    "RedisSpider",
    "Scheduler",
    "get_redis",
    "get_redis_from_settings",
]
