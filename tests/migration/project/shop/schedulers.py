from scrapy.utils.misc import load_object
from scrapy_redis.queue import PriorityQueue
from scrapy_redis.scheduler import Scheduler


class ClosedScheduler(Scheduler):
    """Makes its queue itself, and does not call super().open()."""

    def open(self, spider):
        self.spider = spider
        self.queue = PriorityQueue(self.server, spider, self.queue_key, self.serializer)


class BitsOfPagesScheduler(Scheduler):
    """A copy of the scheduler of a package that makes its dupefilter by from_spider."""

    def open(self, spider):
        self.spider = spider
        self.queue = load_object(self.queue_cls)(
            server=self.server,
            spider=spider,
            key=self.queue_key % {"spider": spider.name},
            serializer=self.serializer,
        )
        self.df = load_object(self.dupefilter_cls).from_spider(spider)


class LimitedScheduler(Scheduler):
    """Has the constructor of scrapy-redis's, and one argument more."""

    def __init__(self, server, persist=False, limit=10, **kwargs):
        super().__init__(server, persist, **kwargs)
        self.limit = limit
