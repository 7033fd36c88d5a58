"""A spider whose requests need accounts."""

from __future__ import annotations

import scrapy
from scrapy import Request

from .graph import page_url
from .record import record


class AccountsSpider(scrapy.Spider):
    """Each page is requested with an account, which the record has. ``ACCOUNT_PAGES`` is their number.

    One page lets its account rest, one retires it, and one raises an error.
    """

    name = "accounts"

    async def start(self):
        for number in range(1, 1 + self.settings.getint("ACCOUNT_PAGES", 12)):
            yield Request(page_url(number), meta={"pool": "accounts", "number": number})

    def parse(self, response):
        item = response.meta["pool_item"]
        record("account", str(item))
        record("password", "yes" if item.value["password"] else "no")
        if response.meta["number"] == 2:
            item.rest(1, "it has to rest")
        if response.meta["number"] == 4:
            item.retire("it is locked")
        if response.meta["number"] == 6:
            raise ValueError("a bad page")
