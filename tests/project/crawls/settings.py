"""Settings of the test project; a test adds its own with ``scrapy crawl -s``."""

import os

from scrapy import version_info

BOT_NAME = "crawls"
SPIDER_MODULES = ["crawls.spiders"]
ADDONS = {"scrapy_rq_sched.Addon": 500}
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")

HANDLER = "GraphHandler" if version_info >= (2, 14) else "DeferredGraphHandler"
if "REAL_DOWNLOADS" not in os.environ:
    DOWNLOAD_HANDLERS = {"http": f"crawls.graph.{HANDLER}", "https": None, "ftp": None, "s3": None}
EXTENSIONS = {"crawls.record.Recorder": 0, "crawls.faults.Faults": 0}
TELNETCONSOLE_ENABLED = False
ROBOTSTXT_OBEY = False
CONCURRENT_REQUESTS_PER_DOMAIN = 1000
LOG_LEVEL = "INFO"

#: Seconds that a download takes.
GRAPH_LATENCY = 0.0
#: Pages of the site.
GRAPH_PAGES = 500

#: What drives the crawl: Twisted's reactor on asyncio's loop (Scrapy's default), another reactor, or none.
EVENT_LOOPS = {
    "asyncio": {},
    "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    "none": {"TWISTED_REACTOR_ENABLED": False},
}
globals().update(EVENT_LOOPS[os.environ.get("EVENT_LOOP", "asyncio")])
