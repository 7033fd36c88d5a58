"""Make URLs count as not seen, so that they are crawled again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ...errors import InspectionError, frontier_command
from ...frontier.scripts import register
from .. import own_keys
from ..entries import STEP
from ..explain import Explainer
from ..fingerprint import Fingerprinter
from ..view import View
from ..wording import counted
from .operation import Mood, Operation
from .seed_rules import SeedRules
from .seeding import Few, Seeding


def forget(view: View, fingerprints: Iterable[str]) -> int:
    """Make requests count as not seen, and as start requests that this crawl has not sent yet.

    :param fingerprints: those of the requests, made by :class:`Fingerprinter`.
    :return: how many of them had been seen.
    :raises InspectionError: if ``meta`` names keys that are not the frontier's: see :mod:`.own_keys`.
    """
    own_keys.require(view)
    script = register(view.server, "forget", dupefilter=view.dupefilter)
    forgotten = 0
    for part in in_steps(fingerprints):
        forgotten += int(script(view.keys.all(), [len(part), *part]))
    return forgotten


def forget_urls(
    view: View, urls: Iterable[str], crawls: bool = False, priority: int | None = None
) -> Operation:
    """Make *urls* count as not seen. The count is that of the URLs that had been seen.

    :param urls: a list is checked before any of them is forgotten.
    :param crawls: whether all of them are also pushed as seeds, with this *priority*.
    :raises InspectionError: if there is no frontier: its ``meta`` says how the URLs are stored.
    """
    view.require()
    own_keys.require(view)
    fingerprinter = Fingerprinter(view)
    for url in urls if isinstance(urls, list) else ():
        fingerprinter.request(url)
    rules = SeedRules(view, priority) if crawls else None
    if rules is not None and rules.are_its_own:
        raise InspectionError(
            f"Spider {view.spider!r} has its own format of seeds, in which these URLs cannot be pushed. "
            f"Forget them only, and push seeds in that format: {frontier_command('seed', view.spider)}"
        )
    total = 0

    def met(find: Callable[[list[str]], int]) -> int:
        nonlocal total
        found = 0
        for part in in_steps(urls):
            found += find(part)
            total += len(part)
        return found

    def forget_some(part: list[str]) -> int:
        forgotten = forget(view, [fingerprinter.of(fingerprinter.request(url)) for url in part])
        if rules is not None:
            seeding = Seeding(view, Few(map(_as_seed, part)), rules)
            seeding.check()
            seeding.begin()
            seeding.push()
        return forgotten

    def text(count: int, mood: Mood) -> str:
        pushed = f". {counted(total, 'seed')} {mood.be(total)} pushed" if crawls else ""
        return (
            f"{count:,} of {counted(total, 'URL')} {mood.be(count)} forgotten; only URLs that have been seen "
            f"count{pushed}"
        )

    return Operation(text, lambda: met(Explainer(view).count_seen), lambda: met(forget_some))


def _as_seed(url: str) -> str:
    """Return a seed that counts as seen."""
    fields = json.loads(url) if url.startswith("{") else {"url": url}
    return json.dumps({"dont_filter": False, **fields})


def in_steps(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield *values* in lists of the length of a step."""
    rest = iter(values)
    while part := list(islice(rest, STEP)):
        yield part
