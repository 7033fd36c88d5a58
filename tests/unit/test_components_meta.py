"""What Scrapy's components, and those that many use with it, put into a request: all of it can be shared.

Each row makes a request as its component makes it, or has the component itself make it. What comes back from
Redis is equal, and made of base types only. What would not be equal is refused, and the field is named.
"""

from __future__ import annotations

import enum
import inspect
import urllib.parse
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from http import HTTPStatus
from types import MappingProxyType, SimpleNamespace
from typing import Any

import fakeredis
import pytest
import scrapy
from itemloaders.processors import MapCompose, TakeFirst
from scrapy import FormRequest, Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware, RedirectMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware, get_retry_request
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.loader import ItemLoader
from scrapy.pipelines.files import FilesPipeline
from scrapy.pipelines.images import ImagesPipeline
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider
from scrapy.utils.iterators import xmliter_lxml
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import PriorityQueue
from scrapy_rq_sched.errors import UnserializableRequestError

from .test_request import PagesSpider, same

try:
    import bs4
except ImportError:
    bs4 = None

URL = "http://example.com/list/"
SERIALIZERS = ["json", "json+deflate", "msgpack", "pickle"]
HTML = """
<html><head><title>The list</title></head><body>
<a class="item first" href="/item/1?a=1&amp;b=2" data-id="7">The <b>first</b> ite\N{LATIN SMALL LETTER M}</a>
<a class="item" href="/item/2">Zweit\N{LATIN SMALL LETTER E WITH DIAERESIS}s</a><a href="/item/3"></a>
<form action="/find"><input name="q" value="x"><input type="hidden" name="token" value="42"></form>
</body></html>
"""
XML = "<rss><channel><item><title>First</title><link>http://example.com/item/1</link></item></channel></rss>"
SITEMAP = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc>http://example.com/item/1</loc><lastmod>2026-01-01</lastmod></url></urlset>"
)


class AllSpider(PagesSpider, CrawlSpider):
    """Has what the rows need."""

    name = "pages"
    http_user, http_pass, http_auth_domain = "me", "secret", None
    rules = (
        Rule(LinkExtractor(allow="/item/1"), "parse_item", cb_kwargs={"kind": "first"}, follow=True),
        Rule(LinkExtractor(restrict_css="a"), "parse_item"),
    )


class MapSpider(SitemapSpider):
    """Reads a sitemap."""

    name = "pages"
    sitemap_rules = [("/item/", "parse_item")]

    def parse_item(self, response: Any) -> None:
        pass


class Bench:
    """A spider with its crawler, and pages that it has fetched."""

    def __init__(self) -> None:
        self.crawler = self.crawler_with()
        self.spider = self.crawler.spider
        self.origin = Request(URL, self.spider.parse, meta={"depth": 2})
        body = HTML.encode()
        self.page = HtmlResponse(URL, body=body, encoding="utf-8", request=self.origin)
        self.anchors = self.page.css("a")
        #: lxml's own elements, of which parsel makes selectors.
        self.tree = self.page.selector.root

    @staticmethod
    def crawler_with(**settings: Any) -> Crawler:
        """Return a crawler, with its spider, that has these settings."""
        crawler = get_crawler(AllSpider, settings)
        crawler.spider = AllSpider.from_crawler(crawler)
        return crawler

    def meta(self, **values: Any) -> Request:
        """Return a request with *values* in its meta."""
        return Request(URL, self.spider.parse_item, meta=values)

    def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a middleware's *method*, which before Scrapy 2.14 has to be given the spider."""
        spider = inspect.signature(method).parameters.get("spider")
        if spider is not None and spider.default is spider.empty:
            return method(*arguments, spider=self.spider)
        return method(*arguments)

    def through(self, cls: type, request: Request | None = None, **settings: Any) -> Request:
        """Return a request that went through a downloader middleware and is then tried again."""
        request = request or Request(URL, self.spider.parse_item)
        crawler = self.crawler_with(**settings)
        middleware = cls.from_crawler(crawler)
        if hasattr(middleware, "spider_opened"):
            middleware.spider_opened(crawler.spider)
        self.call(middleware.process_request, request)
        return request.replace(dont_filter=True)

    def answered(self, cls: type, response: Response, request: Request | None = None) -> Request:
        """Return the request that a downloader middleware makes of *response*."""
        middleware = cls.from_crawler(self.crawler)
        request = request or Request(URL, self.spider.parse_item, meta={"depth": 1})
        made = self.call(middleware.process_response, request, response)
        assert isinstance(made, Request)
        return made

    def yielded(self, cls: type, request: Request, **settings: Any) -> Request:
        """Return *request*, yielded by the callback, as a spider middleware leaves it."""
        middleware = cls.from_crawler(self.crawler_with(**settings))
        (made,) = self.call(middleware.process_spider_output, self.page, [request])
        assert isinstance(made, Request)
        return made


