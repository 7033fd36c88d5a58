"""Wait for seeds, and crawl each of them."""

from __future__ import annotations

from collections.abc import Iterator

from scrapy.http import Response

from example.items import Page
from scrapy_rq_sched.spiders import RedisSpider


class SeedsSpider(RedisSpider):
    """Yield an item for each seed: ``redis-cli lpush seeds:start_urls https://www.example.org/``.

    A seed is a URL, or a JSON object with any of ``scrapy.Request``'s fields. The spider stays
    open and waits for more until it is stopped (Ctrl-C).
    """

    name = "seeds"

    def parse(self, response: Response) -> Iterator[Page]:
        yield Page(url=response.url, title=response.css("title::text").get("").strip())
