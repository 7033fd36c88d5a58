from hashlib import sha1
from urllib.parse import parse_qsl, urlencode, urlsplit

from scrapy_redis.dupefilter import RFPDupeFilter, get_redis_from_settings
from scrapy_redis_bits.dupefilter import BitsDupeFilter


class NoSessionDupeFilter(RFPDupeFilter):
    """The shop puts a session number into every link: the same page has many URLs."""

    def __init__(self, server, key, debug=False):
        super().__init__(server, key, debug)
        self.ignored = {"sid"}

    def request_fingerprint(self, request):
        parts = urlsplit(request.url)
        query = urlencode(sorted(pair for pair in parse_qsl(parts.query) if pair[0] not in self.ignored))
        return sha1(f"{request.method} {parts._replace(query=query).geturl()}".encode()).hexdigest()


class TellingDupeFilter(NoSessionDupeFilter):
    """Says of each duplicate what it was."""

    def log(self, request, spider):
        self.logger.info("Known already: %s", request.url, extra={"spider": spider})


class FaultyDupeFilter(NoSessionDupeFilter):
    """Its log has a mistake in it."""

    def log(self, request, spider):
        raise KeyError("no such field")


class OwnKeyDupeFilter(NoSessionDupeFilter):
    """Its fingerprints have a key of their own."""

    @classmethod
    def from_spider(cls, spider):
        made = super().from_spider(spider)
        made.key = f"shop:{spider.name}:seen"
        return made


class SaltedDupeFilter(NoSessionDupeFilter):
    """Its constructor has another argument, which from_spider knows."""

    def __init__(self, server, key, debug, salt):
        super().__init__(server, key, debug)
        self.salt = salt

    @classmethod
    def from_spider(cls, spider):
        server = get_redis_from_settings(spider.settings)
        return cls(server, f"{spider.name}:dupefilter", False, spider.settings.get("SALT", "salt"))

    def request_fingerprint(self, request):
        return self.salt + super().request_fingerprint(request)


class UnmakeableDupeFilter(NoSessionDupeFilter):
    """Its constructor has another argument, which nothing knows."""

    def __init__(self, server, key, debug, salt):
        super().__init__(server, key, debug)


class BitsOfPagesDupeFilter(BitsDupeFilter):
    """The filter of another package, which builds on scrapy-redis and stays there."""

    ignored = frozenset({"sid"})
    request_fingerprint = NoSessionDupeFilter.request_fingerprint
