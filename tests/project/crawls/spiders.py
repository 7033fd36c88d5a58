"""The spiders that the tests start."""

from __future__ import annotations

import itertools
import os
import signal
import time

import scrapy
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_rq_sched import PriorityQueue, RedisSpider

from .graph import _sleep, page_url
from .record import record


class GraphSpider(scrapy.Spider):
    """Follows every link of the graph.

    With ``-a unfiltered=1`` only those to new pages, and nothing is filtered: then a link that is stored
    twice is a page that is crawled twice, and one that is not stored is a page that nobody else links to.
    """

    name = "graph"
    unfiltered = ""

    async def start(self):
        yield scrapy.Request(page_url(0))

    def parse(self, response):
        """Follow what the page links to.

        @url http://graph.test/7
        @returns requests 20 20
        """
        numbers = map(int, response.text.split())
        if self.unfiltered:
            page = int(response.url.rpartition("/")[2])
            numbers = [number for number in numbers if number > 10 * page]
        for number in numbers:
            yield scrapy.Request(page_url(number), dont_filter=bool(self.unfiltered))
        record("parsed", response.url)


class LingerSpider(GraphSpider):
    """Yields a page's links a moment before it is through with the page."""

    name = "linger"

    async def parse(self, response):
        for number in response.text.split():
            yield scrapy.Request(page_url(int(number)))
        await _sleep(0.02)
        record("parsed", response.url)


class ChurnSpider(GraphSpider):
    """Reads its start requests slowly: START_PAUSE seconds before the last, which is not there without."""

    name = "churn"

    async def start(self):
        yield scrapy.Request(page_url(0))
        pause = self.settings.getfloat("START_PAUSE")
        if pause:
            await _sleep(pause)
            yield scrapy.Request(page_url(900_001))


class PagesSpider(GraphSpider):
    """Has an item of each page."""

    name = "pages"

    def parse(self, response):
        yield {"url": response.url}
        yield from super().parse(response)


class RaisingSpider(GraphSpider):
    """Finds what pages link to, and fails at each of them."""

    name = "raising"

    def parse(self, response):
        yield from super().parse(response)
        raise KeyError("price")


class StartsSpider(scrapy.Spider):
    """An unmodified spider: start URLs, and nothing to follow."""

    name = "starts"
    start_urls = [page_url(1_000_000 + n) for n in range(40)]

    def parse(self, response):
        record("parsed", response.url)
        yield {"url": response.url}


class SheafSpider(GraphSpider):
    """Has no item to fifty items of each page, and each has a title of its own.

    It yields a page's items a moment before it is through with the page.
    """

    name = "sheaf"

    async def parse(self, response):
        page = int(response.url.rpartition("/")[2])
        for number in range(page % 51):
            yield {"url": response.url, "title": f"{page}.{number}"}
        await _sleep(0.1)
        for request in super().parse(response):
            yield request


class SmallDisk:
    """An item pipeline: when it has seen some items, files of this process may not grow any more."""

    def __init__(self):
        self._left = 5

    def process_item(self, item, spider=None):
        self._left -= 1
        if self._left == 0:
            import resource

            # Below the size of the next item; the log and the record are smaller.
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        return {**item, "text": "x" * 50_000}


class Heavy:
    """An item pipeline: each item has ITEM_BYTES."""

    @classmethod
    def from_crawler(cls, crawler):
        pipeline = cls()
        pipeline.text = "x" * crawler.settings.getint("ITEM_BYTES")
        return pipeline

    def process_item(self, item, spider=None):
        return {**item, "text": self.text}


class SeedsSpider(RedisSpider):
    """Waits for seeds."""

    name = "seeds"

    def parse(self, response):
        record("parsed", response.url)

    def other(self, response, **kwargs):
        record("other", f"{response.url} {kwargs}")


class RetrySpider(scrapy.Spider):
    """A start request that fails twice before it succeeds."""

    name = "retry"
    start_urls = [page_url(0)]
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"crawls.spiders.FailTwice": 960}}

    def parse(self, response):
        record("parsed", response.url)


