"""Every key that a frontier has in Redis, and what is in it.

Of this table are made what the scripts are given and how they name it, the check of the keys' types and what
the doctor looks at; a test compares the page about keys with it. A new key also has to be removed when a
crawl ends: in ``lua/leave.lua``, ``lua/open.lua`` and ``lua/clear.lua``.
"""

from __future__ import annotations

from .key import Key, Use

#: In the order in which the scripts are given them; some count on the places of the first three.
KEYS: tuple[Key, ...] = (
    Key(
        "requests",
        "{requests}",
        ("list", "zset"),
        "waiting requests, serialized: a list for `FifoQueue` and `LifoQueue`, a sorted set for "
        "`PriorityQueue`",
        Use.ARGUMENT,
    ),
    Key(
        "counter",
        "{requests}:count",
        ("string",),
        "how many were ever pushed: equal priorities keep the order of arrival by it",
        Use.ARGUMENT,
    ),
    Key(
        "dupefilter",
        "{dupefilter}",
        ("set",),
        "fingerprints seen, in hexadecimal; with `CompactDupeFilter`, those not yet converted",
        Use.ARGUMENT,
    ),
    Key(
        "seen_state",
        "{dupefilter}:buckets",
        ("hash",),
        "with `CompactDupeFilter`: what it consists of",
        Use.DERIVED,
    ),
    Key(
        "",
        "{dupefilter}:<name>:<n>",
        ("set",),
        "with `CompactDupeFilter`: 62 bits of each fingerprint, as an integer",
    ),
    Key(
        "seen_cleared",
        "{dupefilter}:cleared",
        ("list",),
        "with `CompactDupeFilter`: cleared filters that are yet to be deleted",
        Use.DERIVED,
    ),
    Key(
        "seen_frontiers",
        "{dupefilter}:frontiers",
        ("set",),
        "the frontiers that have this filter, by what their keys begin with: the last of them clears it",
        Use.DERIVED,
    ),
    Key(
        "slots",
        "{prefix}:slots",
        ("zset",),
        "slots that have waiting requests; the slot of the lowest score gives the next one",
        Use.ARGUMENT,
    ),
    Key(
        "slot_requests",
        "{requests}:slot:",
        ("list", "zset"),
        "waiting requests of a slot. In the queue's key are those whose slot no worker knows",
        Use.PREFIX,
        follows="slot",
    ),
    Key(
        "slot",
        "{slot_states}:",
        ("hash",),
        "the state of a slot that has limits: when it gives the next request, who has its turns, how many "
        "downloads there are. It has a time to live. `FRONTIER_SLOTS_KEY` may give it another name",
        Use.PREFIX,
        follows="slot",
    ),
    Key(
        "slot_limits",
        "{prefix}:slots:limits",
        ("hash",),
        "slot, and its delay (milliseconds), jitter and concurrency, where these are not those of all slots; "
        "and `set` if they were set while the crawl ran, else which workers' settings say so (`rules` in "
        "`meta`)",
        Use.ARGUMENT,
    ),
    Key(
        "slots_of",
        "{prefix}:slots:of:",
        ("zset",),
        "slots that this worker had last, by when they give it a request; it has a time to live",
        Use.PREFIX,
    ),
    Key(
        "slots_blocked",
        "{prefix}:slots:blocked",
        ("string",),
        "there as long as any slot is blocked",
        Use.ARGUMENT,
    ),
    Key(
        "slots_cleared",
        "{prefix}:slots:cleared",
        ("list",),
        "keys of cleared indexes of slots, whose requests are yet to be deleted",
        Use.ARGUMENT,
    ),
    Key(
        "converting",
        "{prefix}:converting",
        ("hash",),
        "while the queue is converted to another serializer: from what, to what, and how much of a "
        "list is left; or while a frontier is imported: how far. No worker joins",
        Use.ARGUMENT,
    ),
    Key(
        "start_urls",
        "{start_urls}",
        ("list",),
        "seeds; a set or a sorted set is read as well",
        lasting=True,
    ),
    Key(
        "seeding",
        "{prefix}:seeding",
        ("hash",),
        "while seeds are pushed from a file: SHA-256 of them, how many are in; for a week if it broke off",
    ),
    Key(
        "started",
        "{prefix}:started",
        ("set",),
        "fingerprints of the start requests this crawl has had; those that are not filtered end in "
        "`#` and their number",
        Use.ARGUMENT,
    ),
    Key(
        "delayed",
        "{prefix}:delayed",
        ("zset",),
        "requests and seeds set back for another worker: refused, or passed over because workers died "
        "of them. Score: the server's time (milliseconds) from which they may be taken. `<kind> "
        "<score> <worker>/<lease>@<slot> <request>`",
        Use.ARGUMENT,
    ),
    Key(
        "workers",
        "{prefix}:workers",
        ("zset",),
        "worker, by the server's time (milliseconds) after which it counts as dead",
        Use.ARGUMENT,
    ),
    Key(
        "places",
        "{places}",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: worker that has a place, by the server's time (milliseconds) after "
        "which the place is free. `FRONTIER_MAX_WORKERS_KEY` may give it another name; it has a time to live",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{places}:line",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: worker that waits for a place, by when it came (the server's time in "
        "microseconds)",
    ),
    Key(
        "",
        "{places}:line:heard",
        ("zset",),
        "the same by the server's time (milliseconds) after which it no longer counts as waiting",
    ),
    Key(
        "worker",
        "{prefix}:worker:",
        ("hash",),
        "what a worker said of itself, and its last exchange; for a minute after it has left, that it "
        "has: an exchange that comes late does not have it join again",
        Use.PREFIX,
    ),
    Key(
        "leases",
        "{prefix}:leases:",
        ("hash",),
        "what a worker holds: lease, and `<kind> <score> <deaths>@<second>@<slot>@<begin> <request>`",
        Use.PREFIX,
    ),
    Key(
        "history",
        "{prefix}:history",
        ("hash",),
        "SHA-1 of a request that came back, and what befell it: `died:`, `unbegun:`, `refused:` or "
        "`done:`, worker, `@` and second",
        Use.ARGUMENT,
    ),
    Key(
        "failed",
        "{prefix}:failed",
        ("list",),
        "requests and seeds set aside, each a JSON object with the reason and the time; the latest "
        "`FRONTIER_MAX_FAILED` of them",
        Use.ARGUMENT,
        lasting=True,
    ),
    Key(
        "",
        "{prefix}:failed:reasons",
        ("hash",),
        "how many were ever set aside, by reason without its details; for 30 days",
    ),
    Key(
        "audit",
        "{prefix}:audit",
        ("list",),
        "what was done by `scrapy frontier dashboard`: JSON objects with the time, who did it, the action, "
        "its arguments and its result, the latest first; 200 at the most",
        lasting=True,
    ),
    Key(
        "meta",
        "{prefix}:meta",
        ("hash",),
        "what the frontier was made with, its epoch, how many pages were done, and what all workers "
        "are told: `state` (`paused`, `draining`), `stop`. When the crawl was finished (`finished`), "
        "until somebody has cleared up. How many requests waited and how many fingerprints there were "
        "at the last exchange (`waiting`, `seen`). How many requests were found, how many of them "
        "cannot be shared, and why (`found`, `unshared`, `unshared_reason`). When all was found to be "
        "gone (`lost`). How many wait in slots (`in_slots`), whether any has limits (`limited`), the "
        "frontier's time (`clock`, `clock_ahead`), when Redis came back with older data (`rewound`), "
        "whose settings' limits hold (`rules`), what holds for other slots (`slot_default`), and when "
        "somebody has changed limits (`limits_changed`). How many workers may be at it (`max_workers`). What "
        "this run of the fleet has done (`run_pagecount`, …), since when, and why it was stopped",
        Use.ARGUMENT,
    ),
    Key("", "{prefix}:meta:times", ("hash",), "how many exchanges took how long, in buckets; for 30 days"),
    Key(
        "finished",
        "{prefix}:finished",
        ("string",),
        "the server's time (milliseconds) of the last finish",
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
        "what happened to the fleet, each a JSON object: the latest `FRONTIER_MAX_EVENTS`, for 30 days. A "
        "channel of this name tells those who listen",
        Use.ARGUMENT,
    ),
    Key(
        "",
        "{prefix}:events:webhook",
        ("hash",),
        "with `FRONTIER_WEBHOOK_URL`: the worker that sends the events, and which was the last; for 30 days",
    ),
    Key(
        "exported",
        "{prefix}:exported",
        ("list",),
        "while the frontier is exported: what workers were through with meanwhile, as they held it",
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
        "number of the last batch of items that a worker stored, for an hour",
    ),
    Key("", "<spider>:stats", ("hash",), "statistics: see `stats.py`"),
    Key("", "<spider>:stats:batch:<id>", ("string",), "the same of statistics"),
)
