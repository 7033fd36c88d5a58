import scrapy


class SitemapSpider(scrapy.Spider):
    """Knows nothing of Redis."""

    name = "sitemap"

    async def start(self):
        yield scrapy.Request(f"{self.settings['SHOP']}/", self.parse)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_page, meta={"from": {"page": response.url, "at": (1, 2)}})

    def parse_page(self, response):
        assert response.meta["from"]["at"] == (1, 2)
        yield {"name": response.css("h1::text").get(), "from": response.meta["from"]["page"]}
        yield {"name": None}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse_page, meta={"from": response.meta["from"]})
