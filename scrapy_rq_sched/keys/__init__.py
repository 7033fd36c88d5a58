"""The names of the keys of a spider's frontier in Redis.

``keys/table.py`` lists all keys, and no other Python module contains their names. The names of the queue, of
the dupefilter and of the seeds are settings. All other keys begin with :attr:`Keys.prefix`. Keys that
scrapy-redis also has keep its names.
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

#: The key of a dupefilter that is used without this scheduler. The time keeps it apart from others.
STANDALONE_DUPEFILTER = "dupefilter:%(timestamp)s"

_SUFFIX = ":requests"


def expand(template: str, spider: str, job: str = "", hash_tag: bool = False) -> str:
    """Return the key that *template* stands for.

    :param template: may contain ``%(spider)s`` or, as in scrapy-redis's key of seeds, ``%(name)s``; and
        ``%(job)s``.
    :param spider: the spider's name.
    :param job: the name of one of several crawls of the spider.
    :param hash_tag: whether to put the spider's name into braces, unless *template* has braces. They keep
        all keys of the spider on one slot of a Redis Cluster.
    """
    name = f"{{{spider}}}" if hash_tag and "{" not in template else spider
    return template % {"spider": name, "name": name, "job": job}


@dataclass(frozen=True)
class Keys:
    """The keys of one spider's frontier.

    :param spider: the spider's name.
    :param requests_template: the template of the queue's key.
    :param dupefilter_template: the template of the dupefilter's key.
    :param start_urls_templates: the templates of the seeds' keys, in the order in which they are read.
    :param job: the name of one of several crawls of the spider.
    :param hash_tag: whether the keys are on a Redis Cluster.
    :param slots_template: the template of the prefix of the states of slots; empty: a prefix of this
        frontier's own.
    :param places_template: the template of the key of the places that ``FRONTIER_MAX_WORKERS`` allows;
        empty: a key of this frontier's own.
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
        """Return the key that *template* stands for."""
        return expand(template, self.spider, self.job, self.hash_tag)

    @property
    def requests(self) -> str:
        """The waiting requests."""
        return self.of(self.requests_template)

    @property
    def dupefilter(self) -> str:
        """The fingerprints seen."""
        return self.of(self.dupefilter_template)

    @property
    def start_urls(self) -> list[str]:
        """The seeds: their keys, in the order in which they are read."""
        return [self.of(template) for template in self.start_urls_templates]

    @property
    def seeding(self) -> str:
        """The progress of pushing seeds from a file."""
        return f"{self.prefix}:seeding"

    @property
    def prefix(self) -> str:
        """The prefix of the other keys: the queue's key without its ``:requests`` at the end.

        So each queue has its own frontier. A queue's key with another end gets ``:frontier`` appended, so
        that no other queue has the same prefix.
        """
        requests = self.requests
        return requests.removesuffix(_SUFFIX) if requests.endswith(_SUFFIX) else f"{requests}:frontier"

    @property
    def failed(self) -> str:
        """The failed list: requests and seeds that were set aside."""
        return f"{self.prefix}:failed"

    @property
    def reasons(self) -> str:
        """How many requests and seeds were ever set aside, by reason."""
        return f"{self.failed}:reasons"

    @property
    def times(self) -> str:
        """The histogram of how long exchanges took."""
        return f"{self.meta}:times"

    @property
    def events(self) -> str:
        """The events of the fleet."""
        return f"{self.prefix}:events"

    @property
    def audit(self) -> str:
        """The actions that were done in the dashboard."""
        return f"{self.prefix}:audit"

    @property
    def meta(self) -> str:
        """The state of the crawl: the settings that workers share, and the orders for all workers."""
        return f"{self.prefix}:meta"

    @property
    def started(self) -> str:
        """The fingerprints of the start requests that the crawl has had."""
        return f"{self.prefix}:started"

    @property
    def converting(self) -> str:
        """The progress of a conversion of the queue, or of an import."""
        return f"{self.prefix}:converting"

    @property
    def slots(self) -> str:
        """The slots that have waiting requests."""
        return f"{self.prefix}:slots"

    @property
    def slot_limits(self) -> str:
        """The limits of slots that have limits of their own."""
        return f"{self.prefix}:slots:limits"

    def slot(self, name: str) -> str:
        """Return the key of the state of the slot *name*."""
        return f"{self.slot_states}:{name}"

    @property
    def slot_states(self) -> str:
        """The prefix of the states of slots, which several spiders may share."""
        return self.of(self.slots_template) if self.slots_template else f"{self.prefix}:slots:state"

    @property
    def slots_blocked(self) -> str:
        """A key that exists while any slot is blocked."""
        return f"{self.prefix}:slots:blocked"

    @property
    def slots_cleared(self) -> str:
        """The cleared indexes of slots whose requests are not yet deleted."""
        return f"{self.prefix}:slots:cleared"

    @property
    def delayed(self) -> str:
        """Requests and seeds that wait for another worker."""
        return f"{self.prefix}:delayed"

    @property
    def workers(self) -> str:
        """The workers, by the time after which they count as dead."""
        return f"{self.prefix}:workers"

    @property
    def places(self) -> str:
        """The workers that have a place (``FRONTIER_MAX_WORKERS``). Several spiders may share the places."""
        return self.of(self.places_template) if self.places_template else f"{self.prefix}:places"

    @property
    def line(self) -> str:
        """The workers that wait in line for a place."""
        return f"{self.places}:line"

    @property
    def finished(self) -> str:
        """The time when a crawl last finished."""
        return f"{self.prefix}:finished"

    @property
    def pages(self) -> str:
        """The number of pages done in each ten seconds of the last hour."""
        return f"{self.prefix}:pages"

    @property
    def exported(self) -> str:
        """The leases that workers finish while the frontier is exported."""
        return f"{self.prefix}:exported"

    @property
    def history(self) -> str:
        """The histories of requests that came back."""
        return f"{self.prefix}:history"

    def worker(self, name: str) -> str:
        """Return the key of the worker *name*: its description and its last exchange."""
        return f"{self.prefix}:worker:{name}"

    def leases(self, name: str) -> str:
        """Return the key of the leases of the worker *name*."""
        return f"{self.prefix}:leases:{name}"

    def all(self) -> list[str]:
        """Return the keys that scripts get as ``KEYS``."""
        return [*self.own(), *self.start_urls]

    def of_queue(self, slot: str) -> list[str]:
        """Return ``KEYS`` for a script that works on one queue only: that of *slot* comes first."""
        return [self.queue(slot), *self.all()[1:]]

    def queue(self, slot: str) -> str:
        """Return the key of the requests of *slot*; if it is empty, of the requests without a known slot."""
        return f"{self.requests}:slot:{slot}" if slot else self.requests

    def own(self) -> list[str]:
        """Return the keys of :meth:`all` without the keys of the seeds.

        Some of them are only prefixes, and never exist. While a Cluster moves a slot, Redis refuses a script
        if one of its keys is not on the node. So with these prefixes no script runs while only some of the
        keys have moved.
        """
        return [self.at(key) for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]

    def at(self, key: Key) -> str:
        """Return the name of *key* for this spider."""
        return key.place.format(
            requests=self.requests,
            dupefilter=self.dupefilter,
            prefix=self.prefix,
            slot_states=self.slot_states,
            places=self.places,
        )


def queue_counter(requests: str) -> str:
    """Return the key of the counter with which the queue *requests* keeps the order of arrival."""
    return f"{requests}:count"


def never(key: str) -> str:
    """Return a key that never exists, on the same Cluster slot as *key*; see :meth:`Keys.own`."""
    return f"{key}:never"


def dupefilter_frontiers(dupefilter: str) -> str:
    """Return the key of the frontiers that use the filter *dupefilter*."""
    return f"{dupefilter}:frontiers"


def last_batch(key: str, worker: str) -> str:
    """Return the key that holds the number of the last batch of *worker* that was stored in *key*."""
    return f"{key}:batch:{worker}"
