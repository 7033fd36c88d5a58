from hashlib import sha1
from urllib.parse import parse_qsl, urlencode, urlsplit

from scrapy_redis.dupefilter import RFPDupeFilter


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
