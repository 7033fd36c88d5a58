"""Every key that a frontier has in Redis, and its contents.

The scripts get their keys and the names of the keys from this table. The check of the keys' types and the
doctor use it, too, and a test compares it with the page about keys. When you add a key, also remove it when
a crawl ends: in ``lua/leave.lua``, ``lua/open.lua`` and ``lua/clear.lua``.
"""

from __future__ import annotations

from .key import Key, Use

#: In the order in which the scripts get them. Some scripts depend on the places of the first three.
KEYS: tuple[Key, ...] = (
    Key(
        "requests",
        "{requests}",
        ("list", "zset"),
        "the waiting requests that are in no slot's queue, serialized: a list for `FifoQueue` and "
        "`LifoQueue`, a sorted set for `PriorityQueue`",
        Use.ARGUMENT,
    ),
    Key(
        "counter",
        "{requests}:count",
        ("string",),
        "how many requests were ever pushed; keeps requests of equal priority in their order of arrival",
        Use.ARGUMENT,
    ),
    Key(
        "dupefilter",
        "{dupefilter}",
        ("set",),
        "fingerprints seen, in hexadecimal; with `CompactDupeFilter`, only those not yet converted",
        Use.ARGUMENT,
    ),
    Key(
        "seen_state",
        "{dupefilter}:buckets",
        ("hash",),
        "with `CompactDupeFilter`: the name and number of its buckets, and how many fingerprints they hold",
        Use.DERIVED,
    ),
    Key(
        "",
        "{dupefilter}:<name>:<n>",
        ("set",),
        "with `CompactDupeFilter`: a bucket, with 62 bits of each fingerprint as an integer",
    ),
    Key(
        "seen_cleared",
        "{dupefilter}:cleared",
        ("list",),
        "with `CompactDupeFilter`: cleared filters whose buckets are not yet deleted",
        Use.DERIVED,
    ),
    Key(
        "seen_frontiers",
        "{dupefilter}:frontiers",
        ("set",),
        "the frontiers that use this dupefilter, each as the prefix of its keys; the last one clears it",
        Use.DERIVED,
    ),
    Key(
        "slots",
        "{prefix}:slots",
        ("zset",),
        "slots that have waiting requests; the slot with the lowest score gives the next request",
        Use.ARGUMENT,
    ),
    Key(
        "slot_requests",
        "{requests}:slot:",
        ("list", "zset"),
        "the waiting requests of one slot, serialized",
        Use.PREFIX,
        follows="slot",
    ),
    Key(
        "slot",
        "{slot_states}:",
        ("hash",),
        "the state of a slot with limits: when it may send its next request, which worker has its turns, how "
        "many downloads it has. Expires when the slot is unused. `FRONTIER_SLOTS_KEY` can rename this key. "
        "Then the keys `~clock`, `~workers` and `~moved` beside it have what the spiders tell each other",
        Use.PREFIX,
        follows="slot",
    ),
    Key(
        "slot_limits",
        "{prefix}:slots:limits",
        ("hash",),
        "for each slot that the settings name: delay (milliseconds), jitter, concurrency, and `rules` of "
        "`meta` when they were written. The field `set <slot>`: the limits that somebody has set during the "
        "crawl; `-` is not set",
        Use.ARGUMENT,
    ),
    Key(
        "slots_of",
        "{prefix}:slots:of:",
        ("zset",),
        "slots that this worker served last, with the time of their next request. Expires",
        Use.PREFIX,
    ),
    Key(
        "slots_blocked",
        "{prefix}:slots:blocked",
        ("string",),
        "exists while any slot is blocked",
        Use.ARGUMENT,
    ),
    Key(
        "slots_cleared",
        "{prefix}:slots:cleared",
        ("list",),
        "keys of cleared indexes of slots whose requests are not yet deleted",
        Use.ARGUMENT,
    ),
    Key(
        "converting",
        "{prefix}:converting",
        ("hash",),
        "exists while the queue is converted to another serializer, or the frontier is imported: the "
        "progress. Meanwhile no worker joins",
        Use.ARGUMENT,
    ),
    Key(
        "start_urls",
        "{start_urls}",
        ("list",),
        "seeds; a set or a sorted set also works",
        lasting=True,
    ),
    Key(
        "seeding",
        "{prefix}:seeding",
        ("hash",),
        "while seeds are pushed from a file: their SHA-256, and how many were pushed. Kept for a "
        "week if the push is interrupted",
    ),
    Key(
        "started",
        "{prefix}:started",
        ("set",),
        "fingerprints of the start requests of this crawl; unfiltered requests end in `#` and a number",
        Use.ARGUMENT,
    ),
    Key(
        "delayed",
        "{prefix}:delayed",
        ("zset",),
        "requests and seeds that a rule of admission has set back: `refused` (a worker lacks the code for "
        "it, so it waits for another one), or `suspect` (workers died of it, so it waits for a worker that "
        "holds no other suspect). Score: the frontier's time (milliseconds) from which a worker may take it. "
        "`<kind> <score> <worker>/<lease>~<cause>@<slot> <request>`",
        Use.ARGUMENT,
    ),
    Key(
        "workers",
        "{prefix}:workers",
        ("zset",),
        "workers. Score: the server's time (milliseconds) after which the worker counts as dead. It ends in "
        ".5 if the lease was renewed after an outage and the worker was not heard since",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{prefix}:workers:lost",
        ("zset",),
        "workers that ended without leaving, or because of their memory. Score: the server's time "
        "(milliseconds) until which they may come back; so long no worker clears the frontier at its start. "
        "It ends in .5 if the worker left because of its memory",
    ),
    Key(
        "places",
        "{places}",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: workers that have a place. Score: the server's time (milliseconds) "
        "after which the place is free. Expires. `FRONTIER_MAX_WORKERS_KEY` can rename this key",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{places}:line",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: workers in line for a place. Score: when they arrived (the server's "
        "time in microseconds)",
    ),
    Key(
        "",
        "{places}:line:heard",
        ("zset",),
        "the same workers. Score: the server's time (milliseconds) after which the worker no longer counts "
        "as waiting",
    ),
    Key(
        "worker",
        "{prefix}:worker:",
        ("hash",),
        "a worker's description of itself, and its last exchange. For a minute after it has left: a mark "
        "that it has left, so that a late exchange does not make it join again",
        Use.PREFIX,
    ),
    Key(
        "leases",
        "{prefix}:leases:",
        ("hash",),
        "the leases of a worker: name, and `<kind> <score> <deaths>@<second>@<slot>@<begin> <request>`",
        Use.PREFIX,
    ),
    Key(
        "history",
        "{prefix}:history",
        ("hash",),
        "for each request that came back, by its SHA-1: `died:`, `unbegun:`, `refused:` or `done:`, each "
        "with the worker, `@` and the second",
        Use.ARGUMENT,
    ),
    Key(
        "failed",
        "{prefix}:failed",
        ("list",),
        "requests and seeds that were set aside: JSON objects with the reason and the time; the latest "
        "`FRONTIER_MAX_FAILED`",
        Use.ARGUMENT,
        lasting=True,
    ),
    Key(
        "",
        "{prefix}:failed:reasons",
        ("hash",),
        "how many requests and seeds were ever set aside, by reason without details; for 30 days",
    ),
    Key(
        "audit",
        "{prefix}:audit",
        ("list",),
        "actions in `scrapy frontier dashboard`: JSON objects with the time, the user, the action, its "
        "arguments and its result, the latest first; at most 200",
        lasting=True,
    ),
    Key(
        "meta",
        "{prefix}:meta",
        ("hash",),
        "the state of the crawl: see the fields of `meta`",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{prefix}:meta:times",
        ("hash",),
        "how many exchanges took how long: a histogram; for 30 days",
    ),
    Key(
        "finished",
        "{prefix}:finished",
        ("string",),
        "when a crawl last finished, in the server's time (milliseconds); kept for a day, and so long "
        "`started` is kept too",
        Use.ARGUMENT,
    ),
    Key(
        "pages",
        "{prefix}:pages",
        ("list",),
        "how many pages were done in each ten seconds of the last hour, the latest first: `<second> "
        "<pages> <waiting>`",
        Use.ARGUMENT,
    ),
    Key(
        "events",
        "{prefix}:events",
        ("stream",),
        "events of the fleet, as JSON objects: the latest `FRONTIER_MAX_EVENTS`, for 30 days. They are also "
        "published to the channel of this name",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{prefix}:events:webhook",
        ("hash",),
        "with `FRONTIER_WEBHOOK_URL`: the worker that sends the events, and the last event sent; for 30 days",
    ),
    Key(
        "exported",
        "{prefix}:exported",
        ("list",),
        "while the frontier is exported: leases that workers finished meanwhile, as they held them",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "<spider>:items",
        ("list",),
        "items, serialized: see `pipelines.py`",
        lasting=True,
    ),
    Key(
        "",
        "<spider>:items:batch:<id>",
        ("string",),
        "the number of the last batch of items that a worker stored; for an hour",
    ),
    Key("", "<spider>:stats", ("hash",), "statistics: see `stats.py`"),
    Key(
        "",
        "<spider>:stats:batch:<id>",
        ("string",),
        "the number of the last batch of statistics that a worker stored",
    ),
)
