"""A frontier of an older version, which the present one continues; and workers of both at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.project.crawls.upgraded import HOSTS, SPECIAL, url_of
from tests.support.crawl import PROJECT

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .machines import type_command
from .mutants import PACKAGE, ROOT
from .referee import Outcome
from .registry import NotPlayableError, scenario

#: The older version, and its name for a request that a worker leaves to another one.
OLDER, PARKED = "c8219d1", "upgraded:delayed"
#: The spider that both versions crawl with: the one of today.
SPIDER = "crawls/upgraded.py"
#: Seconds between two requests to a host.
DELAY = 0.6
#: How a worker of a version that does not fit begins its refusal.
REFUSED = "format"


class _Older:
    """The older version's code, and the test project that goes with it, in a folder of their own."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        folder = arena.folder / "older"
        folder.mkdir()
        try:
            archive = _git("archive", OLDER, PACKAGE, "tests/project")
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotPlayableError(
                f"the code of {OLDER} is not in this copy of the repository (is it a shallow clone?): {error}"
            ) from error
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        self._project = folder / "tests/project"
        self._code = folder
        shutil.copy(PROJECT / SPIDER, self._project / SPIDER)

    def join(self, count: int, settings: Mapping[str, object] | None = None, **environment: str) -> list[int]:
        """Start workers of the older version; return their numbers."""
        variables = {"PYTHONPATH": str(self._code), "WATCH_LOOP": "1", **environment}
        arguments = ("crawl", "upgraded")
        return [
            type_command(self._arena, self._project, *arguments, environment=variables, **(settings or {}))
            for _ in range(count)
        ]

    def check(self, workers: list[int]) -> None:
        """See that these workers run the older code, and not today's. They say so as their spiders start."""
        events, ours = self._arena.fleet.events, self._code / PACKAGE / "__init__.py"
        for number in workers:
            self._arena.wait(partial(events, "code", number), "an older worker does not start")
            assert {Path(event.what) for event in events("code", number)} == {ours}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _crawl(arena: Arena, **settings: object) -> None:
    pages = arena.choose(60, 600)
    arena.crawl(
        "upgraded",
        workers=0,
        pages=pages,
        urls=lambda number: url_of(number, pages),
        SPIDER_MODULES="crawls.upgraded",
        GRAPH_LATENCY=0.2,
        DOWNLOAD_DELAY=DELAY,
        RANDOMIZE_DOWNLOAD_DELAY="False",
        # A page there takes longer than the delay: two at once are two too soon.
        FRONTIER_SLOTS=json.dumps({SPECIAL: {"delay": 0, "concurrency": 1}}),
        **MANY,
        **settings,
    )


def _forget_delay(arena: Arena) -> None:
    """Have the crawl that follows take no longer than it must."""
    arena.settings.update(DOWNLOAD_DELAY=0, FRONTIER_SLOTS="{}")


def _is_busy(arena: Arena, worker: int) -> bool:
    """Return whether *worker* has begun a page of a host with a delay."""
    return any(SPECIAL not in event.what for event in arena.fleet.events("downloaded", worker))


def _repeats(arena: Arena, kills: int) -> int:
    return min(kills * UNRELEASED, kills * HOSTS * (2 + int(arena.lease / DELAY)))


@scenario(
    "upgrade",
    f"Workers of version {OLDER} are killed in mid-crawl: requests wait, are leased, and are parked for "
    "another worker, and slots have limits. Workers of this version continue the crawl. Each killed worker "
    f"explains {UNRELEASED} repeats.",
    again=True,
)
def upgrade(arena: Arena) -> Outcome:
    older = _Older(arena)
    _crawl(arena)
    # A worker without a callback leaves the requests for it to others, while there is one. This one is such,
    # and takes none of them: it closes, and the page that it has begun takes too long.
    (closing,) = older.join(1, settings={"GRAPH_LATENCY": 600, "CONCURRENT_REQUESTS": 1})
    arena.wait(lambda: _is_busy(arena, closing), "the older version does not crawl")
    arena.fleet.kill(closing, signal.SIGINT)
    (complete,) = older.join(1)
    (lacking,) = older.join(1, LESS="1", HOLD=str(arena.folder / "never"))
    arena.wait(lambda: len(arena.opened()) == 3, "the older version does not crawl")
    older.check([closing, complete, lacking])
    arena.reach(0.1)
    arena.fleet.kill(complete)
    arena.wait(lambda: arena.client.zcard(PARKED), "no request is parked")
    arena.fleet.kill(closing)
    arena.fleet.kill(lacking)
    arena.fleet.wait()
    held = sum(arena.client.hlen(key) for key in arena.client.scan_iter("upgraded:leases:*"))
    waiting = sum(1 for _ in arena.client.scan_iter("upgraded:requests:*"))
    assert held, "nothing is leased"
    assert waiting, "nothing waits"
    arena.join(2)
    arena.all_opened()
    _forget_delay(arena)
    return Outcome(3, _repeats(arena, 3))


@scenario(
    "upgrade-beside",
    f"Workers of this version join workers of version {OLDER}, which are stopped one by one, the last by a "
    "pause longer than its lease. Another older worker joins at the end. A worker either crawls as it "
    f"should, or is refused with a line. A worker that was paused explains {UNRELEASED} repeats.",
    again=True,
)
def upgrade_beside(arena: Arena) -> Outcome:
    older = _Older(arena)
    _crawl(arena)
    # The crawl is not over before the last of them was there.
    hold = arena.folder / "hold"
    first, second = older.join(2, HOLD=str(hold))
    arena.wait(lambda: len(arena.opened()) == 2, "the older version does not crawl")
    older.check([first, second])
    arena.reach(0.1)
    present = arena.join(2, {"HOLD": str(hold)})
    arena.all_opened()
    arena.fleet.kill(first, signal.SIGINT)
    arena.fleet.wait(workers=[first])
    arena.fleet.kill(second, signal.SIGSTOP)
    try:
        time.sleep(1.5 * arena.lease)
        if not set(present) & set(arena.alive()):
            # They were refused as long as there were older ones.
            present = arena.join(2, {"HOLD": str(hold)})
            arena.all_opened()
    finally:
        arena.fleet.kill(second, signal.SIGCONT)
    (third,) = older.join(1, HOLD=str(hold))
    settled = {second, third, *present}
    arena.wait(lambda: settled <= {*arena.opened(), *_ended(arena)}, "a worker neither joins nor ends")
    hold.touch()
    arena.settle()
    failed = [number for number in _ended(arena) if (arena.fleet.workers[number].poll() or 0) > 0]
    refused = {number for number in failed if REFUSED in arena.fleet.log(number)}
    _forget_delay(arena)
    return Outcome(3, _repeats(arena, 1), refused=refused)


def _ended(arena: Arena) -> list[int]:
    return sorted(set(range(len(arena.fleet.workers))) - set(arena.alive()))