# -- what components make ----------------------------------------------------------------------------


def ruled(bench: Bench, number: int) -> Request:
    return [*bench.spider._requests_to_follow(bench.page)][number]


def of_sitemap(bench: Bench) -> Request:
    spider = MapSpider.from_crawler(bench.crawler)
    (made,) = spider._parse_sitemap(XmlResponse(f"{URL}sitemap.xml", body=SITEMAP.encode()))
    return made.replace(callback=bench.spider.parse_item)


def of_feed(bench: Bench) -> Request:
    (node,) = xmliter_lxml(XmlResponse(URL, body=XML.encode()), "item")
    title = node.xpath("title/text()").get()
    return Request(node.xpath("string(link)").get(), meta={"title": title}, cb_kwargs={"title": title})


def loaded(bench: Bench) -> Request:
    class Loader(ItemLoader):
        default_item_class = dict
        title_in = MapCompose(str.strip)
        title_out = TakeFirst()

    loader = Loader(response=bench.page)
    loader.add_css("title", "title::text")
    loader.add_xpath("links", "//a/@href")
    loader.add_value("text", bench.tree.xpath("//a[2]/text()"))
    loader.add_value("found", 3)
    return bench.meta(item=loader.load_item(), title=loader.get_output_value("title"))


def throttled(bench: Bench) -> Request:
    request = Request(URL, meta={"download_slot": "example.com", "download_latency": 0.125})
    throttle = AutoThrottle(bench.crawler_with(AUTOTHROTTLE_ENABLED=True))
    slot = SimpleNamespace(delay=5.0, transferring=[])
    downloader = SimpleNamespace(slots={"example.com": slot})
    throttle.crawler.engine = SimpleNamespace(downloader=downloader)
    throttle.mindelay, throttle.maxdelay = 0.0, 60.0
    throttle._response_downloaded(Response(URL), request, bench.spider)
    assert slot.delay < 5
    return request.replace(dont_filter=True)


def with_cookies(bench: Bench) -> Request:
    middleware = CookiesMiddleware.from_crawler(bench.crawler)
    request = Request(URL, cookies={"session": "1", "lang": "de"}, meta={"cookiejar": 3})
    bench.call(middleware.process_request, request)
    answer = Response(URL, headers={"Set-Cookie": ["a=b; Path=/", "c=d"]})
    bench.call(middleware.process_response, request, answer)
    bench.call(middleware.process_request, request)
    assert b"a=b" in request.headers[b"Cookie"]
    return request


