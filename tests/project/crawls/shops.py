"""Five shops, of which one fails now and then: the crawl that the pictures of the documentation show."""

from __future__ import annotations

import scrapy
from scrapy.linkextractors import LinkExtractor


class ShopsSpider(scrapy.Spider):
    """Follows every link of the shops that ``-a hosts=`` names, with commas between them."""

    name = "shops"
    links = LinkExtractor()

    def __init__(self, hosts="", **arguments):
        super().__init__(**arguments)
        self.allowed_domains = hosts.split(",")

    async def start(self):
        for host in self.allowed_domains:
            yield scrapy.Request(f"http://{host}/")

    def parse(self, response):
        title = response.css("title::text").get()
        if title is None:
            raise ValueError("the page has no title")
        yield {"url": response.url, "title": title}
        for link in self.links.extract_links(response):
            yield response.follow(link)
