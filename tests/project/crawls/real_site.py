"""Spiders of each kind on a site of real pages, at SITE_URL: each makes an item of every page.

An item says of a page what does not depend on which worker fetched it, or from which page it was found.
"""

from __future__ import annotations

import json
import os

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider, XMLFeedSpider

from scrapy_rq_sched import RedisCrawlSpider, RedisSpider

from .record import record

SITE = os.environ.get("SITE_URL", "http://127.0.0.1")
#: With its port, as a LinkExtractor wants it.
HOST = SITE.rpartition("/")[2]


class RecordItems:
    """An item pipeline that puts each item on record."""

    def process_item(self, item, spider=None):
        record("item", json.dumps(item, sort_keys=True))
        return item


class Pages:
    """What all of them have: one item a page."""

    custom_settings = {"ITEM_PIPELINES": {"crawls.real_site.RecordItems": 1}}
    allowed_domains = ["127.0.0.1"]

    def page(self, response, **more):
        record("parsed", response.url)
        return {
            "url": response.url.removeprefix(SITE),
            "title": response.css("title::text").get(),
            "links": len(response.css("a")),
            **more,
        }


class FollowSpider(Pages, scrapy.Spider):
    """Follows all links that lead to a page of the site."""

    name = "follow"
    start_urls = [f"{SITE}/index.html"]

    def parse(self, response):
        yield self.page(response)
        if response.url.endswith(".html"):
            local = response.xpath('//a[not(contains(@href, ":"))][contains(@href, ".html")]')
            yield from response.follow_all(
                local, cb_kwargs={"found": response.css("title::text").get()}, callback=self.parse_found
            )

    def parse_found(self, response, found):
        # Whatever page it was found on, it has a title.
        for result in self.parse(response):
            yield {**result, "found": bool(found)} if isinstance(result, dict) else result


class Ruled(Pages):
    """What both have that follow rules."""

    rules = (
        Rule(LinkExtractor(allow=r"/[^/]*\.[^/]*\.html", allow_domains=HOST), "parse_inner", follow=True),
        Rule(LinkExtractor(allow=r"\.html", allow_domains=HOST), "parse_page", follow=True),
    )

    def parse_page(self, response):
        # Whatever link led to it, the link has a text.
        yield self.page(
            response, rule=response.meta["rule"], text=isinstance(response.meta["link_text"], str)
        )

    def parse_inner(self, response):
        yield from self.parse_page(response)

    def parse_start_url(self, response):
        yield self.page(response)


class RulesSpider(Ruled, CrawlSpider):
    """Follows its rules."""

    name = "rules"
    start_urls = [f"{SITE}/index.html"]


class MapSpider(Pages, SitemapSpider):
    """Reads the sitemap."""

    name = "map"
    sitemap_urls = [f"{SITE}/sitemap.xml"]
    sitemap_rules = [(r"/index", "parse_index"), ("", "parse")]

    def parse(self, response):
        yield self.page(response)

    def parse_index(self, response):
        yield self.page(response, index=True)


class FeedSpider(Pages, XMLFeedSpider):
    """Reads the feed."""

    name = "feed"
    start_urls = [f"{SITE}/feed.xml"]
    itertag = "item"

    def parse_node(self, response, node):
        title = node.xpath("title/text()").get()
        yield scrapy.Request(
            node.xpath("string(link)").get(),
            self.parse_page,
            meta={"title": title},
            cb_kwargs={"name": title},
        )

    def parse_page(self, response, name):
        yield self.page(response, name=name, same=name == response.meta["title"])


class RedisFollowSpider(RedisSpider, FollowSpider):
    """The same, from seeds."""

    name = "redisfollow"
    start_urls = []


class RedisRulesSpider(Ruled, RedisCrawlSpider):
    """The same, from seeds."""

    name = "redisrules"
