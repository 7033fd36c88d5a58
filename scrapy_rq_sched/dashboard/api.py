"""``/api/v1/``: the output of ``scrapy frontier … --json``, with the same names."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
from concurrent.futures import Executor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .. import __version__
from ..inspect import as_json, read_status
from ..inspect.explain import Explainer
from ..inspect.history import find_worker
from ..inspect.limit import LIMITS
from ..inspect.verdict import verdict
from .answers import answer_of
from .cached import Made
from .logs import Logs
from .pictures import MOST_FRONTIERS, Frontier, Picture, Pictures, workers_of

#: Entries of a page: by default, and at most.
PAGE, MOST = 50, 200
#: Characters of a parameter, such as a URL to explain, at most.
LONGEST = 20_000


def answer(**fields: Any) -> Response:
    """Return a JSON response with *fields*."""
    return Response(as_json.dump(fields), media_type="application/json")


def picture_text(made: Made[Picture]) -> str:
    """Return the state of a frontier as JSON, for a response or a stream.

    ``redis`` is the reason why the state is out of date; empty if it is current. ``known`` is false if Redis
    has no such frontier.
    """
    frontier = made.value.full if made.value else "null"
    known = json.dumps(not made.refused)
    return (
        f'{{"redis": {json.dumps(made.problem)}, "known": {known}, "taken": {made.at:.3f}, '
        f'"frontier": {frontier}}}'
    )


async def overview_text(pictures: Pictures) -> str:
    """Return the states of all frontiers as JSON."""
    names, shown = await pictures.overview()
    # As for the command, a frontier without workers, seeds and traces of a crawl does not exist yet.
    briefs = [made.value.brief for made in shown if made.value and _is_shown(made.value)]
    problem = names.problem or next((made.problem for made in shown if made.problem and not made.refused), "")
    taken = max((made.at for made in shown), default=names.at)
    hidden = max(0, len(names.value or []) - MOST_FRONTIERS)
    return (
        f'{{"redis": {json.dumps(problem)}, "taken": {taken:.3f}, "total": {len(briefs) + hidden}, '
        f'"frontiers": [{", ".join(briefs)}]}}'
    )


def _is_shown(picture: Picture) -> bool:
    status = picture.status
    return status.state != "new" or bool(status.seeds or status.failed or status.last_crawl)


class Api:
    """Answers the requests that only read.

    :param actions: whether the page may offer actions.
    :param executor: runs the explanation of a URL in a thread.
    :param logs: reads the logs of workers.
    """

    def __init__(self, pictures: Pictures, actions: bool, executor: Executor, logs: Logs) -> None:
        self._pictures = pictures
        self._actions = actions
        self._executor = executor
        self._logs = logs
        self._explaining = False

    async def about(self, request: Request) -> Response:
        """Return the version, the user's name, the meaning of limits, and what the user may do."""
        state = request.state
        return answer(
            version=__version__,
            actions=self._actions,
            who=state.who,
            has_session=state.has_session,
            limits=LIMITS,
        )

    async def status(self, request: Request) -> Response:
        """Return the state of one frontier, or of all."""
        if "spider" not in request.query_params:
            return Response(await overview_text(self._pictures), media_type="application/json")
        made = await self._frontier(request).picture.get()
        if made.refused:
            raise HTTPException(404, made.problem)
        return Response(picture_text(made), media_type="application/json")

    async def workers(self, request: Request) -> Response:
        """Return the workers of a frontier, including those in line for a place."""
        picture, problem = await _read(self._frontier(request).picture)
        in_line = [as_json.worker(one) for one in picture.status.in_line]
        return await _page_of(request, "workers", workers_of(picture.status) + in_line, problem)

    async def worker(self, request: Request) -> Response:
        """Return a worker, its leases, and the last lines of its log; of one that has ended, its last crawl.

        ``log`` selects the lines of the log that contain this text.
        """
        frontier, name = self._frontier(request), _text(request, "worker")
        picture, problem = await _read(frontier.picture)
        everybody = (*picture.status.workers, *picture.status.in_line)
        worker = next((one for one in everybody if one.name == name), None)
        text = _text(request, "log") or ""
        if worker is None:
            past = await asyncio.wrap_future(self._executor.submit(self._past, frontier, name or "", text))
            return await answer_of(lambda: {"redis": problem, **past})
        kept, held_problem = await _read(frontier.held(worker.name))
        log = await asyncio.wrap_future(self._executor.submit(self._logs.tail, worker, text))
        fields = {"worker": as_json.worker(worker), "log": log, **kept}
        return await answer_of(lambda: {"redis": problem or held_problem, **fields})

    def _past(self, frontier: Frontier, name: str, text: str) -> dict[str, Any]:
        found = find_worker(frontier.view(), name)
        if found is None:
            raise HTTPException(404, "The frontier and its last crawls have no such worker")
        crawl, worker = found
        shown = {"run": crawl.run, "state": crawl.state, "worker": dataclasses.asdict(worker)}
        return {"past": shown, "log": self._logs.tail(worker, text)}

    async def slots(self, request: Request) -> Response:
        """Return the blocked slots, and the slots with the most requests."""
        return await _whole(self._frontier(request).slots)

    async def pools(self, request: Request) -> Response:
        """Return the items of pools, without their values."""
        return await _whole(self._frontier(request).pools)

    async def peek(self, request: Request) -> Response:
        """Return the next requests."""
        return await _whole(self._frontier(request).next)

    async def counts(self, request: Request) -> Response:
        """Return the number of failed entries for each kind of error, or of those with a URL of a pattern."""
        frontier, url = self._frontier(request), _text(request, "url")
        found, problem = await _read(frontier.failed_counts)
        if url is None:
            return await answer_of(lambda: {"redis": problem, **found})
        return await answer_of(lambda: {"redis": problem, **found, "counts": frontier.failed.counts(url)})

    async def failed(self, request: Request) -> Response:
        """Return entries of the failed list, the latest first."""
        frontier = self._frontier(request)
        _, problem = await _read(frontier.failed_counts)
        chosen = {name: _text(request, name) for name in ("reason", "error", "id", "host", "url")}
        offset, limit = _page(request)
        return await answer_of(lambda: {"redis": problem, **frontier.failed.page(offset, limit, **chosen)})

    async def events(self, request: Request) -> Response:
        """Return events; with ``folded``, equal ones that follow each other as one."""
        frontier, query = self._frontier(request), request.query_params
        _, problem = await _read(frontier.picture)
        _, limit = _page(request)
        find = frontier.events.folded_since if "folded" in query else frontier.events.since
        events = find(query.get("since", ""), limit)
        return await answer_of(lambda: {"redis": problem, "events": events})

    async def history(self, request: Request) -> Response:
        """Return crawls of a spider, the latest first; with ``run``, one, and the finished one before it."""
        frontier, run = self._frontier(request), _text(request, "run")
        await _read(frontier.picture)  # its status tells whether a crawl is under way
        if run is None:
            return await _whole(frontier.crawls(*_page(request)))
        if run != "last" and not _is_number(run):
            raise HTTPException(400, "run must be the number of a crawl, or last")
        return await _whole(frontier.crawl(None if run == "last" else int(run)))

    async def audit(self, request: Request) -> Response:
        """Return the actions of dashboards, the latest first."""
        return await _page_of(request, "audit", *await _read(self._frontier(request).audit))

    async def explain(self, request: Request) -> Response:
        """Explain a URL: one at a time, because this reads the whole queue."""
        frontier, url = self._frontier(request), request.query_params.get("url", "").strip()
        if not url or len(url) > LONGEST:
            raise HTTPException(400, f"url must be given, with at most {LONGEST:,} characters")
        if self._explaining:
            raise HTTPException(429, "Another URL is being explained. Try again when that is done")
        self._explaining = True
        future = self._executor.submit(_explained, frontier, url)
        # The thread continues to its end even if the client disconnects.
        future.add_done_callback(lambda _: self._is_free())
        found = await asyncio.wrap_future(future)
        return await answer_of(lambda: found)

    def _is_free(self) -> None:
        self._explaining = False

    def _frontier(self, request: Request) -> Frontier:
        name = request.query_params.get("spider", "")
        if not name:
            raise HTTPException(400, "The spider is missing. Add ?spider=NAME to the URL")
        return self._pictures.of(name)


