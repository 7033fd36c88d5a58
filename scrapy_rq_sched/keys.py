"""Every key that a frontier has in Redis. No other module spells one.

``<spider>`` stands for the spider's name. Names are scrapy-redis's where it has one; the first three
and the seeds' are settings. ``*`` marks the keys that stay when a crawl ends; of the others each is
removed then, or has a time to live.

==========================  ================  ====================================================
key                         type              holds
==========================  ================  ====================================================
``<spider>:requests``       list, sorted set  waiting requests, serialized: a list for ``FifoQueue``
                                              and ``LifoQueue``, a sorted set for ``PriorityQueue``
``<spider>:requests:count`` string            how many were ever pushed: equal priorities keep the
                                              order of arrival by it
``<spider>:dupefilter``     set               fingerprints seen, in hexadecimal; with
                                              ``CompactDupeFilter``, those not yet converted
``<spider>:dupefilter:*``   hash, set, list   with ``CompactDupeFilter``: ``…:buckets``, what it consists
                                              of; ``…:<name>:<n>``, 62 bits of each fingerprint;
                                              ``…:cleared``, cleared ones yet to be deleted
``<spider>:start_urls`` *   list              seeds; a set or a sorted set is read as well
``<spider>:started``        set               fingerprints of the start requests this crawl has had
``<spider>:delayed``        sorted set        requests and seeds set back for another worker,
                                              by the server's time (milliseconds) at which
                                              they are due:
                                              ``<kind> <score> <worker>/<lease> <request>``
``<spider>:workers``        sorted set        worker, by the server's time (milliseconds) after which
                                              it counts as dead
``<spider>:worker:<id>``    hash              what a worker said of itself, and its last exchange
``<spider>:leases:<id>``    hash              what a worker holds: lease, and
                                              ``<kind> <score> <deaths> <request>``
``<spider>:history``        hash              SHA-1 of a request that came back, and what befell it:
                                              ``died:`` or ``refused:``, worker, ``@`` and second
``<spider>:failed`` *       list              requests and seeds set aside, each a JSON object with
                                              the reason and the time; the latest
                                              ``FRONTIER_MAX_FAILED`` of them
``<spider>:meta``           hash              what the frontier was made with, and its epoch
``<spider>:finished``       string            the server's time (milliseconds) of the last finish
``<spider>:items`` *        list              items, serialized: see ``pipelines.py``
``<spider>:stats``          hash              statistics: see ``stats.py``
``…:batch:<id>``           string            of items and of statistics: the number of the last batch that a
                                              worker stored, for an hour
==========================  ================  ====================================================
"""

from __future__ import annotations

from dataclasses import dataclass

REQUESTS = "%(spider)s:requests"
DUPEFILTER = "%(spider)s:dupefilter"
START_URLS = "%(name)s:start_urls"
ITEMS = "%(spider)s:items"
STATS = "%(spider)s:stats"
#: Of a dupefilter that is used by itself: nobody else has one of this second.
STANDALONE_DUPEFILTER = "dupefilter:%(timestamp)s"


def expand(template: str, spider: str) -> str:
    """Return the key that *template* names for the spider called *spider*.

    A template may say ``%(spider)s`` or, as scrapy-redis's seeds key does, ``%(name)s``.
    """
    return template % {"spider": spider, "name": spider}


@dataclass(frozen=True)
class Keys:
    """The keys of one spider's frontier.

    :param spider: the spider's name.
    :param requests: template of the queue's key.
    :param dupefilter: template of the seen set's key.
    :param start_urls: template of the seeds' key.
    """

    spider: str
    requests_template: str = REQUESTS
    dupefilter_template: str = DUPEFILTER
    start_urls_template: str = START_URLS

    @property
    def requests(self) -> str:
        """Waiting requests."""
        return expand(self.requests_template, self.spider)

    @property
    def dupefilter(self) -> str:
        """Fingerprints seen."""
        return expand(self.dupefilter_template, self.spider)

    @property
    def start_urls(self) -> str:
        """Seeds."""
        return expand(self.start_urls_template, self.spider)

    @property
    def failed(self) -> str:
        """Requests and seeds that were set aside."""
        return f"{self.spider}:failed"

    def all(self) -> list[str]:
        """Return what the scripts get as ``KEYS``, in the order that ``lua/keys.lua`` names them."""
        own = ("started", "delayed", "workers", "worker:", "leases:", "history")
        return [
            self.requests,
            queue_counter(self.requests),
            self.dupefilter,
            self.start_urls,
            *(f"{self.spider}:{name}" for name in own),
            self.failed,
            f"{self.spider}:meta",
            f"{self.spider}:finished",
        ]


def queue_counter(requests: str) -> str:
    """Return the key of the counter by which the queue *requests* keeps the order of arrival."""
    return f"{requests}:count"


def last_batch(key: str, worker: str) -> str:
    """Return the key that has the number of the last batch that *worker* stored at *key*."""
    return f"{key}:batch:{worker}"
