from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider

from shop.items import Category, Product


class CatalogueSpider(RedisCrawlSpider):
    """Follows all categories from those that it is given."""

    name = "catalogue"
    custom_settings = {"SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.LifoQueue"}

    rules = (
        Rule(LinkExtractor(allow=r"/category/"), callback="parse_category", follow=True),
        Rule(LinkExtractor(allow=r"/product/"), callback="parse_product"),
    )

    def __init__(self, *args, **kwargs):
        self.max_idle_time = 1
        super().__init__(*args, **kwargs)

    def parse_category(self, response):
        yield Category(name=response.css("h1::text").get(), pages=len(response.css("a")))

    def parse_product(self, response):
        yield Product(
            name=response.css("h1::text").get(),
            price=float(response.css(".price::text").get()),
            url=response.url.partition("?")[0],
        )