def _explained(frontier: Frontier, url: str) -> dict[str, Any]:
    view = frontier.view()
    found = Explainer(view).explain(url)
    status = read_status(view)
    return {**as_json.explanation(found), "verdict": verdict(found, status, shlex.quote(url))}


async def _read(kept: Any) -> tuple[Any, str]:
    """Return what *kept* keeps, and why it is out of date; empty if it is current.

    :raises HTTPException: if it could not be read yet.
    """
    made = await kept.get()
    if made.value is None:
        raise HTTPException(404 if made.refused else 503, made.problem)
    return made.value, made.problem


async def _whole(kept: Any) -> Response:
    """Return all fields that *kept* keeps."""
    fields, problem = await _read(kept)
    return await answer_of(lambda: {"redis": problem, **fields})


async def _page_of(request: Request, name: str, entries: list[Any], problem: str) -> Response:
    """Return the requested page of the list that is called *name*."""
    offset, limit = _page(request)
    shown = {"total": len(entries), "offset": offset, name: entries[offset : offset + limit]}
    return await answer_of(lambda: {"redis": problem, **shown})


def _text(request: Request, name: str) -> str | None:
    """Return the parameter *name*; None if it is not given."""
    text = request.query_params.get(name)
    if text is not None and len(text) > LONGEST:
        raise HTTPException(400, f"{name} must have at most {LONGEST:,} characters")
    return text


def _page(request: Request) -> tuple[int, int]:
    """Return the requested offset and limit of a list."""
    values = []
    for name, usual, most in (("offset", 0, 10**9), ("limit", PAGE, MOST)):
        text = request.query_params.get(name, str(usual))
        if not _is_number(text) or int(text) > most:
            raise HTTPException(400, f"{name} must be a whole number from 0 to {most:,}")
        values.append(int(text))
    return values[0], values[1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
