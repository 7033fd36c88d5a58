"""The project's settings. The first block is all that makes the crawl a shared one."""

import os

# --- The shared frontier -------------------------------------------------------------------------

# Waiting requests and the fingerprints of those already seen are kept in Redis. Start the same
# spider as often and on as many hosts as you like: together they crawl each page once.
SCHEDULER = "scrapy_rq_sched.Scheduler"
DUPEFILTER_CLASS = "scrapy_rq_sched.RFPDupeFilter"

# Every worker must be given the same Redis.
REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")

# When the whole fleet has finished, the frontier is removed, and the next `scrapy crawl` starts
# afresh. With True the seen fingerprints stay, and the next crawl fetches only what is new.
SCHEDULER_PERSIST = False

# A worker that has not been heard of for so many seconds is dead: what it had in hand goes to the
# others. Shorter recovers sooner, but a worker that is stopped for as long (a suspended laptop, a
# callback that computes for a minute) has its pages fetched a second time by the others.
FRONTIER_LEASE_TIMEOUT = 30

# --- The crawl -----------------------------------------------------------------------------------

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]
NEWSPIDER_MODULE = "example.spiders"

# Say who you are; put an address here under which the site's owner can reach you.
USER_AGENT = "scrapy-rq-sched-example (+https://www.example.org/)"
ROBOTSTXT_OBEY = True

CONCURRENT_REQUESTS = 16
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = 0.1
# By default all workers together keep the delay, so more workers make the crawl of one site no faster. Here
# each worker keeps it by itself, so that you see the second one at work. The site is your own.
FRONTIER_FLEET_LIMITS = []

# AutoThrottle would lower the rate when the site answers slowly. It is off so that the figures of
# this example depend on the two limits above only; turn it on for sites that are not yours.
AUTOTHROTTLE_ENABLED = False

# --- What the example adds -----------------------------------------------------------------------

EXTENSIONS = {"example.extensions.PageLog": 500}

# A file to which the worker appends a line a page: the time and the URL. None: no such file.
PAGE_LOG = os.environ.get("PAGE_LOG") or None

FEED_EXPORT_ENCODING = "utf-8"
