import json

import scrapy
from scrapy_redis.spiders import RedisSpider
from scrapy_redis.utils import bytes_to_str

from shop.items import Product


class OffersSpider(RedisSpider):
    """Is fed with JSON by the shop's back office."""

    name = "offers"
    redis_key = "%(name)s:todo"
    redis_batch_size = 10
    max_idle_time = 1

    def make_request_from_data(self, data):
        order = json.loads(bytes_to_str(data, self.redis_encoding))
        if "product" in order:
            return self.request_for(order["product"], order.get("campaign"))
        # Several at once; of an order for nothing, none.
        return [self.request_for(number, order.get("campaign")) for number in order.get("products", [])]

    def request_for(self, number, campaign):
        self.crawler.stats.inc_value("offers/ordered")
        return scrapy.Request(
            f"{self.settings['SHOP']}/product/{number}", meta={"campaign": campaign}, dont_filter=True
        )

    def parse(self, response):
        product = Product(name=response.css("h1::text").get(), url=response.url)
        product["price"] = float(response.css(".price::text").get())
        yield product
        yield scrapy.Request(
            response.urljoin(f"/reviews/{response.url.rpartition('/')[2]}"),
            callback=self.parse_reviews,
            cb_kwargs={"name": product["name"]},
            meta={"campaign": response.meta["campaign"]},
            priority=5,
        )

    def parse_reviews(self, response, name):
        for number, review in enumerate(response.css("li::text").getall()):
            yield {"name": name, "review": review, "number": number, "campaign": response.meta["campaign"]}
