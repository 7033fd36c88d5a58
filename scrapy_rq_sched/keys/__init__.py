"""The names of the keys of a spider's frontier in Redis.

``keys/table.py`` has all keys, and no other module contains their names. The names of the queue, of
the dupefilter and of the seeds are settings. All other keys begin with :attr:`Keys.prefix`. Keys that
scrapy-redis also has keep its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .row import Use
from .table import KEYS, Table

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
class Keys(Table):
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
    :param items_template: the template of the key of the items; empty: a key of this frontier's own.
    """

    spider: str
    requests_template: str = REQUESTS
    dupefilter_template: str = DUPEFILTER
    start_urls_templates: Sequence[str] = (START_URLS,)
    job: str = ""
    hash_tag: bool = False
    slots_template: str = ""
    places_template: str = ""
    items_template: str = ""

    def of(self, template: str) -> str:
        """Return the key that *template* stands for."""
        return expand(template, self.spider, self.job, self.hash_tag)

    @property
    def start_urls(self) -> list[str]:
        """The seeds: their keys, in the order in which they are read."""
        return [self.of(template) for template in self.start_urls_templates]

    @property
    def prefix(self) -> str:
        """The prefix of the other keys: the queue's key without its ``:requests`` at the end.

        So each queue has its own frontier. A queue's key with another end gets ``:frontier`` appended, so
        that no other queue has the same prefix.
        """
        requests = self.requests
        return requests.removesuffix(_SUFFIX) if requests.endswith(_SUFFIX) else f"{requests}:frontier"

    @property
    def slot_states(self) -> str:
        """The prefix of the states of slots, which several spiders may share."""
        return self.of(self.slots_template) if self.slots_template else f"{self.prefix}:slots:state"

    @property
    def shares_slots(self) -> bool:
        """Whether the states of slots are not this frontier's own, so that other spiders may use them."""
        return self.slot_states != f"{self.prefix}:slots:state"

    def all(self) -> list[str]:
        """Return the keys that scripts get as ``KEYS``."""
        return [*self.own(), *self.start_urls]

    def of_queue(self, slot: str) -> list[str]:
        """Return ``KEYS`` for a script that works on one queue only: that of *slot* comes first."""
        return [self.queue(slot), *self.all()[1:]]

    def queue(self, slot: str) -> str:
        """Return the key of the requests of *slot*; if it is empty, of the requests without a known slot."""
        return self.slot_requests(slot) if slot else self.requests

    def own(self) -> list[str]:
        """Return the keys of :meth:`all` without the keys of the seeds.

        Some of them are only prefixes, and never exist. While a Cluster moves a slot, Redis refuses a script
        if one of its keys is not on the node. So with these prefixes no script runs while only some of the
        keys have moved.
        """
        return [key.of(self) for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]


def queue_counter(requests: str) -> str:
    """Return the key of the counter with which the queue *requests* keeps the order of arrival."""
    return Keys.counter.place.format(requests=requests)


def never(key: str) -> str:
    """Return a key that never exists, on the same Cluster slot as *key*; see :meth:`Keys.own`."""
    return f"{key}:never"


def dupefilter_frontiers(dupefilter: str) -> str:
    """Return the key of the frontiers that use the filter *dupefilter*."""
    return Keys.seen_frontiers.place.format(dupefilter=dupefilter)


def last_batch(key: str, worker: str) -> str:
    """Return the key that holds the number of the last batch of *worker* that was stored in *key*."""
    return f"{key}:batch:{worker}"
