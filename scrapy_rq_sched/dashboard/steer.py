"""Requests that change a crawl: each action is done once, in a thread, and noted in the audit list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from ..connection import RedisError
from ..errors import FrontierError
from ..inspect.audit import Audit
from .actions import Action, Done
from .api import answer
from .arguments import Arguments, read_body
from .pictures import Frontier, Pictures

#: Arguments of every action.
_ALWAYS = ("spider", "dry_run")


class Steer:
    """Does the requested actions.

    :param executor: provides the threads.
    """

    def __init__(self, pictures: Pictures, executor: Executor) -> None:
        self._pictures = pictures
        self._executor = executor

    def route(self, name: str, action: Action) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of *action*, which is called *name*."""

        async def respond(request: Request) -> Response:
            given = Arguments(await read_body(request), (*_ALWAYS, *action.fields))
            frontier, dry = self._pictures.of(given.text("spider")), given.flag("dry_run")

            def do() -> tuple[Done, str]:
                if dry:
                    return action.do(frontier.view(), given, True), ""
                return _do_and_note(frontier, name, action, given, request.state.who)

            try:
                future = self._executor.submit(do)
                # The action continues to its end even if the client disconnects.
                done, warning = await asyncio.shield(asyncio.wrap_future(future))
            finally:
                frontier.forget()
            return answer(said=done.said, count=done.touched, dry_run=dry, warning=warning)

        return respond


def _do_and_note(
    frontier: Frontier, name: str, action: Action, given: Arguments, who: str
) -> tuple[Done, str]:
    view = frontier.view()
    arguments = {field: given.fields[field] for field in action.fields if field in given.fields}
    try:
        done = action.do(view, given, False)
    except FrontierError as error:
        Audit(view).note(who, name, arguments, f"refused: {error}")
        raise
    except RedisError:
        with suppress(RedisError):
            Audit(view).note(who, name, arguments, "interrupted by an error of Redis: possibly partly done")
        raise
    try:
        Audit(view).note(who, name, arguments, done.said)
    except RedisError as error:
        # The action itself succeeded.
        return done, f"The action could not be noted in the audit list: {error}"
    return done, ""
