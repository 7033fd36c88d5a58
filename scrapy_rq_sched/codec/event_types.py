"""The types of events, each with its text for people."""

from __future__ import annotations

#: A line of text for each type. The scripts in Redis record these types (``lua/fleet/events.lua``).
TEXTS = {
    "crawl_started": "the crawl has started",
    "crawl_finished": "the crawl is finished (pages: {pages}, set aside: {failed})",
    "crawl_differs": "crawl {run} has {now} {figure}, and the one before had {before} ({percent} %)",
    "crawl_stalled": "no page was crawled for {seconds} s, although requests are waiting ({waiting})",
    "crawl_going_on": "the crawl continues",
    "worker_joined": "worker {worker} has joined",
    "worker_left": "worker {worker} has left",
    "worker_lost": "worker {worker} is lost: its heartbeat stopped, and its leases go to other workers",
    "paused": "an operator paused the crawl",
    "draining": "an operator drained the crawl",
    "resumed": "an operator resumed the crawl",
    "stopped": "an operator stopped the fleet",
    "worker_stopped": "an operator stopped worker {worker}",
    "limit_reached": "the fleet closes: {limit} is reached",
    "cap_reached": "{limit} is reached: further requests are dropped",
    "request_set_aside": "a {kind} is set aside: {reason}",
    "slot_blocked": "slot {slot} is blocked for {seconds} s: {reason}",
    "slot_slowed": "slot {slot} has answered {reason}: one request every {seconds} s from now on",
    "slot_unreachable": "slot {slot} cannot be reached ({reason}): one attempt at a time from now on",
    "slot_given_up": "slot {slot} could not be reached for {seconds} s: its requests are set aside",
    "slot_recovered": "slot {slot} has its usual limits again",
    "slot_free": "slot {slot} is no longer blocked",
    "url_denied": "an operator denies {pattern}: no worker begins a request of it",
    "url_allowed": "an operator allows {pattern} again",
    "needs_unmet": "no worker that is alive offers {needs}: requests that need it wait",
    "needs_met": "requests no longer wait for {needs}",
    "item_retired": "item {item} of pool {pool} is retired: {reason}",
    "queue_full": "the queue is full: FRONTIER_MAX_WAITING is {max_waiting}",
    "queue_has_room": "the queue has room again",
    "redis_full": "Redis is out of memory",
    "redis_has_room": "Redis has room again",
}
#: The text for an event of these types if it has the URL.
WITH_URL = {"request_set_aside": "{kind} {url} is set aside: {reason}"}
#: The types that need somebody's attention.
ALARMING = frozenset(
    (
        "crawl_differs",
        "crawl_stalled",
        "worker_lost",
        "limit_reached",
        "request_set_aside",
        "needs_unmet",
        "item_retired",
        "queue_full",
        "redis_full",
    )
)
