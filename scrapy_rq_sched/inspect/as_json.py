"""Turn results into JSON, for the option ``--json`` of the commands and for the dashboard's API."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from ..codec.failed_request import FailedRequest
from ..codec.names import names_in
from ..failed import FailedRequests
from .crawl import Crawl
from .entries import Entry, Held
from .explain import Explanation
from .rates import HOUR, peak_of, peak_of_latest
from .slots import SlotStatus
from .status import Status, Worker

#: Depth to which nested lists and mappings are shown: a request may nest deeper than Python can recurse.
DEEPEST = 100
#: Bytes that are shown of a request or seed of which only the beginning was read.
BEGINNING = 2000


def dump(value: Any, longest: int = 0) -> str:
    """Return *value* as one line of JSON, in ASCII.

    :param longest: characters of a text that are shown; 0: all.
    """
    return json.dumps(_plain(value, DEEPEST, longest), allow_nan=False)


def status(found: Status) -> dict[str, Any]:
    """Return the status of a frontier as a dict."""
    last = None if found.last_crawl is None else crawl(found.last_crawl)
    history = [list(moment) for moment in found.history]
    peak = peak_of_latest(found, HOUR)
    return {**dataclasses.asdict(found), "peak": peak, "history": history, "last_crawl": last}


def crawl(found: Crawl) -> dict[str, Any]:
    """Return a crawl of the history as a dict."""
    sums = {name: getattr(found, name) for name in ("seconds", "failed", "per_second")}
    if found.history:  # a list of crawls is read without their histories
        sums["peak"] = peak_of(found)
    return {**dataclasses.asdict(found), **sums, "history": [list(moment) for moment in found.history]}


def worker(found: Worker) -> dict[str, Any]:
    """Return a worker as a dict."""
    return dataclasses.asdict(found)


def slot(found: SlotStatus) -> dict[str, Any]:
    """Return the status of a slot as a dict."""
    return dataclasses.asdict(found)


def failed(requests: FailedRequests, one: FailedRequest) -> dict[str, Any]:
    """Return an entry of the failed list *requests* as a dict."""
    fields = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    del fields["entry"]
    for name in ("size", "entry_size"):
        if not fields[name]:
            del fields[name]
    data = fields.pop("data")
    fields["error"], fields["url"] = one.error, requests.url_of(one)
    try:
        return {**fields, "data": data.decode()}
    except UnicodeDecodeError:
        return {**fields, "data_hex": data.hex()}


def entry(one: Entry) -> dict[str, Any]:
    """Return a request or a seed as a dict."""
    shown: dict[str, Any] = {"kind": one.kind, "url": one.url, "priority": one.priority}
    if one.score is not None:
        shown["score"] = one.score
    if one.size:
        beginning = one.data[:BEGINNING].decode("utf-8", "backslashreplace")
        return {**shown, "problem": one.problem, "size": one.size, "beginning": beginning}
    if one.problem:
        return {**shown, "problem": one.problem, "data_hex": one.data.hex()}
    return {**shown, "request": one.fields}


def held(one: Held) -> dict[str, Any]:
    """Return a lease as a dict."""
    has = {"pool": one.pool, "item": one.item} if one.item else {}
    return {
        "worker": one.worker,
        "alive": one.alive,
        "lease": one.lease,
        "since": one.since,
        "deaths": one.deaths,
        **has,
        **entry(one.entry),
    }


def explanation(found: Explanation) -> dict[str, Any]:
    """Return all that is known of a URL as a dict."""
    return {
        "url": found.url,
        "fingerprint": found.fingerprint,
        "seen": found.seen,
        "exists": found.exists,
        "started": found.started,
        "waiting": [
            {"key": p.key, "before": p.before, "slot": p.entry.slot, **entry(p.entry)} for p in found.waiting
        ],
        "seeds": [{"key": p.key, "before": p.before, **entry(p.entry)} for p in found.seeds],
        "leased": [held(one) for one in found.held],
        "delayed": [{"due": one.due, "cause": one.cause, **entry(one.entry)} for one in found.delayed],
        "following": [
            {"groups": [min(names_in(name)) for name in one.groups], **entry(one.entry)}
            for one in found.following
        ],
        "groups": [dataclasses.asdict(one) for one in found.groups],
        "pools": [dataclasses.asdict(one) for one in found.pools],
        "failed": [{"id": one.id, "time": one.time, "reason": one.reason} for one in found.failed],
        "history": found.history,
        "alike": found.alike,
        "outcomes": [dataclasses.asdict(one) for one in found.outcomes],
    }


def _plain(value: Any, deepest: int, longest: int) -> Any:
    """Return *value* with JSON's types only: a request may contain bytes as keys, or NaN."""
    if isinstance(value, (dict, list, tuple)) and not deepest:
        return "…"
    if isinstance(value, dict):
        return {
            _cut(key if isinstance(key, str) else _plain_text(key), longest): _plain(
                one, deepest - 1, longest
            )
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(one, deepest - 1, longest) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (int, float, type(None))):
        return value
    return _cut(value if isinstance(value, str) else _plain_text(value), longest)


def _cut(text: str, longest: int) -> str:
    return f"{text[:longest]}…" if longest and len(text) > longest else text


def _plain_text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