class FailTwice:
    """A downloader middleware: the first two responses to a URL are errors."""

    def __init__(self):
        self._failed = 0

    def process_response(self, request, response, spider=None):
        if self._failed < 2:
            self._failed += 1
            return response.replace(status=503)
        return response


class _OfFirst:
    """A downloader middleware that replaces the first response that a worker has to each URL."""

    def __init__(self):
        self._known = set()

    def process_response(self, request, response, spider=None):
        if request.url in self._known:
            return response
        self._known.add(request.url)
        return self.instead(request, response)


class FailEachOnce(_OfFirst):
    """The first response is an error."""

    def instead(self, request, response):
        return response.replace(status=503)


class AskEachAgain(_OfFirst):
    """The request is sent again, as by a middleware that changes the proxy."""

    def instead(self, request, response):
        return request.replace(dont_filter=True)


class MemorySpider(scrapy.Spider):
    """Yields requests that no serializer keeps."""

    name = "memory"
    start_urls = [page_url(0)]

    def parse(self, response):
        yield scrapy.Request(page_url(1), callback=lambda r: record("parsed", r.url))
        yield scrapy.Request(page_url(2), callback=self.parse_two, meta={"kept": {1, 2}})

    def parse_two(self, response):
        record("parsed", f"{response.url} {sorted(response.meta['kept'])}")


class HoardSpider(scrapy.Spider):
    """Has sixty requests in its memory, which no serializer keeps."""

    name = "hoard"
    start_urls = [page_url(0)]

    def parse(self, response):
        for number in range(1, 61):
            yield scrapy.Request(page_url(number), callback=lambda r: record("parsed", r.url))


class SlowOpenPipeline:
    """Takes its time to open."""

    async def open_spider(self, spider=None):
        record("opening", "")
        await _sleep(3)


class SlowStartSpider(scrapy.Spider):
    """Reads its start requests slowly: the second comes long after the first is done."""

    name = "slowstart"

    async def start(self):
        yield scrapy.Request(page_url(900_001), dont_filter=True)
        await _sleep(float(getattr(self, "pause", 2)))
        yield scrapy.Request(page_url(900_002), dont_filter=True)

    def parse(self, response):
        record("parsed", response.url)


class KillSpider(scrapy.Spider):
    """A page that kills its worker every time."""

    name = "kill"
    start_urls = [page_url(n) for n in range(20)]

    def parse(self, response):
        if response.url == page_url(7):
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        record("parsed", response.url)


class LoopThreadSpider(GraphSpider):
    """Records every Redis command that is sent from the thread of the event loop during the crawl."""

    name = "loopthread"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        import threading

        from redis.connection import AbstractConnection

        send = AbstractConnection.send_packed_command
        loop_thread = threading.get_ident()

        def watched(connection, command, *args, **kwargs):
            where = "loop" if threading.get_ident() == loop_thread else "thread"
            record("redis", where)
            return send(connection, command, *args, **kwargs)

        AbstractConnection.send_packed_command = watched
        return super().from_crawler(crawler, *args, **kwargs)


class ItemsSpider(LoopThreadSpider):
    """Yields an item for each page; with ``-a odd=1``, one more that cannot be written as JSON."""

    name = "items"
    odd = ""

    def parse(self, response):
        page = int(response.url.rpartition("/")[2])
        yield {"page": page}
        if self.odd:
            yield {"page": page, "kept": object()}
        yield from super().parse(response)


class PlainQueue(PriorityQueue):
    """A queue of a user's own: ours, with a push that the exchange does not know."""

    def push(self, request):
        super().push(request)


class OwnQueue:
    """A queue of a user's own that has nothing of ours."""

    push = pop = clear = __len__ = None


class TwiceSpider(scrapy.Spider):
    """Asks for each start URL twice, on purpose."""

    name = "twice"
    start_urls = [page_url(1_000_000 + n) for n in range(40)] * 2

    def parse(self, response):
        record("parsed", response.url)


class MemoryStartSpider(scrapy.Spider):
    """Start requests that no serializer keeps."""

    name = "memorystart"

    async def start(self):
        for number in range(40):
            yield scrapy.Request(page_url(1_000_000 + number), lambda r: record("parsed", r.url))


