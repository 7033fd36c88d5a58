from dataclasses import dataclass

import scrapy


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()
    url = scrapy.Field()


@dataclass
class Category:
    name: str
    pages: int