REDIRECT = Response(URL, 302, headers={"Location": "/item/1"})
COMPONENTS: dict[str, Callable[[Bench], Request]] = {
    "a rule": lambda b: ruled(b, 0),
    "a rule without a function of its own": lambda b: ruled(b, 1),
    "a rule, and a link without a text": lambda b: ruled(b, 2),
    "a rule, redirected": lambda b: b.answered(RedirectMiddleware, REDIRECT, ruled(b, 0)),
    "a link's text and fragment": lambda b: b.meta(
        **{name: getattr(LinkExtractor().extract_links(b.page)[0], name) for name in ("text", "fragment")}
    ),
    "response.follow": lambda b: b.page.follow(b.anchors[0], cb_kwargs=dict(b.anchors[0].attrib)),
    "response.follow_all": lambda b: [
        *b.page.follow_all(css="a", meta={"title": b.page.css("title::text").get()})
    ][1],
    "response.follow, a text of lxml as the address": lambda b: b.page.follow(b.tree.xpath("//a/@href")[0]),
    "Request, a text of lxml as the address": lambda b: Request(
        b.tree.xpath("string(//a/@href)").join(["http://example.com", ""])
    ),
    "a sitemap": of_sitemap,
    "a feed": of_feed,
    "an item loader": loaded,
    "selectors' texts": lambda b: b.meta(
        one=b.anchors.get(),
        text=b.anchors.xpath("string()").get(),
        many=b.anchors.css("::text").getall(),
        attributes=b.anchors[0].attrib,
        matched=b.anchors.re(r"(\w+)<"),
        root=b.anchors.xpath("string()")[0].root,
        count=b.page.xpath("count(//a)").get(),
    ),
    "JMESPath": lambda b: b.meta(
        found=TextResponse(URL, body=b'{"a": {"b": [1, 2.5, "x", null, true]}}').jmespath("a.b").getall(),
        json=TextResponse(URL, body=b'{"a": {"b": [1, 2.5, "x", null, true]}}').json(),
    ),
    "a form": lambda b: FormRequest.from_response(b.page, formdata={"q": "shoes"}, meta={"page": 1}),
    "cookies as a list": lambda b: Request(
        URL, cookies=[{"name": "a", "value": "b", "domain": "example.com", "path": "/"}]
    ),
    "CookiesMiddleware": with_cookies,
    "cookies from lxml": lambda b: Request(URL, cookies={"token": b.tree.xpath("//input/@value")[1]}),
    "RetryMiddleware, after an error": lambda b: b.answered(RetryMiddleware, Response(URL, 503)),
    "RetryMiddleware, after an exception": lambda b: b.call(
        RetryMiddleware.from_crawler(b.crawler).process_exception, b.meta(depth=1), TimeoutError()
    ),
    "get_retry_request": lambda b: get_retry_request(
        b.meta(priority_adjust=-2), spider=b.spider, reason="empty", max_retry_times=5
    ),
    "RedirectMiddleware": lambda b: b.answered(RedirectMiddleware, REDIRECT),
    "MetaRefreshMiddleware": lambda b: b.answered(
        MetaRefreshMiddleware,
        HtmlResponse(URL, body=b'<meta http-equiv="refresh" content="0; url=/item/1">', encoding="utf-8"),
    ),
    "HttpProxyMiddleware": lambda b: b.through(
        HttpProxyMiddleware, b.meta(proxy="http://user:secret@proxy.example.com:3128")
    ),
    "DownloadTimeoutMiddleware": lambda b: b.through(DownloadTimeoutMiddleware, DOWNLOAD_TIMEOUT=7.5),
    "DefaultHeadersMiddleware": lambda b: b.through(DefaultHeadersMiddleware),
    "UserAgentMiddleware": lambda b: b.through(UserAgentMiddleware, USER_AGENT="bot"),
    "HttpAuthMiddleware": lambda b: b.through(HttpAuthMiddleware),
    "HttpCompressionMiddleware": lambda b: b.through(HttpCompressionMiddleware),
    "HttpCacheMiddleware, of what it does not keep": lambda b: b.through(
        HttpCacheMiddleware, HTTPCACHE_ENABLED=True, HTTPCACHE_IGNORE_SCHEMES=["http"]
    ),
    "AutoThrottle and the downloader": throttled,
    "DepthMiddleware": lambda b: b.yielded(DepthMiddleware, b.meta(), DEPTH_PRIORITY=1),
    "RefererMiddleware": lambda b: b.yielded(RefererMiddleware, b.meta()),
    "a start request": lambda b: b.meta(is_start_request=True),
    "statuses": lambda b: b.meta(
        dont_redirect=True,
        handle_httpstatus_list=[301, 302, 404],
        handle_httpstatus_all=False,
        dont_retry=True,
        max_retry_times=10,
    ),
    "statuses by name": lambda b: b.meta(
        handle_httpstatus_list=[HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.NOT_FOUND]
    ),
    "the downloader's keys": lambda b: b.meta(
        download_slot=urllib.parse.urlsplit(URL).hostname,
        download_timeout=2.5,
        download_latency=0.1,
        download_maxsize=0,
        download_fail_on_dataloss=False,
        bindaddress="127.0.0.1",
        autothrottle_dont_adjust_delay=True,
        dont_cache=True,
        dont_merge_cookies=True,
        dont_obey_robotstxt=True,
        allow_offsite=True,
        referrer_policy="no-referrer",
    ),
    "splash": lambda b: b.meta(
        splash={
            "endpoint": "render.html",
            "args": {"wait": 0.5, "url": URL, "lua_source": "function main(splash) end", "html": 1},
            "cache_args": ["lua_source"],
            "slot_policy": "per_domain",
            "splash_headers": {"X": "y"},
            "magic_response": True,
            "session_id": "default",
        }
    ),
    "playwright": lambda b: b.meta(
        playwright=True,
        playwright_include_page=False,
        playwright_context="new",
        playwright_context_kwargs={"ignore_https_errors": True, "viewport": {"width": 1, "height": 2}},
        playwright_page_goto_kwargs={"wait_until": "networkidle"},
    ),
    "flags": lambda b: Request(URL, flags=["cached", b.tree.xpath("string(//title)")]),
    "headers of lxml's text": lambda b: Request(URL, headers={"X-Token": b.tree.xpath("//input/@value")[1]}),
}


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def queue_of(spider: scrapy.Spider, serializer: str) -> PriorityQueue:
    server = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    return PriorityQueue(server, spider, "%(spider)s:requests", serializer)