class BrokenStartSpider(scrapy.Spider):
    """A start() that raises."""

    name = "brokenstart"

    async def start(self):
        yield scrapy.Request(page_url(1_000_001), dont_filter=True)
        raise ValueError("the list of start requests is broken")

    def parse(self, response):
        record("parsed", response.url)


class BigStartSpider(scrapy.Spider):
    """More start requests than are made within a lease, in one go."""

    name = "bigstart"

    async def start(self):
        for number in range(15_000):
            yield scrapy.Request(page_url(1_000_000 + number))

    def parse(self, response):
        record("parsed", response.url)


class EndlessSpider(scrapy.Spider):
    """A start() that never ends."""

    name = "endless"

    async def start(self):
        for number in itertools.count(1_000_000):
            if number % 50 == 0:
                await _sleep(0.001)
            yield scrapy.Request(page_url(number))

    def parse(self, response):
        record("parsed", response.url)


class SlowCallbackSpider(scrapy.Spider):
    """Callbacks that wait long, each a different time."""

    name = "slowcallback"

    async def start(self):
        for number in range(600):
            yield scrapy.Request(page_url(1_000_000 + number))

    async def parse(self, response):
        await _sleep(0.5 + int(response.url[-1]) / 10)
        record("parsed", response.url)


class BadCodeQueue(PriorityQueue):
    """Raises what nobody expects, once."""

    raised = False

    def decode_request(self, entry):
        if not self.raised:
            self.raised = True
            raise KeyError("unexpected")
        return super().decode_request(entry)


class BadStats(MemoryStatsCollector):
    """Raises once, in the middle of a reply."""

    raised = False

    def inc_value(self, key, *args, **kwargs):
        if key in ("scheduler/enqueued/redis", "frontier/exchanges") and not self.raised:
            self.raised = True
            raise KeyError("unexpected")
        super().inc_value(key, *args, **kwargs)


class BadWordsSpider(SeedsSpider):
    """Says of a bad seed what cannot be sent."""

    name = "badwords"

    def make_request_from_data(self, data):
        if b"bad" in data:
            raise ValueError("half a character: \ud800")
        return super().make_request_from_data(data)


class FailingSpider(scrapy.Spider):
    """A callback that raises after it has yielded, downloads that fail, and one page that is well."""

    name = "failing"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"crawls.spiders.FailAlways": 960},
        "RETRY_TIMES": 1,
    }

    async def start(self):
        for number in (1, 2, 3, 4):
            yield scrapy.Request(page_url(1_000_000 + number))

    def parse(self, response):
        if response.url == page_url(1_000_001) and not hasattr(self, "well"):
            yield scrapy.Request(page_url(1_000_005))
            raise KeyError("price")
        record("parsed", response.url)


class FailAlways:
    """A downloader middleware: one URL cannot be reached, another answers with an error."""

    def process_request(self, request, spider=None):
        if request.url == page_url(1_000_002):
            raise ConnectionRefusedError("nobody there")

    def process_response(self, request, response, spider=None):
        return response.replace(status=503) if request.url == page_url(1_000_003) else response


class ChainSpider(scrapy.Spider):
    """Each page has an item, and links to the next one, so that one worker at a time has work.

    GRAPH_PAGES is their number. With ``-a kill_after=N`` each process is killed at its N-th page. The last
    page takes ``last`` seconds, and closing ``linger`` seconds.
    """

    name = "chain"
    kill_after = last = linger = "0"

    async def start(self):
        yield self.page(0)

    def page(self, number):
        is_last = number + 1 == self.settings.getint("GRAPH_PAGES")
        return scrapy.Request(page_url(number), meta={"latency": float(self.last)} if is_last else {})

    def parse(self, response):
        number = int(response.url.rpartition("/")[2]) + 1
        yield {"url": response.url}
        if number < self.settings.getint("GRAPH_PAGES"):
            yield self.page(number)
        record("parsed", response.url)
        if self.crawler.stats.get_value("response_received_count") == int(self.kill_after):
            os.kill(os.getpid(), signal.SIGKILL)

    def closed(self, reason):
        time.sleep(float(self.linger))
