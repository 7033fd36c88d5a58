from zlib import adler32, crc32

from scrapy_redis.connection import get_redis_from_settings
from scrapy_redis.dupefilter import RFPDupeFilter


class BitsDupeFilter(RFPDupeFilter):
    """Keeps a few bits of each fingerprint."""

    def __init__(self, server, key, debug, bits):
        self.server = server
        self.key = key
        self.debug = debug
        self.bits = bits
        self.logdupes = True

    @classmethod
    def from_spider(cls, spider):
        server = get_redis_from_settings(spider.settings)
        return cls(server, f"{spider.name}:bits", False, spider.settings.getint("FILTER_BITS", 20))

    def request_seen(self, request):
        text = self.request_fingerprint(request).encode()
        places = [make(text) % (1 << self.bits) for make in (adler32, crc32)]
        known = [self.server.setbit(self.key, place, 1) for place in places]
        return all(known)