def there_and_back(request: Request, spider: scrapy.Spider, serializer: str) -> Request:
    queue = queue_of(spider, serializer)
    return queue.decode_request(queue.encode_request(request))


def of_base_types(value: Any) -> bool:
    """Return whether *value* is, all through, what every serializer gives back."""
    if type(value) is dict:
        return all(of_base_types(part) for item in value.items() for part in item)
    if type(value) in (list, tuple):  # an item of a dict is a tuple
        return all(map(of_base_types, value))
    return type(value) in (str, bytes, int, float, bool, type(None))


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_request_of_a_component_comes_back_equal(bench: Bench, component: str, serializer: str) -> None:
    request = COMPONENTS[component](bench)
    back = there_and_back(request, bench.spider, serializer)
    assert type(back) is type(request)
    for field in request.attributes:
        assert getattr(back, field) == getattr(request, field), field
    if serializer != "pickle":  # which gives back the class as well
        assert of_base_types([back.meta, back.cb_kwargs, back.flags, back.cookies])


# -- values that equal those of their base type ------------------------------------------------------


class Text(str):
    """A subclass that adds nothing."""


class Whole(int):
    """A subclass that adds nothing."""


class Real(float):
    """A subclass that adds nothing, as numpy's float64."""


class Row(list):
    """A subclass that adds nothing."""


class Record(dict):
    """A subclass that adds nothing."""


class Shouting(str):
    """Equal to its text, though it is shown in another way."""

    def __str__(self) -> str:
        return self.upper()


class Priced(float):
    """Equal to its number, though it is shown in another way."""

    def __repr__(self) -> str:
        return f"{float(self):.1f} EUR"


class Colour(enum.IntEnum):
    RED = 1


class Right(enum.IntFlag):
    READ = 4
    WRITE = 2


class Word(str, enum.Enum):
    """Which str() gives as Word.HELLO; so does enum.StrEnum not, that is newer than Python 3.10."""

    HELLO = "hello"


def markup() -> Any:
    tag = bs4.BeautifulSoup(HTML, "html.parser").a  # type: ignore[union-attr]
    return {"string": tag.b.string, "class": tag["class"], "attributes": tag.attrs, "name": tag.name}


