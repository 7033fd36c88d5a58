"""What holds a URL, and what to do: in sentences."""

from __future__ import annotations

import shlex

from .explain import Explanation
from .status import Status


def verdict(found: Explanation, status: Status, typed: str) -> list[str]:
    """Return in sentences what holds the URL, and what to do.

    :param typed: what was asked for, as a shell takes it.
    """
    # As a shell takes it: whoever wrote it in Redis chose the name.
    spider, lines = shlex.quote(status.spider), list[str]()
    nobody = "no worker is alive: start one with scrapy crawl " + spider
    state = {"paused": "paused", "draining": "drained"}.get(status.state)
    if found.waiting or found.seeds or found.delayed:
        if not status.alive:
            lines.append(f"It waits, and {nobody}")
        elif state:
            lines.append(f"It waits, and the crawl is {state}: scrapy frontier resume {spider}")
        elif found.delayed:
            lines.append(
                "It needs code that the workers that were given it lack: they leave it to another worker. "
                "Start one that has its callback and its class"
            )
        else:
            turn = "It will be crawled when its turn comes, after what the workers have in hand"
            lines.append(turn + _sooner(found, spider))
    for held in found.held:
        if held.alive:
            lines.append(f"Worker {held.worker} has it, and will release it when it is done")
        else:
            lines.append(
                f"Worker {held.worker} died with it: it goes back to the queue when another is alive"
            )
            if not status.alive:
                lines.append(nobody[0].upper() + nobody[1:])
    if found.failed:
        again = f"scrapy frontier failed {spider} --id {shlex.quote(found.failed[-1].id)} --requeue"
        lines.append(f"It was set aside. Try it again: {again}")
    if found.is_nowhere and (found.seen or found.started):
        lines.append(
            "It was found, and nothing is left to do for it: it was crawled, or its download failed for "
            "good, or it was removed. The log of the worker says which. To crawl it again: "
            f"scrapy frontier forget {spider} {typed} --crawl"
        )
    elif found.is_nowhere:
        lines.append(
            "It was never found: no page that was crawled led to it, or the spider, its rules or a "
            "middleware (allowed_domains, DEPTH_LIMIT) dropped it before. To crawl it: "
            f"scrapy frontier seed {spider} {typed}"
        )
    if found.alike:
        lines.append("But these were seen: " + ", ".join(found.alike))
    return lines


def _sooner(found: Explanation, spider: str) -> str:
    if any(place.entry.score is not None for place in found.waiting):
        url = shlex.quote(found.waiting[0].entry.url)
        return f". Sooner: scrapy frontier reprioritize {spider} 1000 {url}"
    return ""
