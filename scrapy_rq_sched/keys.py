"""Every key that a frontier has in Redis. No other module spells one.

``<spider>`` stands for the spider's name; on a Redis Cluster for the name in braces, by which all of them
are on one slot. Names are scrapy-redis's where it has one. The queue's, the filter's and the seeds' are
settings; those that follow the seeds' begin with what the queue's begins with (see :attr:`Keys.prefix`).
``*`` marks the keys that stay when a crawl ends; of the others each is removed then, or has a time to live.

=================================  ================  =======================================================
key                                type              holds
=================================  ================  =======================================================
``<spider>:requests``              list, sorted set  waiting requests, serialized: a list for ``FifoQueue``
                                                     and ``LifoQueue``, a sorted set for ``PriorityQueue``
``<spider>:requests:count``        string            how many were ever pushed: equal priorities keep the
                                                     order of arrival by it
``<spider>:requests:converting``   hash              while the queue is converted to another serializer:
                                                     from what, to what, and how much of a list is left; or
                                                     while a frontier is imported: how far. No worker joins
``<spider>:dupefilter``            set               fingerprints seen, in hexadecimal; with
                                                     ``CompactDupeFilter``, those not yet converted
``<spider>:dupefilter:*``          hash, set, list   with ``CompactDupeFilter``: ``…:buckets``, what it
                                                     consists of; ``…:<name>:<n>``, 62 bits of each
                                                     fingerprint; ``…:cleared``, cleared ones yet to be
                                                     deleted
``<spider>:dupefilter:frontiers``  set               the frontiers that have this filter, by what their
                                                     keys begin with: the last of them clears it
``<spider>:start_urls`` *          list              seeds; a set or a sorted set is read as well
``<spider>:seeding``               hash              while seeds are pushed from a file: SHA-256 of them, how
                                                     many are in; for a week if it broke off
``<spider>:started``               set               fingerprints of the start requests this crawl has had;
                                                     those that are not filtered end in ``#`` and their
                                                     number
``<spider>:delayed``               sorted set        requests and seeds set back for another worker:
                                                     refused, or passed over because workers died of them.
                                                     Score: the server's time (milliseconds) from which they
                                                     may be taken. ``<kind> <score> <worker>/<lease>
                                                     <request>``
``<spider>:workers``               sorted set        worker, by the server's time (milliseconds) after which
                                                     it counts as dead
``<spider>:worker:<id>``           hash              what a worker said of itself, and its last exchange;
                                                     for a minute after it has left, that it has: an
                                                     exchange that comes late does not have it join again
``<spider>:leases:<id>``           hash              what a worker holds: lease, and ``<kind> <score>
                                                     <deaths>@<second> <request>``
``<spider>:history``               hash              SHA-1 of a request that came back, and what befell it:
                                                     ``died:``, ``unbegun:``, ``refused:`` or ``done:``,
                                                     worker, ``@`` and second
``<spider>:failed`` *              list              requests and seeds set aside, each a JSON object with
                                                     the reason and the time; the latest
                                                     ``FRONTIER_MAX_FAILED`` of them
``<spider>:meta``                  hash              what the frontier was made with, its epoch, how many
                                                     pages were done, and what all workers are told:
                                                     ``state`` (``paused``, ``draining``), ``stop``. When
                                                     the crawl was finished (``finished``), until somebody
                                                     has cleared up. How many requests waited and how many
                                                     fingerprints there were at the last exchange
                                                     (``waiting``, ``seen``). How many requests were found,
                                                     how many of them cannot be shared, and why (``found``,
                                                     ``unshared``, ``unshared_reason``). When all was
                                                     found to be gone (``lost``)
``<spider>:finished``              string            the server's time (milliseconds) of the last finish
``<spider>:pages``                 list              how many pages were done in each ten seconds of the last
                                                     hour, the latest first: ``<second> <pages> <waiting>``
``<spider>:exported``              list              while the frontier is exported: what workers were through
                                                     with meanwhile, as they held it
``<spider>:items`` *               list              items, serialized: see ``pipelines.py``
``<spider>:items:batch:<id>``      string            number of the last batch of items that a worker stored,
                                                     for an hour
``<spider>:stats``                 hash              statistics: see ``stats.py``
``<spider>:stats:batch:<id>``      string            the same of statistics
=================================  ================  =======================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REQUESTS = "%(spider)s:requests"
DUPEFILTER = "%(spider)s:dupefilter"
START_URLS = "%(name)s:start_urls"
ITEMS = "%(spider)s:items"
STATS = "%(spider)s:stats"

#: Of a dupefilter that is used by itself: nobody else has one of this second.
STANDALONE_DUPEFILTER = "dupefilter:%(timestamp)s"

_SUFFIX = ":requests"


def expand(template: str, spider: str, job: str = "", hash_tag: bool = False) -> str:
    """Return the key that *template* names for the spider called *spider*.

    :param template: may say ``%(spider)s`` or, as scrapy-redis's seeds key does, ``%(name)s``; and
        ``%(job)s``.
    :param job: which of several crawls of the spider it is.
    :param hash_tag: whether the name goes into braces, unless *template* has some, so that a Redis Cluster
        keeps all keys of the spider on one slot.
    """
    name = f"{{{spider}}}" if hash_tag and "{" not in template else spider
    return template % {"spider": name, "name": name, "job": job}


@dataclass(frozen=True)
class Keys:
    """The keys of one spider's frontier.

    :param spider: the spider's name.
    :param requests_template: of the queue's key.
    :param dupefilter_template: of the seen set's key.
    :param start_urls_templates: of the seeds' keys, the one that is read first before the others.
    :param job: which of several crawls of the spider it is.
    :param hash_tag: whether they are on a Redis Cluster.
    """

    spider: str
    requests_template: str = REQUESTS
    dupefilter_template: str = DUPEFILTER
    start_urls_templates: Sequence[str] = (START_URLS,)
    job: str = ""
    hash_tag: bool = False

    def of(self, template: str) -> str:
        """Return the key that *template* names."""
        return expand(template, self.spider, self.job, self.hash_tag)

    @property
    def requests(self) -> str:
        """Waiting requests."""
        return self.of(self.requests_template)

    @property
    def dupefilter(self) -> str:
        """Fingerprints seen."""
        return self.of(self.dupefilter_template)

    @property
    def start_urls(self) -> list[str]:
        """Seeds, the first of those that are read first."""
        return [self.of(template) for template in self.start_urls_templates]

    @property
    def seeding(self) -> str:
        """How far those have got who push seeds from a file."""
        return f"{self.prefix}:seeding"

    @property
    def prefix(self) -> str:
        """What the other keys begin with: the queue's key, with its ``:requests`` at the end taken away.

        So whoever has a queue of his own has a frontier of his own. One without that end gets another, so
        that it is nobody else's.
        """
        requests = self.requests
        return requests.removesuffix(_SUFFIX) if requests.endswith(_SUFFIX) else f"{requests}:frontier"

    @property
    def failed(self) -> str:
        """Requests and seeds that were set aside."""
        return f"{self.prefix}:failed"

    @property
    def meta(self) -> str:
        """What the frontier was made with, and what all workers are told."""
        return f"{self.prefix}:meta"

    @property
    def started(self) -> str:
        """Fingerprints of the start requests that the crawl has had."""
        return f"{self.prefix}:started"

    @property
    def delayed(self) -> str:
        """Requests and seeds set back for another worker."""
        return f"{self.prefix}:delayed"

    @property
    def workers(self) -> str:
        """Workers, by when they count as dead."""
        return f"{self.prefix}:workers"

    @property
    def finished(self) -> str:
        """When the crawl finished last."""
        return f"{self.prefix}:finished"

    @property
    def pages(self) -> str:
        """How many pages were done in each ten seconds of the last hour."""
        return f"{self.prefix}:pages"

    @property
    def exported(self) -> str:
        """What workers are through with while the frontier is exported."""
        return f"{self.prefix}:exported"

    @property
    def history(self) -> str:
        """What befell requests that came back."""
        return f"{self.prefix}:history"

    def worker(self, name: str) -> str:
        """Return the key of what the worker called *name* has said of itself."""
        return f"{self.prefix}:worker:{name}"

    def leases(self, name: str) -> str:
        """Return the key of what the worker called *name* holds."""
        return f"{self.prefix}:leases:{name}"

    def all(self) -> list[str]:
        """Return what the scripts get as ``KEYS``, in the order that ``lua/keys.lua`` names them."""
        return [*self.own(), *self.start_urls]

    def own(self) -> list[str]:
        """Return those of them that are not the seeds'.

        Two of them are what other keys begin with, and are never there. While a Cluster moves a slot, Redis
        refuses a script one of whose keys is not where it would run: so it never runs where only some are.
        """
        return [
            self.requests,
            queue_counter(self.requests),
            self.dupefilter,
            self.started,
            self.delayed,
            self.workers,
            self.worker(""),
            self.leases(""),
            self.history,
            self.failed,
            self.meta,
            self.finished,
            self.pages,
            self.exported,
        ]


def queue_counter(requests: str) -> str:
    """Return the key of the counter by which the queue *requests* keeps the order of arrival."""
    return f"{requests}:count"


def never(key: str) -> str:
    """Return a key on the slot of *key* that is never there; see :meth:`Keys.all`."""
    return f"{key}:never"


def converting(requests: str) -> str:
    """Return the key of how far the conversion of the queue *requests* has got."""
    return f"{requests}:converting"


def dupefilter_frontiers(dupefilter: str) -> str:
    """Return the key of the frontiers that have the filter *dupefilter*."""
    return f"{dupefilter}:frontiers"


def last_batch(key: str, worker: str) -> str:
    """Return the key of the number of the last batch of *worker* that *key* has taken."""
    return f"{key}:batch:{worker}"
