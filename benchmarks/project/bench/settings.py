"""What all contenders have in common; each adds its scheduler with ``scrapy crawl -s``."""

import os

BOT_NAME = "bench"
SPIDER_MODULES = ["bench.spiders", "bench.broad", "bench.cores", "bench.polite"]
EXTENSIONS = {"bench.meter.Meter": 0}
DOWNLOAD_HANDLERS = {"http": "bench.site.Handler", "https": None, "ftp": None, "s3": None}
CONCURRENT_REQUESTS = 16
CONCURRENT_REQUESTS_PER_DOMAIN = 16
DOWNLOAD_DELAY = 0
TELNETCONSOLE_ENABLED = False
ROBOTSTXT_OBEY = False
LOG_LEVEL = "WARNING"
#: Not by ``-s``: it has a password, and all users can read the arguments of a process.
REDIS_URL = os.environ.get("REDIS_URL", "")

#: Pages of the site; 0 for one without an end.
SITE_PAGES = 0
#: Seconds that a download takes.
SITE_LATENCY = 0.0
