"""The crawl as the demo follows it: who has done what, the kill, and the judgement at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .frontier import FrontierView, Sample
from .processes import DemoError, Worker

#: Seconds without a new page after which the crawl is held to be stuck.
STUCK_AFTER = 60.0
#: The worker that is killed, if it has anything in hand when the time has come.
VICTIM = 2


class WorkerFailedError(DemoError):
    """A worker did what it should not have; its log says why."""

    def __init__(self, message: str, worker: Worker) -> None:
        super().__init__(message)
        self.worker = worker


@dataclass
class Kill:
    """The killing of a worker, and what became of its requests."""

    worker: Worker
    at: float
    #: How many requests it held; None until Redis has said.
    in_hand: int | None = None
    #: When the last of them was given back; None until then.
    returned_at: float | None = None

    #: Whether a viewer wanted it.
    wanted: bool = False

    @property
    def took(self) -> float | None:
        return None if self.returned_at is None else self.returned_at - self.at


def requests(count: int | None) -> str:
    """Return *count* and the noun."""
    return "1 request" if count == 1 else f"{count} requests"


class Crawl:
    """Several workers on one site.

    :param pages: the URL of every page of the site.
    :param announce: called with a line for the user, when something happens.
    """

    def __init__(
        self,
        workers: list[Worker],
        frontier: FrontierView,
        pages: set[str],
        started_at: float,
        announce: Callable[[str], None],
    ) -> None:
        self.workers = workers
        self.pages = pages
        self.sample = Sample()
        self.kills: list[Kill] = []
        self.elapsed = 0.0
        self.redis_answers = True
        self._frontier = frontier
        self._started_at = started_at
        self._announce = announce
        self._downloads = 0
        self._last_download = started_at

    @property
    def finished(self) -> bool:
        return not any(worker.alive for worker in self.workers)

    def counts(self) -> Counter[str]:
        """Return how often each page of the site was downloaded."""
        return Counter(url for worker in self.workers for url in worker.pages if url in self.pages)

    def reached(self) -> int:
        return len(self.counts())

    def step(self, now: float) -> None:
        """Look at the workers and the frontier, and act on what is seen.

        :raises WorkerFailedError: if a worker has died of itself, or nothing moves.
        """
        self.elapsed = now - self._started_at
        for worker in self.workers:
            worker.update(now)
        self._read_frontier()
        for kill in self.kills:
            self._follow_kill(kill, now)
        if not self.kills and 2 * self.reached() >= len(self.pages):
            self._kill_one(now)
        self._check(now)

    def kill(self, number: int, now: float) -> None:
        """Kill the worker with this number, because a viewer wants it; the last one that is alive stays."""
        alive = [worker for worker in self.workers if worker.alive]
        for worker in alive:
            if worker.number == number and len(alive) > 1:
                self._kill(worker, now, wanted=True)
            elif worker.number == number:
                self._announce(f"{worker.name} is the last one alive, and is not killed")

    def _read_frontier(self) -> None:
        sample = self._frontier.read(worker.pid for worker in self.workers)
        self.redis_answers = sample is not None
        if sample is None:
            return
        # The last worker removes the frontier; what had been seen is still worth showing.
        seen = sample.seen or self.sample.seen
        self.sample = Sample(sample.waiting, seen, sample.set_aside, sample.in_hand)
        for worker in self.workers:
            worker.in_hand = sample.in_hand[worker.pid]

    def _kill_one(self, now: float) -> None:
        holding = [worker for worker in self.workers if worker.alive and worker.in_hand]
        if holding:
            self._kill(next((worker for worker in holding if worker.number == VICTIM), holding[0]), now)

    def _kill(self, worker: Worker, now: float, *, wanted: bool = False) -> None:
        worker.kill(now)
        self.kills.append(Kill(worker, now, wanted=wanted))
        self._read_frontier()
        if self.redis_answers:
            self._count_killed(self.kills[-1])

    def _count_killed(self, kill: Kill) -> None:
        kill.in_hand = kill.worker.in_hand
        why = "your key" if kill.wanted else "half-way"
        self._announce(f"{why}: kill -9 of {kill.worker.name}, with {requests(kill.in_hand)} in hand")

    def _follow_kill(self, kill: Kill, now: float) -> None:
        if not self.redis_answers or kill.returned_at is not None:
            return
        if kill.in_hand is None:
            self._count_killed(kill)
        elif kill.worker.in_hand == 0:
            kill.returned_at = now
            if kill.in_hand:
                self._announce(
                    f"back in the queue: {requests(kill.in_hand)} of {kill.worker.name}, "
                    f"after {kill.took:.1f} s"
                )

    def _check(self, now: float) -> None:
        downloads = sum(len(worker.pages) for worker in self.workers)
        if downloads > self._downloads:
            self._downloads, self._last_download = downloads, now
        for worker in self.workers:
            if not worker.alive and not worker.killed and worker.end_reason != "finished":
                how = f"ended with the reason {worker.end_reason!r}" if worker.end_reason else "died"
                raise WorkerFailedError(
                    f"{worker.name} {how} (exit status {worker.process.returncode})", worker
                )
        if now - self._last_download > STUCK_AFTER and not self.finished:
            stuck = next(worker for worker in self.workers if worker.alive)
            raise WorkerFailedError(f"no page was downloaded for {STUCK_AFTER:.0f} s", stuck)


@dataclass(frozen=True)
class Verdict:
    """What came of the crawl."""

    pages: int
    reached: int
    #: Downloads of a page that had been downloaded before.
    repeated: int
    #: Why the crawl was not as it should be; empty if it was.
    complaints: list[str]

    @property
    def lost(self) -> int:
        return self.pages - self.reached


def judge(crawl: Crawl) -> Verdict:
    """Compare what was downloaded with what the site has."""
    counts = crawl.counts()
    reached, lost = len(counts), len(crawl.pages) - len(counts)
    complaints = []
    if lost:
        missing = sorted(crawl.pages - counts.keys())[:5]
        complaints.append(f"{lost} pages were not reached, among them {', '.join(missing)}")
    complaints += [
        f"{worker.name} ended with the reason {worker.end_reason!r}, not 'finished'"
        for worker in crawl.workers
        if not worker.killed and worker.end_reason != "finished"
    ]
    if not crawl.kills:
        complaints.append("no worker was killed: none held a request at half-way")
    complaints += [
        f"the requests of {kill.worker.name} were not seen to come back"
        for kill in crawl.kills
        if kill.returned_at is None
    ]
    return Verdict(len(crawl.pages), reached, sum(counts.values()) - reached, complaints)
