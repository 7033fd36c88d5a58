"""Feed the spiders: ``python feed.py KEY SEED...``."""

import os
import sys

from scrapy.utils.project import get_project_settings
from scrapy_redis import get_redis_from_settings
from scrapy_redis.connection import from_settings

os.environ.setdefault("SCRAPY_SETTINGS_MODULE", "shop.settings")

if __name__ == "__main__":
    settings = get_project_settings()
    key, *seeds = sys.argv[1:]
    with get_redis_from_settings(settings).pipeline() as pipe:
        for seed in seeds:
            pipe.rpush(key, seed)
        pipe.execute()
    print(from_settings(settings).llen(key))
