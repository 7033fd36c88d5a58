"""What the keys of a spider's frontier are called in Redis.

Which there are, the table in ``keys/table.py`` says. No other Python module spells one. The queue's,
the filter's and the seeds' keys are settings; the other keys begin with what the queue's key begins with (see
:attr:`Keys.prefix`). Names are scrapy-redis's where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .key import Key, Use
from .table import KEYS

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
    :param slots_template: of what the keys of the states of slots begin with; if it is empty, these are the
        frontier's own.
    :param places_template: of the places that ``FRONTIER_MAX_WORKERS`` allows; if it is empty, these are the
        frontier's own.
    """

    spider: str
    requests_template: str = REQUESTS
    dupefilter_template: str = DUPEFILTER
    start_urls_templates: Sequence[str] = (START_URLS,)
    job: str = ""
    hash_tag: bool = False
    slots_template: str = ""
    places_template: str = ""

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
    def reasons(self) -> str:
        """How many were ever set aside, by reason."""
        return f"{self.failed}:reasons"

    @property
    def times(self) -> str:
        """How long exchanges took."""
        return f"{self.meta}:times"

    @property
    def events(self) -> str:
        """What happened to the fleet."""
        return f"{self.prefix}:events"

    @property
    def audit(self) -> str:
        """What was done by the dashboard."""
        return f"{self.prefix}:audit"

    @property
    def meta(self) -> str:
        """What the frontier was made with, and what all workers are told."""
        return f"{self.prefix}:meta"

    @property
    def started(self) -> str:
        """Fingerprints of the start requests that the crawl has had."""
        return f"{self.prefix}:started"

    @property
    def converting(self) -> str:
        """How far a conversion of the queue, or an import, has got."""
        return f"{self.prefix}:converting"

    @property
    def slots(self) -> str:
        """Slots that have waiting requests."""
        return f"{self.prefix}:slots"

    @property
    def slot_limits(self) -> str:
        """Limits of slots that do not have those of all."""
        return f"{self.prefix}:slots:limits"

    def slot(self, name: str) -> str:
        """Return the key of the state of the slot called *name*."""
        return f"{self.slot_states}:{name}"

    @property
    def slot_states(self) -> str:
        """What the keys of the states of slots begin with. Several spiders may have the same."""
        return self.of(self.slots_template) if self.slots_template else f"{self.prefix}:slots:state"

    @property
    def slots_blocked(self) -> str:
        """Is there as long as any slot is blocked."""
        return f"{self.prefix}:slots:blocked"

    @property
    def slots_cleared(self) -> str:
        """Indexes of slots that were cleared, whose requests are yet to be deleted."""
        return f"{self.prefix}:slots:cleared"

    @property
    def delayed(self) -> str:
        """Requests and seeds set back for another worker."""
        return f"{self.prefix}:delayed"

    @property
    def workers(self) -> str:
        """Workers, by when they count as dead."""
        return f"{self.prefix}:workers"

    @property
    def places(self) -> str:
        """Workers that have a place, where there are only so many. Several spiders may have the same."""
        return self.of(self.places_template) if self.places_template else f"{self.prefix}:places"

    @property
    def line(self) -> str:
        """Workers that wait for a place."""
        return f"{self.places}:line"

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
        """Return what the scripts get as ``KEYS``."""
        return [*self.own(), *self.start_urls]

    def of_queue(self, slot: str) -> list[str]:
        """Return the same for a script that is at one queue only: it takes that of *slot* for the queue."""
        return [self.queue(slot), *self.all()[1:]]

    def queue(self, slot: str) -> str:
        """Return the key of the requests of *slot*; of an empty one, of those whose slot no worker knows."""
        return f"{self.requests}:slot:{slot}" if slot else self.requests

    def own(self) -> list[str]:
        """Return those of them that are not the seeds'.

        Two of them are what other keys begin with, and are never there. While a Cluster moves a slot, Redis
        refuses a script one of whose keys is not where it would run: so it never runs where only some are.
        """
        return [self.at(key) for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]

    def at(self, key: Key) -> str:
        """Return what *key* is called for this spider."""
        return key.place.format(
            requests=self.requests,
            dupefilter=self.dupefilter,
            prefix=self.prefix,
            slot_states=self.slot_states,
            places=self.places,
        )


def queue_counter(requests: str) -> str:
    """Return the key of the counter by which the queue *requests* keeps the order of arrival."""
    return f"{requests}:count"


def never(key: str) -> str:
    """Return a key on the slot of *key* that is never there; see :meth:`Keys.all`."""
    return f"{key}:never"


def dupefilter_frontiers(dupefilter: str) -> str:
    """Return the key of the frontiers that have the filter *dupefilter*."""
    return f"{dupefilter}:frontiers"


def last_batch(key: str, worker: str) -> str:
    """Return the key of the number of the last batch of *worker* that *key* has taken."""
    return f"{key}:batch:{worker}"
