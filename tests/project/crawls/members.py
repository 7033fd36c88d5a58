"""Spiders whose requests need items of pools: accounts of a site for members, and proxies."""

from __future__ import annotations

import os

import scrapy
from scrapy.utils.defer import maybe_deferred_to_future

from .record import record

#: Where the site is, as the test gave it.
SITE = os.environ.get("SITE_URL", "")
PLEASE = "please log in"


class NameWorker:
    """Tells the site which process sends a request."""

    def process_request(self, request, spider=None):
        request.headers["X-Worker"] = str(os.getpid())


class MembersSpider(scrapy.Spider):
    """The pages of the site of ``tests/support/members.py``, each with an account, which logs in if it must.

    With the setting ``FOR_LIFE``, each worker has one account.
    """

    name = "members"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"crawls.members.NameWorker": 1000}}

    async def start(self):
        yield self.request("/")

    def request(self, path):
        meta = {} if self.settings.getbool("FOR_LIFE") else {"pool": "accounts"}
        return scrapy.Request(SITE + path, self.parse, meta=meta)

    async def parse(self, response):
        if response.text == PLEASE:
            await self.log_in(response)
            yield response.request.replace(dont_filter=True)
            return
        record("parsed", response.url)
        if response.url == SITE + "/":
            for number in response.text.split():
                yield self.request(f"/p/{number}")

    async def log_in(self, response):
        for_life = self.settings.getbool("FOR_LIFE")
        account = self.pool["accounts"] if for_life else response.meta["pool_item"]
        form = {"name": account.value["name"], "password": account.value["password"]}
        request = scrapy.FormRequest(SITE + "/login", formdata=form, meta={"pool_item": account})
        engine = self.crawler.engine
        if hasattr(engine, "download_async"):
            await engine.download_async(request)
        else:
            await maybe_deferred_to_future(engine.download(request))


class ProxiedSpider(scrapy.Spider):
    """As many pages as ``PAGES`` says, each through a proxy of a pool."""

    name = "proxied"

    async def start(self):
        for number in range(self.settings.getint("PAGES")):
            meta = {"pool": "proxies", "handle_httpstatus_all": True}
            yield scrapy.Request(f"http://pages.test/{number}", meta=meta, dont_filter=True)

    def parse(self, response):
        record("answered", f"{response.status} {response.meta['pool_item']} {response.url}")
        if response.status == 200:
            record("parsed", response.url)
        else:
            yield response.request.replace(dont_filter=True)
