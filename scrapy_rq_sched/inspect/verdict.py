"""Tell in sentences why a URL has not been crawled, and give advice."""

from __future__ import annotations

import shlex

from ..codec.names import names_in, shown
from ..codec.needs import split_place
from ..errors import frontier_command
from .entries import Follower
from .explain import Explanation
from .outcomes import Ended
from .status import PoolCounts, Status
from .wording import counted, crawl_command


def verdict(found: Explanation, status: Status, typed: str) -> list[str]:
    """Return sentences that tell why the URL has not been crawled, and give advice.

    :param typed: the URL, or the JSON object, as the user gave it, quoted for a shell.
    """
    spider, lines = status.spider, list[str]()
    no_worker = f"no worker is alive. Start one: {crawl_command(spider)}"
    state = {"paused": "paused", "draining": "drained"}.get(status.state)
    if found.waiting or found.seeds or found.delayed or found.following:
        if not status.alive:
            lines.append(f"It waits, and {no_worker}")
        elif state:
            lines.append(
                f"It waits: the crawl is {state}. To resume it: {frontier_command('resume', spider)}"
            )
        elif any(one.cause == "suspect" for one in found.delayed):
            lines.append(
                "It is delayed: workers died while they held it, so it is handed out alone. The next worker "
                "that holds no other such request will crawl it"
            )
        elif any(one.is_for_another for one in found.delayed):
            lines.append(
                "It is delayed: the workers that received it lack the code for it, and leave it to another "
                "worker. Start one that has its callback and its Request class"
            )
        elif found.delayed:
            lines.append("It is delayed: it may not begin before its time, and needs no help")
        elif found.following:
            lines += [_follows(one, found) for one in found.following]
        elif lacks := _unmet(found, status):
            lines.append(
                f"It waits, because no worker that is alive offers all that it needs, {shown(lacks)}. Start "
                f"one with FRONTIER_OFFERS = {sorted(lacks)!r}"
            )
        elif pools := [pool for pool in found.pools if not pool.free]:
            lines += [_awaits(pool, spider) for pool in pools]
        elif lacking := _lacking(status):
            lines.append(
                f"It waits: worker {lacking} begins no request, because it needs an item of a pool for its "
                "life, and all are in use, at rest or retired. To see them: "
                + frontier_command("pool", spider)
            )
        else:
            turn = "It will be crawled when its turn comes, after the requests that the workers already hold"
            lines.append(turn + _sooner(found, spider))
    for held in found.held:
        if held.alive:
            lines.append(f"Worker {held.worker} holds it, and releases it when it has finished it")
        else:
            lines.append(
                f"Worker {held.worker} died while it held the request, which returns to the queue when "
                "another worker is alive"
            )
            if not status.alive:
                lines.append(no_worker[0].upper() + no_worker[1:])
    if found.failed:
        again = frontier_command("failed", spider, "--id", shlex.quote(found.failed[-1].id), "--requeue")
        lines.append(f"It is in the failed list. To try it again: {again}")
    if found.outcomes:
        lines.append(_ended(found.outcomes[-1]))
    if found.is_nowhere and (found.seen or found.started or found.outcomes):
        if not found.outcomes:
            lines.append(
                "It was found and is finished: it was crawled, its download failed after all retries, or it "
                "was removed. The log of the worker that had it tells which"
            )
        command = ["forget", spider, typed, "--crawl"] if found.seen else ["seed", spider, typed]
        lines.append(f"To crawl it again: {frontier_command(*command)}")
    elif found.is_nowhere and not found.exists and not found.knows_all:
        lines.append(
            "No crawl is under way, and the fingerprints of the last one were removed when it ended. It is "
            "neither in the failed list nor among the latest requests of which the outcome is kept "
            f"(FRONTIER_OUTCOMES). To crawl it: {frontier_command('seed', spider, typed)}"
        )
    elif found.is_nowhere:
        lines.append(
            "It was never found: no crawled page linked to it, or the spider, its rules or a middleware "
            "(allowed_domains, DEPTH_LIMIT) dropped it first. To crawl it: "
            + frontier_command("seed", spider, typed)
        )
    if found.alike:
        lines.append("But these similar URLs were seen: " + ", ".join(found.alike))
    return lines


def _ended(outcome: Ended) -> str:
    """Return the outcome of a request, and where its log is."""
    by = f" by worker {outcome.worker}" if outcome.worker else ""
    log = f", whose log on {outcome.host or 'its host'} is {outcome.log}" if outcome.log else ""
    verb = "was crawled" if outcome.status else "was not crawled"
    raised = ", and its callback raised an exception" if outcome.has_raised else ""
    aside = ", and it was moved to the failed list" if outcome.is_set_aside else ""
    return f"It {verb}{by}{log}: {outcome.text}{raised}{aside}"


def _follows(one: Follower, found: Explanation) -> str:
    """Return for which groups a request waits."""
    names = [min(names_in(name)) for name in one.groups]
    first = next((group for group in found.groups if group.name == names[0]), None)
    left = ""
    if first is not None:
        verb = "is" if first.requests == 1 else "are"
        left = f", of which {counted(first.requests, 'request')} {verb} not finished"
    further = f", and then for {shown(names[1:])}" if names[1:] else ""
    return f"It waits until group {names[0]!r} is finished{left}{further}"


def _awaits(pool: PoolCounts, spider: str) -> str:
    """Return for which items a request waits, if none of the pool is free."""
    add = frontier_command("pool", spider, "add", shlex.quote(pool.name), "ITEM")
    if not pool.items:
        return f"It waits for an item of pool {pool.name!r}, which has none. To add one: {add}"
    if pool.items == pool.retired:
        return (
            f"It waits for an item of pool {pool.name!r}, but all of its items are retired. To use one "
            f"again, or to add one: {add}"
        )
    kinds = [
        f"{counted(pool.in_use, 'item')} {'is' if pool.in_use == 1 else 'are'} in use",
        f"{counted(pool.rests, 'item')} {'rests' if pool.rests == 1 else 'rest'}",
        f"{counted(pool.waits, 'item')} {'waits' if pool.waits == 1 else 'wait'} for the end of the delay",
        f"{counted(pool.retired, 'item')} {'is' if pool.retired == 1 else 'are'} retired",
    ]
    numbers = (pool.in_use, pool.rests, pool.waits, pool.retired)
    texts = [kind for kind, number in zip(kinds, numbers, strict=True) if number]
    soon = f". The first is free in {max(1, round(pool.next_in))} s at the latest" if pool.next_in else ""
    return f"It waits for an item of pool {pool.name!r}: {', '.join(texts)}{soon}"


def _lacking(status: Status) -> str:
    """Return a worker that lacks an item for its life, if no worker begins a request; else an empty text."""
    alive = [worker for worker in status.workers if worker.alive]
    waits = all(one.lacks_item or (one.limit == "pool" and not one.in_hand) for one in alive)
    return next((one.name for one in alive if one.lacks_item), "") if waits else ""


def _unmet(found: Explanation, status: Status) -> frozenset[str]:
    """Return what the waiting requests need, if no live worker offers all of it."""
    for place in found.waiting:
        needs = names_in(split_place(place.entry.slot)[1])
        if needs and not any(worker.alive and needs <= set(worker.offers) for worker in status.workers):
            return needs
    return frozenset()


def _sooner(found: Explanation, spider: str) -> str:
    if any(place.entry.score is not None for place in found.waiting):
        url = shlex.quote(found.waiting[0].entry.url)
        return f". To crawl it sooner: {frontier_command('reprioritize', spider, '1000', url)}"
    return ""
