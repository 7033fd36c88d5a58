"""Spiders with groups of requests, and requests that wait for them."""

from __future__ import annotations

import scrapy
from scrapy import Request

from scrapy_rq_sched.signals import group_finished

from .graph import page_url
from .record import record


class GroupedSpider(scrapy.Spider):
    """Page 0 leads to groups of pages; each group has a follow-up, page ``after-<group>``.

    Half of the pages of a group are found on its first page, and inherit the group. With ``IN_MEMORY``, one
    of the others cannot be stored in Redis. ``group`` in the record has each page of a group with its
    number, ``follow-up`` each follow-up, and ``finished`` each signal.

    ``GROUPS`` and ``GROUP_PAGES`` are settings: the number of groups, and of pages in each.
    """

    name = "grouped"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.group_finished, group_finished)
        return spider

    async def group_finished(self, group, failed):
        record("finished", f"{group} {failed}")
        yield_on_signal = self.settings.get("YIELD_ON_SIGNAL")
        if yield_on_signal:
            self.crawler.engine.crawl(Request(page_url(f"signal-{group}"), self.parse_signal))

    async def start(self):
        yield Request(page_url("first"))

    def parse(self, response):
        pages = self.settings.getint("GROUP_PAGES")
        for group in range(self.settings.getint("GROUPS")):
            for page in range(pages // 2):
                meta = {"group": f"g-{group}"}
                if page == 1 and self.settings.getbool("IN_MEMORY"):
                    meta["socket"] = object()
                yield Request(page_url(f"{group}-{page}"), self.parse_member, meta=meta)
            yield Request(page_url(f"after-{group}"), self.parse_follow_up, meta={"after": f"g-{group}"})

    def parse_member(self, response):
        group, page = response.url.rpartition("/")[2].split("-")
        record("group", f"{group} {page}")
        record("parsed", response.url)
        if page == "0":
            pages = self.settings.getint("GROUP_PAGES")
            for number in range(pages // 2, pages):
                yield Request(page_url(f"{group}-{number}"), self.parse_member)

    def parse_follow_up(self, response):
        assert response.meta["after"]
        record("follow-up", response.url.rpartition("-")[2])
        record("parsed", response.url)

    def parse_signal(self, response):
        record("signalled", response.url.rpartition("-")[2])


class BadGroupsSpider(scrapy.Spider):
    """Yields requests whose groups cannot be kept, and one that is fine."""

    name = "badgroups"

    async def start(self):
        yield Request(page_url(1), meta={"group": {}})
        yield Request(page_url(2), meta={"group": "g", "after": ["g"]})
        yield Request(page_url(3), meta={"after": "never", "socket": object()})
        yield Request(page_url(4), meta={"after": "never"})
        yield Request(page_url(5), meta={"after": 1.5})

    def parse(self, response):
        record("parsed", response.url)
