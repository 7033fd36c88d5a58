import time
from collections.abc import Iterable

import scrapy
from scrapy.exceptions import DontCloseSpider
from scrapy_redis.spiders import RedisSpider


class PatientSpider(RedisSpider):
    """Copied from the mixin and changed: it tells how long it has been idle."""

    name = "patient"

    def spider_idle(self):
        if self.server is not None and self.count_size(self.redis_key) > 0:
            self.spider_idle_start_time = int(time.time())
        self.schedule_next_requests()
        idle = int(time.time()) - self.spider_idle_start_time
        self.logger.info("Idle for %d of %d s", idle, self.max_idle_time)
        if self.max_idle_time != 0 and idle >= self.max_idle_time:
            return
        raise DontCloseSpider

    def make_request_from_data(self, data):
        return scrapy.Request(f"{self.settings['SHOP']}/product/{int(data)}", dont_filter=True)

    def parse(self, response):
        yield {"name": response.css("h1::text").get()}


class TwoSourcesSpider(PatientSpider):
    """Copied from the mixin and changed: when it is idle it reads another key as well."""

    name = "twosources"

    def next_requests(self):
        for key in (self.redis_key, "twosources:more"):
            for data in self.fetch_data(key, self.redis_batch_size):
                requests = self.make_request_from_data(data)
                yield from requests if isinstance(requests, Iterable) else [requests]
