from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem
from scrapy_redis.pipelines import RedisPipeline


class CleanPipeline:
    def process_item(self, item, spider):
        adapter = ItemAdapter(item)
        if not adapter.get("name"):
            raise DropItem("it has no name")
        adapter["name"] = adapter["name"].strip()
        return item


class ShopRedisPipeline(RedisPipeline):
    """Prices go to a list of their own, which another service reads."""

    def item_key(self, item, spider):
        if ItemAdapter(item).get("price") is None:
            return super().item_key(item, spider)
        return f"{spider.name}:prices"
