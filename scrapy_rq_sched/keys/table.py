"""Every key that a frontier has in Redis, and its contents.

A row is all that a key needs. Python gets it as an attribute of :class:`~scrapy_rq_sched.keys.Keys`,
and scripts as a name in capitals. The check of the keys' types and the doctor use the rows, too, and a test
compares them with the page about keys. When you add a key, also remove it when a crawl ends: in
``lua/scripts/leave.lua``, ``lua/scripts/open.lua`` and ``lua/scripts/clear.lua``.
"""

from __future__ import annotations

from .row import Key, KeyPattern, Row, Use


class Table:
    """The keys, in the order in which scripts get them. Some scripts need the first three in their places."""

    requests = Key(
        "",
        ("list", "zset"),
        "the waiting requests that are in no slot's queue, serialized: a list for `FifoQueue` and "
        "`LifoQueue`, a sorted set for `PriorityQueue`",
        Use.ARGUMENT,
        template="requests_template",
    )
    counter = Key(
        "{requests}:count",
        ("string",),
        "how many requests were ever pushed; keeps requests of equal priority in their order of arrival",
        Use.ARGUMENT,
    )
    dupefilter = Key(
        "",
        ("set",),
        "fingerprints seen, in hexadecimal; with `CompactDupeFilter`, only those not yet converted",
        Use.ARGUMENT,
        template="dupefilter_template",
    )
    seen_state = Key(
        "{dupefilter}:buckets",
        ("hash",),
        "with `CompactDupeFilter`: the name and number of its buckets, and how many fingerprints they hold",
        Use.DERIVED,
    )
    bucket = KeyPattern(
        "{dupefilter}:<name>:<n>",
        ("set",),
        "with `CompactDupeFilter`: a bucket, with 62 bits of each fingerprint as an integer",
    )
    seen_cleared = Key(
        "{dupefilter}:cleared",
        ("list",),
        "with `CompactDupeFilter`: cleared filters whose buckets are not yet deleted",
        Use.DERIVED,
    )
    seen_frontiers = Key(
        "{dupefilter}:frontiers",
        ("set",),
        "the frontiers that use this dupefilter, each as the prefix of its keys; the last one clears it",
        Use.DERIVED,
    )
    slots = Key(
        "{prefix}:slots",
        ("zset",),
        "slots that have waiting requests; the slot with the lowest score gives the next request",
        Use.ARGUMENT,
    )
    slot_requests = KeyPattern(
        "{requests}:slot:<slot>",
        ("list", "zset"),
        "the waiting requests of one slot, serialized; after `<slot>`, those with needs have a bar and their "
        "lane",
        Use.PREFIX,
    )
    slot = KeyPattern(
        "{slot_states}:<slot>",
        ("hash",),
        "the state of a slot with limits: when it may send its next request, which worker has its turns, "
        "how many downloads it has, until when and why it is blocked, and what was learnt from its answers. "
        "Expires when the slot is unused. `FRONTIER_SLOTS_KEY` can rename this key",
        Use.PREFIX,
    )
    shared_clock = Key(
        "{slot}~clock",
        ("hash",),
        "with `FRONTIER_SLOTS_KEY`: the time of all spiders that share the states of slots. Expires",
        Use.DERIVED,
    )
    shared_workers = Key(
        "{slot}~workers",
        ("zset",),
        "with `FRONTIER_SLOTS_KEY`: the workers of these spiders. Score: the server's time "
        "(milliseconds) after which the worker counts as dead. Expires",
        Use.DERIVED,
    )
    moved = Key(
        "{slot}~moved",
        ("zset",),
        "with `FRONTIER_SLOTS_KEY`: slots that may have a turn sooner than another spider expects. "
        "Score: the time of that (milliseconds). Expires",
        Use.DERIVED,
    )
    lane = KeyPattern(
        "{slots}:lane:<lane>",
        ("zset",),
        "with `needs`: slots that have waiting requests with these needs, each with a bar and the lane; "
        "`slots` has them, too, with the score `inf`. The lowest score gives the next request",
        Use.DERIVED,
    )
    offers = Key(
        "{slots}:offers",
        ("zset",),
        "what workers offer (`FRONTIER_OFFERS`), each as a lane. Score: the server's time (milliseconds) "
        "until which a worker that offers it counts as alive. Expires",
        Use.DERIVED,
    )
    groups = Key(
        "{prefix}:groups",
        ("hash",),
        'the open groups of requests (`meta["group"]`): `<name>` has the number of the group, `#<number>` '
        "its name, `#<number>!` how many of its requests were set aside, and `#` the last number",
        Use.ARGUMENT,
    )
    group_members = Key(
        "{groups}:members",
        ("zset",),
        "the members of the open groups. Score: the number of the group times 2^26, plus a smaller number "
        "that rises with time. A member is the beginning of the SHA-1 of a request's bytes; `<worker>/<n>` "
        "for a request in a worker's memory; or `@<number>@<number>`: the first group is within the second",
        Use.DERIVED,
    )
    followers = Key(
        "{groups}:followers",
        ("zset",),
        'requests that wait for a group (`meta["after"]`). Score: the number of the group. '
        "`<time><further groups> <rank> @<slot> <request>`, with a bar before each further group",
        Use.DERIVED,
    )
    groups_emptied = Key(
        "{groups}:emptied",
        ("zset",),
        "the numbers of groups that have no members any more, and must be closed",
        Use.DERIVED,
    )
    groups_done = Key(
        "{groups}:done",
        ("zset",),
        "the finished groups of this crawl, the latest 100,000. Score: the server's time (milliseconds) "
        "times 1,000, plus how many of their requests were set aside (at most 999)",
        Use.DERIVED,
    )
    group_news = Key(
        "{groups}:news",
        ("hash",),
        "finished groups for which the signal `group_finished` is not sent yet: how many of their requests "
        "were set aside, and the worker that sends it",
        Use.DERIVED,
    )
    pools = Key(
        "{prefix}:pools",
        ("hash",),
        "the pools (`FRONTIER_POOLS`): `<pool>` has the delay (milliseconds), the concurrency, and the "
        "number of bad answers in a row after which an item is retired; `-<pool> <item>` is there if an "
        "operator has removed an item",
        Use.ARGUMENT,
        lasting=True,
    )
    pool_items = KeyPattern(
        "{pools}:items:<pool>",
        ("zset",),
        "the items of a pool. Score: the server's time (milliseconds) from which a user may have the item; "
        "`inf` while it is in use, or if it is retired",
        Use.DERIVED,
        lasting=True,
    )
    pool_item = KeyPattern(
        "{pools}:item:<pool>/<item>",
        ("hash",),
        "an item: its value and its cookies, **both secret**; until when it rests and why; whether it is "
        "retired; how often it was given",
        Use.DERIVED,
        lasting=True,
    )
    pool_uses = Key(
        "{pools}:uses",
        ("zset",),
        "which items are in use: `<pool> <item> <worker>/<lease>`, without a lease if the worker has it for "
        "its life. All scores are 0",
        Use.DERIVED,
    )
    slot_limits = Key(
        "{prefix}:slots:limits",
        ("hash",),
        "for each slot that the settings name: delay (milliseconds), jitter, concurrency, and `rules` of "
        "`meta` when they were written. The field `set <slot>`: the limits that somebody has set during "
        "the crawl; `-` is not set",
        Use.ARGUMENT,
    )
    slot_pages = Key(
        "{prefix}:slots:pages",
        ("hash",),
        "with `FRONTIER_MAX_PAGES` or `max_pages`: how many pages the crawl, and each slot with a cap, has "
        "(`pages`, `pages <slot>`), how many requests were dropped because of it (`dropped`, "
        "`dropped <slot>`), and the caps that were set during the crawl (`max <slot>`)",
        Use.ARGUMENT,
    )
    slots_of = KeyPattern(
        "{prefix}:slots:of:<id>",
        ("zset",),
        "slots that this worker served last, with the time of their next request. Expires",
        Use.PREFIX,
    )
    slots_blocked = Key(
        "{prefix}:slots:blocked",
        ("string",),
        "when the last block of a slot ends, by the frontier's time in milliseconds. Expires then",
        Use.ARGUMENT,
    )
    slots_cleared = Key(
        "{prefix}:slots:cleared",
        ("list",),
        "keys of cleared indexes of slots whose requests are not yet deleted",
        Use.ARGUMENT,
    )
    converting = Key(
        "{prefix}:converting",
        ("hash",),
        "exists while the queue is converted to another serializer, or the frontier is imported: the "
        "progress. Meanwhile no worker joins",
        Use.ARGUMENT,
    )
    seeding = Key(
        "{prefix}:seeding",
        ("hash",),
        "while seeds are pushed from a file: their SHA-256, and how many were pushed. Kept for a week if "
        "the push is interrupted",
    )
    started = Key(
        "{prefix}:started",
        ("set",),
        "fingerprints of the start requests of this crawl; unfiltered requests end in `#` and a number",
        Use.ARGUMENT,
    )
    delayed = Key(
        "{prefix}:delayed",
        ("zset",),
        "requests and seeds that a rule of admission has set back: `refused` (a worker lacks the code for "
        "it, so it waits for another one), `suspect` (workers died of it, so it waits for a worker that "
        "holds no other suspect), or `time` (it may not begin before a time). Score: the frontier's time "
        "(milliseconds) from which a worker may take it. "
        "`<kind> <score> <worker>/<lease>~<cause>@<slot> <request>`",
        Use.ARGUMENT,
    )
    workers = Key(
        "{prefix}:workers",
        ("zset",),
        "workers. Score: the server's time (milliseconds) after which the worker counts as dead. It ends "
        "in .5 if the lease was renewed after an outage and the worker was not heard since",
        Use.ARGUMENT,
    )
    lost = Key(
        "{workers}:lost",
        ("zset",),
        "workers that ended without leaving, or because of their memory. Score: the server's time "
        "(milliseconds) until which they may come back; so long no worker clears the frontier at its "
        "start. It ends in .5 if the worker left because of its memory",
        Use.DERIVED,
    )
    places = Key(
        "{prefix}:places",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: workers that have a place. Score: the server's time (milliseconds) "
        "after which the place is free. Expires. `FRONTIER_MAX_WORKERS_KEY` can rename this key",
        Use.ARGUMENT,
        template="places_template",
    )
    line = Key(
        "{places}:line",
        ("zset",),
        "with `FRONTIER_MAX_WORKERS`: workers in line for a place. Score: when they arrived (the "
        "server's time in microseconds)",
        Use.DERIVED,
    )
    heard = Key(
        "{places}:line:heard",
        ("zset",),
        "the same workers. Score: the server's time (milliseconds) after which the worker no longer "
        "counts as waiting",
        Use.DERIVED,
    )
    worker = KeyPattern(
        "{prefix}:worker:<id>",
        ("hash",),
        "a worker's description of itself, its limits of slots, and its last exchange. For a "
        "minute after it has left: a mark that it has left, so that a late exchange does not make it join "
        "again",
        Use.PREFIX,
    )
    leases = KeyPattern(
        "{prefix}:leases:<id>",
        ("hash",),
        "the leases of a worker: name, and `<kind> <score> <deaths>@<second>@<slot>@<begin> <request>`",
        Use.PREFIX,
    )
    history = Key(
        "{prefix}:history",
        ("hash",),
        "for each request that came back, by its SHA-1: `died:`, `unbegun:`, `refused:` or `done:`, each "
        "with the worker, `@` and the second",
        Use.ARGUMENT,
    )
    failed = Key(
        "{prefix}:failed",
        ("list",),
        "requests and seeds that were set aside: JSON objects with the reason and the time; the latest "
        "`FRONTIER_MAX_FAILED`",
        Use.ARGUMENT,
        lasting=True,
    )
    reasons = Key(
        "{failed}:reasons",
        ("hash",),
        "how many requests and seeds were ever set aside, by reason without details; for 30 days",
        Use.DERIVED,
    )
    audit = Key(
        "{prefix}:audit",
        ("list",),
        "actions in `scrapy frontier dashboard`: JSON objects with the time, the user, the action, its "
        "arguments and its result, the latest first; at most 200",
        lasting=True,
    )
    meta = Key("{prefix}:meta", ("hash",), "the state of the crawl: see the fields of `meta`", Use.ARGUMENT)
    denied = Key(
        "{meta}:denied",
        ("hash",),
        "the hosts and patterns of URLs of which no worker begins a request (`scrapy frontier deny`), each "
        "with the time (milliseconds) since when. `scrapy frontier clear` keeps it",
        Use.DERIVED,
        lasting=True,
    )
    times = Key(
        "{meta}:times", ("hash",), "how many exchanges took how long: a histogram; for 30 days", Use.DERIVED
    )
    counts = Key(
        "{meta}:counts",
        ("hash",),
        "the record of the crawl under way: its number in the history and when this record began (`run`), "
        "when the last worker joined (`came`), its settings, and for each "
        "worker when it joined, when and how it ended, and what it has done",
        Use.DERIVED,
    )
    slot_counts = Key(
        "{meta}:counts:slots",
        ("hash",),
        "how many responses each slot has given in this crawl, and how many milliseconds they took together; "
        "the first 1,000 slots",
        Use.DERIVED,
    )
    chart = Key(
        "{meta}:chart",
        ("list",),
        "the crawl under way in at most 120 parts of equal length: `<second> <pages> <waiting> <items> "
        "<errors>`",
        Use.DERIVED,
    )
    crawls = Key(
        "{meta}:crawls",
        ("hash",),
        "the history of crawls: for each number a JSON object, and its chart; the latest `FRONTIER_HISTORY`, "
        "for `FRONTIER_HISTORY_AGE`. `scrapy frontier clear` keeps it",
        Use.DERIVED,
        lasting=True,
    )
    outcomes = Key(
        "{meta}:outcomes",
        ("string",),
        "what became of the latest `FRONTIER_OUTCOMES` requests, for `scrapy frontier explain`: records of "
        "16 bytes; for 30 days",
        Use.DERIVED,
        lasting=True,
    )
    finished = Key(
        "{prefix}:finished",
        ("string",),
        "when a crawl last finished, in the server's time (milliseconds); kept for a day, and so long "
        "`started` is kept too",
        Use.ARGUMENT,
    )
    pages = Key(
        "{prefix}:pages",
        ("list",),
        "how many pages were done in each ten seconds of the last hour, the latest first: `<second> "
        "<pages> <waiting> <items> <errors> <first> <items before> <errors before>`: after how many "
        "milliseconds the first page came, and how many items and errors the crawl had before",
        Use.ARGUMENT,
    )
    events = Key(
        "{prefix}:events",
        ("stream",),
        "events of the fleet, as JSON objects: the latest `FRONTIER_MAX_EVENTS`, for 30 days. They are "
        "also published to the channel of this name",
        Use.ARGUMENT,
    )
    webhook = Key(
        "{events}:webhook",
        ("hash",),
        "with `FRONTIER_WEBHOOK_URL`: the worker that sends the events, and the last event sent; for 30 days",
        Use.DERIVED,
    )
    exported = Key(
        "{prefix}:exported",
        ("list",),
        "while the frontier is exported: leases that workers finished meanwhile, as they held them",
        Use.ARGUMENT,
    )

    items = Key(
        "{prefix}:items",
        ("list", "stream"),
        'items, serialized. `RedisPipeline` and `FRONTIER_ITEMS = "list"` append them to a list, '
        '`FRONTIER_ITEMS = "stream"` to a stream: entries with the fields `item`, `url`, `worker` and `id`',
        Use.ARGUMENT,
        lasting=True,
        template="items_template",
    )
    feed = KeyPattern(
        "{prefix}:feed:<token>",
        ("stream",),
        "with `scrapy frontier crawl -o`: items that are not in its file yet: fields `item` and `id`",
        Use.PREFIX,
        lasting=True,
    )
    feeds = Key(
        "{prefix}:feeds",
        ("hash",),
        "with `scrapy frontier crawl -o`: for each `<token>` the host, and the path of the file",
        lasting=True,
    )
    stream_writer = KeyPattern(
        "<stream>:writer",
        ("string",),
        "the program that moves the items of the key `<stream>`, `items` or `feed:<token>`, to a file: a "
        "JSON object. Expires after 30 s, unless it is renewed",
    )
    item_parts = Key(
        "{prefix}:item_parts",
        ("set",),
        "with `FRONTIER_ITEMS`: `<worker>/<lease>` of each lease that is not released and has items here",
        Use.ARGUMENT,
    )
    item_part = KeyPattern(
        "{item_parts}:<worker>/<lease>",
        ("list",),
        "with `FRONTIER_ITEMS`: items of a page that yields very many, until its lease is released and they "
        "are moved to the items",
        Use.DERIVED,
    )
    items_released = Key(
        "{item_parts}:released",
        ("list",),
        "with `FRONTIER_ITEMS`: pages whose lease is released, and whose items are not all moved yet: JSON "
        "objects, in the order of the release",
        Use.DERIVED,
        lasting=True,
    )
    items_forgotten = Key(
        "{item_parts}:forgotten",
        ("hash",),
        "with `FRONTIER_ITEMS`: how often each page was forgotten (`scrapy frontier forget`): its items get "
        "other identities when it is crawled once more",
        Use.DERIVED,
    )


#: All keys: also the seeds, which may have several keys, and those that are not the frontier's own.
KEYS: tuple[Row, ...] = (
    *(row for row in vars(Table).values() if isinstance(row, Row)),
    Key("<spider>:start_urls", ("list",), "seeds; a set or a sorted set also works", lasting=True),
    KeyPattern(
        "<spider>:items:batch:<id>",
        ("string",),
        "the number of the last batch of items that a worker stored; for an hour",
    ),
    Key("<spider>:stats", ("hash",), "statistics: see `stats.py`"),
    KeyPattern(
        "<spider>:stats:batch:<id>",
        ("string",),
        "the number of the last batch of statistics that a worker stored",
    ),
)
