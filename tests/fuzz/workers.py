"""A real worker that crawls a batch of hostile entries, and an account of them."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..support.crawl import Fleet
from .hostile import kept
from .oracle import Complaint, log_faults
from .target import World

SPIDER = "fuzzed"
#: Seconds that a batch may take, even on a loaded machine.
PATIENCE = 120.0
#: How the reason begins of a request that was begun, and set aside then.
AFTER_ITS_BEGIN = ("its callback raised", "its download failed")


def crawl(world: World, entries: int, **settings: object) -> Iterator[Complaint]:
    """Start a worker, wait for its end, and yield what must not have happened.

    :param entries: how many seeds and requests are in Redis; each must be begun, dropped, set aside or left.
    """
    with tempfile.TemporaryDirectory(dir=world.folder) as folder:
        fleet = Fleet(Path(folder), world.url)
        try:
            fleet.start(SPIDER, 1, **{"SPIDER_MODULES": "crawls.fuzzed", "LOG_LEVEL": "DEBUG", **settings})
            try:
                fleet.wait(timeout=PATIENCE)
            except AssertionError:
                yield Complaint("the worker does not end", _log(fleet)[-3000:])
                return
            log = _log(fleet)
            code = fleet.workers[0].returncode
            kinds = _recorded(fleet.record)
            if code or not kinds["closed"]:
                yield Complaint(f"the worker ends with exit code {code}", log[-3000:])
            yield from log_faults(log, "log of the worker")
            yield from _lost(world.server, entries, kinds["begun"], kinds["dropped"])
        finally:
            fleet.stop()


def _log(fleet: Fleet) -> str:
    return kept((fleet.folder / "worker-0.log").read_bytes())


def _recorded(record: Path) -> Counter[str]:
    """Return how often what has happened; the name of a statistic may be hostile."""
    found: Counter[str] = Counter()
    for line in record.read_bytes().split(b"\n"):
        words = kept(line).split(" ", 3)
        if len(words) == 4 and words[2] in ("begun", "dropped", "closed"):
            found[words[2]] += words[2] != "closed" or words[3] == "finished"
    return found


def _lost(server: Any, entries: int, begun: int, dropped: int) -> Iterator[Complaint]:
    failed = [json.loads(entry) for entry in server.lrange(f"{SPIDER}:failed", 0, -1)]
    aside = [one for one in failed if not one["reason"].startswith(AFTER_ITS_BEGIN)]
    left = sum(_length(server, key) for key in server.scan_iter(f"{SPIDER}:*") if _holds_entries(key))
    found = begun + dropped + len(aside) + left
    if found != entries:
        reasons = sorted({one["reason"][:80] for one in failed})
        how = "are lost" if found < entries else "are there twice"
        yield Complaint(
            f"entries {how}",
            f"{entries} entries: {begun} begun, {dropped} dropped, {len(aside)} set aside, {left} left. "
            f"The reasons: {reasons}",
        )


def _holds_entries(key: bytes) -> bool:
    name = key.removeprefix(f"{SPIDER}:".encode())
    return name in (b"requests", b"start_urls", b"delayed") or name.startswith(
        (b"requests:slot:", b"leases:")
    )


def _length(server: Any, key: bytes) -> int:
    commands = {b"list": server.llen, b"zset": server.zcard, b"hash": server.hlen}
    command = commands.get(server.type(key))
    return int(command(key)) if command else 0
