"""A spider that tries to reach a site of which a test gives the URL."""

import scrapy


class ReachSpider(scrapy.Spider):
    """Has an item of each page, and follows its links; with ``-a allowed=a.test`` only those to this host."""

    name = "reach"

    def __init__(self, url="", allowed="", **arguments):
        super().__init__(**arguments)
        self.start_urls = [url]
        if allowed:
            self.allowed_domains = [allowed]

    def parse(self, response):
        if title := response.css("title::text").get():
            yield {"title": title}
        yield from response.follow_all(css="a")
