import os

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

SCHEDULER = "scrapy_redis.scheduler.Scheduler"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.SpiderPriorityQueue"
SCHEDULER_SERIALIZER = "scrapy_redis.picklecompat"
DUPEFILTER_CLASS = "shop.dupefilter.NoSessionDupeFilter"
STATS_CLASS = "scrapy_redis.stats.RedisStatsCollector"
ITEM_PIPELINES = {
    "shop.pipelines.CleanPipeline": 300,
    "shop.pipelines.ShopRedisPipeline": 400,
}

REDIS_URL = os.environ.get("SHOP_REDIS", "redis://localhost:6379/0")
REDIS_PARAMS = {"socket_timeout": 10, "retry_on_timeout": True}
REDIS_ENCODING = "utf-8"
MAX_IDLE_TIME_BEFORE_CLOSE = 1

SHOP = os.environ.get("SHOP_URL", "http://localhost:8000")
ROBOTSTXT_OBEY = False
TELNETCONSOLE_ENABLED = False
DOWNLOAD_DELAY = 0
LOG_LEVEL = "INFO"