EQUAL: dict[str, tuple[Callable[[], Any], Any]] = {
    "a subclass of str": (lambda: Text("x"), "x"),
    "a subclass of int": (lambda: Whole(7), 7),
    "a subclass of float": (lambda: Real(1.5), 1.5),
    "a subclass of float, minus zero": (lambda: Real(-0.0), -0.0),
    "a subclass of list": (lambda: Row([1, Text("x")]), [1, "x"]),
    "a subclass of dict": (lambda: Record(a=Row([Whole(1)])), {"a": [1]}),
    "a str that is shown otherwise": (lambda: Shouting("x"), "x"),
    "a float that is shown otherwise": (lambda: Priced(2.5), 2.5),
    "IntEnum": (lambda: Colour.RED, 1),
    "HTTPStatus": (lambda: HTTPStatus.NOT_FOUND, 404),
    "IntFlag": (lambda: Right.READ | Right.WRITE, 6),
    "an enumeration of texts": (lambda: Word.HELLO, "hello"),
    "OrderedDict": (lambda: OrderedDict(b=1, a=OrderedDict(c=2)), {"b": 1, "a": {"c": 2}}),
    "defaultdict": (lambda: defaultdict(list, a=[1]), {"a": [1]}),
    "Counter": (lambda: Counter("aab"), {"a": 2, "b": 1}),
    "an empty subclass of dict": (lambda: {"kept": defaultdict(int)}, {"kept": {}}),
    "keys that are subclasses of str": (lambda: {Text("a"): 1, Word.HELLO: 2}, {"a": 1, "hello": 2}),
    "nested": (lambda: [{"a": Record({Text("b"): [Text("c"), Colour.RED]})}], [{"a": {"b": ["c", 1]}}]),
    "text of lxml": (lambda: Bench().tree.xpath("//title/text()")[0], "The list"),
    "texts of lxml": (lambda: Bench().tree.xpath("//a/@href"), ["/item/1?a=1&b=2", "/item/2", "/item/3"]),
    "True": (lambda: [True, False], [True, False]),
    "True, where there are integers": (
        lambda: {"a": True, "b": 1, "c": Whole(1)},
        {"a": True, "b": 1, "c": 1},
    ),
    "minus zero": (lambda: -0.0, -0.0),
    "a large number": (lambda: Whole(2**63 - 1), 2**63 - 1),
}
if hasattr(enum, "StrEnum"):
    EQUAL["StrEnum"] = (lambda: enum.StrEnum("Name", {"A": "a"})("a"), "a")
if bs4:
    EQUAL["BeautifulSoup"] = (
        markup,
        {
            "string": "first",
            "class": ["item", "first"],
            "attributes": {"class": ["item", "first"], "href": "/item/1?a=1&b=2", "data-id": "7"},
            "name": "a",
        },
    )

PLACES: dict[str, Callable[[Any], Request]] = {
    "meta": lambda value: Request(URL, meta={"odd": value}),
    "cb_kwargs": lambda value: Request(URL, cb_kwargs={"odd": value}),
    "flags": lambda value: Request(URL, flags=[value]),
    "cookies": lambda value: Request(URL, cookies={"odd": value}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("serializer", [name for name in SERIALIZERS if name != "pickle"])
@pytest.mark.parametrize("kind", EQUAL)
def test_a_value_that_equals_its_base_type_is_stored_as_that(
    bench: Bench, kind: str, serializer: str, place: str
) -> None:
    make, base = EQUAL[kind]
    back = there_and_back(PLACES[place](make()), bench.spider, serializer)
    found = getattr(back, place)
    found = found[0] if place == "flags" else found["odd"]
    assert same(found, base), f"{found!r} is a {type(found).__name__}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [kind for kind in EQUAL if kind != "StrEnum"])  # of no module: not picklable
def test_a_pickle_gives_back_an_equal_value(bench: Bench, kind: str, place: str) -> None:
    request = PLACES[place](EQUAL[kind][0]())
    back = there_and_back(request, bench.spider, "pickle")
    assert getattr(back, place) == getattr(request, place)


def test_to_store_a_request_does_not_change_it(bench: Bench) -> None:
    kept = Record({Text("a"): Row([Text("b")])})
    request = Request(URL, meta={"kept": kept})
    there_and_back(request, bench.spider, "json")
    assert request.meta["kept"] is kept
    assert same(kept, Record({Text("a"): Row([Text("b")])}))


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("value", [Whole(5), Colour.RED, True], ids=repr)
def test_a_priority_that_equals_an_integer_is_stored_as_that(
    bench: Bench, value: Any, serializer: str
) -> None:
    back = there_and_back(Request(URL, priority=value), bench.spider, serializer)
    assert back.priority == value


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_a_method_that_is_a_subclass_of_text_is_stored_as_text(bench: Bench, serializer: str) -> None:
    request = Request(URL)
    request.method = Text("POST")
    assert there_and_back(request, bench.spider, serializer).method == "POST"


# -- values that would not be equal ------------------------------------------------------------------


class Unequal(str):
    """Text that equals nothing else."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class UnequalNumber(int):
    """A number that equals nothing else."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class UnequalRow(list):
    """A list that equals nothing else."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class Caseless(dict):
    """A dict that equals others by keys in lower case; its keys are not those that it was given."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caseless) and super().__eq__(other)


class Product(scrapy.Item):
    name = scrapy.Field()


class PageMethod:
    """As scrapy-playwright's: what is to be called on a page."""

    def __init__(self, method: str, *args: Any) -> None:
        self.method, self.args = method, args


#: Pickle keeps these as they are.
UNEQUAL: dict[str, Callable[[], Any]] = {
    "a str that equals nothing else": lambda: Unequal("x"),
    "an int that equals nothing else": lambda: UnequalNumber(1),
    "a list that equals nothing else": lambda: UnequalRow([1]),
    "a dict that equals nothing else": lambda: Caseless(a=1),
    "within a list": lambda: [1, {"a": [Unequal("x")]}],
    "a set": lambda: {1, 2},
    "a tuple": lambda: (404, 500),
    "datetime": lambda: datetime(2026, 1, 1, tzinfo=timezone.utc),
    "date": lambda: date(2026, 1, 1),
    "Decimal": lambda: Decimal(1),
    "complex": lambda: 1j,
    "a range": lambda: range(200, 300),
    "bytearray": lambda: bytearray(b"x"),
    "UserDict": lambda: UserDict(a=1),
    "an Item": lambda: Product(name="x"),
    "a Response": lambda: Response(URL),
    "a Request": lambda: Request(URL),
    "a PageMethod": lambda: [PageMethod("click", "a")],
}
#: Nothing keeps these.
UNFIT: dict[str, Callable[[], Any]] = {
    "a function": lambda: lambda response: None,
    "a selector": lambda: Bench().anchors[0],
    "attributes of lxml": lambda: Bench().tree.xpath("//a")[0].attrib,
    "a mappingproxy": lambda: MappingProxyType({"a": 1}),
    "a generator": lambda: (n for n in range(2)),
    "an open file": lambda: open(__file__),  # noqa: SIM115 - nobody reads it
}


@pytest.mark.parametrize("place", ["meta", "cb_kwargs"])
@pytest.mark.parametrize("serializer", [name for name in SERIALIZERS if name != "pickle"])
@pytest.mark.parametrize("kind", UNEQUAL)
def test_a_value_that_would_not_be_equal_is_refused_by_the_name_of_its_field(
    bench: Bench, kind: str, serializer: str, place: str
) -> None:
    with pytest.raises(UnserializableRequestError, match=place):
        there_and_back(PLACES[place](UNEQUAL[kind]()), bench.spider, serializer)


@pytest.mark.parametrize("place", ["meta", "cb_kwargs"])
@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("kind", UNFIT)
def test_a_value_that_no_serializer_can_keep_is_refused_by_the_name_of_its_field(
    bench: Bench, kind: str, serializer: str, place: str
) -> None:
    with pytest.raises(UnserializableRequestError, match=place):
        there_and_back(PLACES[place](UNFIT[kind]()), bench.spider, serializer)


@pytest.mark.parametrize("serializer", ["json", "json+deflate"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), Real("nan"), Real("-inf")], ids=repr)
def test_a_number_that_json_does_not_have_is_refused(bench: Bench, value: float, serializer: str) -> None:
    with pytest.raises(UnserializableRequestError, match="meta"):
        there_and_back(PLACES["meta"](value), bench.spider, serializer)


@pytest.mark.parametrize("serializer", ["json", "json+deflate"])
@pytest.mark.parametrize("key", [1, 1.5, None, True, ("a",), Colour.RED, Unequal("x")], ids=repr)
def test_a_key_that_json_would_change_is_refused(bench: Bench, key: Any, serializer: str) -> None:
    with pytest.raises(UnserializableRequestError, match="meta"):
        there_and_back(PLACES["meta"]({key: 1}), bench.spider, serializer)


@pytest.mark.parametrize("cls", [FilesPipeline, ImagesPipeline])
def test_a_media_pipelines_request_which_no_scheduler_sees_is_refused(
    bench: Bench, cls: type[FilesPipeline]
) -> None:
    pipeline = object.__new__(cls)  # what it needs to store a file need not be there
    pipeline.files_urls_field = pipeline.images_urls_field = "urls"  # type: ignore[attr-defined]
    (request,) = pipeline.get_media_requests({"urls": [f"{URL}1.jpg"]}, None)  # type: ignore[arg-type]
    with pytest.raises(UnserializableRequestError, match="callback"):
        there_and_back(request, bench.spider, "json")
