"""The actions of the page: the operations of the commands, with arguments from a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ..codec.pools import LONGEST_REST
from ..codec.slot_rules import FIELDS
from ..connection import RedisError
from ..errors import FrontierError, InspectionError
from ..inspect import View
from ..inspect.audit import Audit
from ..inspect.operations.deny import allow, deny
from ..inspect.operations.failed import drop_failed, requeue_failed
from ..inspect.operations.forget import forget_urls
from ..inspect.operations.operation import Observer, Operation, Outcome
from ..inspect.operations.orders import ORDERS, order, stop_worker
from ..inspect.operations.pools import add_items, remove_items, rest_item, retire_item
from ..inspect.operations.seed_rules import SeedRules
from ..inspect.operations.seeding import Few, push_seeds
from ..inspect.operations.slots import LONGEST_BLOCK, block_slot, reset_slot, set_slot, unblock_slot
from .api import answer
from .arguments import Arguments, read_body
from .pictures import Frontier, Pictures

#: Seeds, or URLs, in one action.
MOST = 1000
#: Arguments of every action.
_ALWAYS = ("spider", "dry_run")


class Action(NamedTuple):
    """An action: how its operation is prepared, and the names of its arguments.

    :param secret: the arguments that can be secret, so that the audit list does not have them.
    """

    prepare: Callable[[View, Arguments, Observer], Operation]
    fields: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


def _order(name: str) -> Action:
    return Action(lambda view, given, observer: order(view, name))


def _seed(view: View, given: Arguments, observer: Observer) -> Operation:
    priority = given.number("priority", -(2**53), 2**53)
    rules = SeedRules(view, None if priority is None else int(priority))
    return push_seeds(view, observer, Few(given.texts("seeds", MOST)), rules)


def _forget(view: View, given: Arguments, observer: Observer) -> Operation:
    return forget_urls(view, given.texts("urls", MOST), given.flag("crawl"))


def _of_failed(change: Callable[..., Operation]) -> Action:
    def prepare(view: View, given: Arguments, observer: Observer) -> Operation:
        return change(view, observer, exactly=True, **{name: given.optional(name) for name in chosen})

    chosen = ("reason", "error", "id", "url")
    return Action(prepare, chosen)


def _of_slot(change: Callable[[View, str], Operation]) -> Action:
    return Action(lambda view, given, observer: change(view, given.text("slot")), ("slot",))


def _block(view: View, given: Arguments, observer: Observer) -> Operation:
    seconds = given.number("seconds", 1, LONGEST_BLOCK)
    if seconds is None:
        raise InspectionError(f"seconds is missing; it must be a number from 1 to {LONGEST_BLOCK}")
    return block_slot(view, given.text("slot"), seconds)


def _set(view: View, given: Arguments, observer: Observer) -> Operation:
    limits = {name: value for name in FIELDS if (value := given.fields.get(name)) is not None}
    return set_slot(view, given.text("slot"), limits)


def _add(view: View, given: Arguments, observer: Observer) -> Operation:
    return add_items(view, given.text("pool"), given.texts("items", MOST, are_secret=True))


def _remove(view: View, given: Arguments, observer: Observer) -> Operation:
    return remove_items(view, given.text("pool"), given.texts("items", MOST, are_secret=True))


def _rest(view: View, given: Arguments, observer: Observer) -> Operation:
    seconds = given.number("seconds", 0, LONGEST_REST)
    if seconds is None:
        raise InspectionError(f"seconds is missing; it must be a number from 0 to {LONGEST_REST:.0f}")
    return rest_item(view, given.text("pool"), _item(given), seconds, given.optional("reason") or "")


def _retire(view: View, given: Arguments, observer: Observer) -> Operation:
    return retire_item(view, given.text("pool"), _item(given), given.optional("reason") or "")


def _item(given: Arguments) -> str:
    (item,) = Arguments({"item": [given.fields.get("item")]}, ("item",)).texts("item", 1, are_secret=True)
    return item


#: The actions by their paths below ``/api/v1/``.
ACTIONS: dict[str, Action] = {
    **{name: _order(name) for name in ORDERS},
    "workers/stop": Action(
        lambda view, given, observer: stop_worker(view, given.text("worker")), ("worker",)
    ),
    "seed": Action(_seed, ("seeds", "priority")),
    "forget": Action(_forget, ("urls", "crawl")),
    "failed/requeue": _of_failed(requeue_failed),
    "failed/forget": _of_failed(drop_failed),
    "deny": Action(lambda view, given, observer: deny(view, observer, given.text("url")), ("url",)),
    "allow": Action(lambda view, given, observer: allow(view, given.text("url")), ("url",)),
    "slots/block": Action(_block, ("slot", "seconds")),
    "slots/unblock": _of_slot(unblock_slot),
    "slots/set": Action(_set, ("slot", *FIELDS)),
    "slots/reset": _of_slot(reset_slot),
    "pools/add": Action(_add, ("pool", "items"), ("items",)),
    "pools/remove": Action(_remove, ("pool", "items"), ("items",)),
    "pools/rest": Action(_rest, ("pool", "item", "seconds", "reason"), ("item",)),
    "pools/retire": Action(_retire, ("pool", "item", "reason"), ("item",)),
}


def endpoint(
    pictures: Pictures, executor: Executor, name: str, action: Action
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of *action*, which is called *name*: it is done once, in a thread, and noted.

    :param executor: provides the threads.
    """

    async def respond(request: Request) -> Response:
        given = Arguments(await read_body(request), (*_ALWAYS, *action.fields))
        frontier, dry = pictures.of(given.text("spider")), given.flag("dry_run")
        try:
            future = executor.submit(_do, frontier, name, action, given, dry, request.state.who)
            # The action continues to its end even if the client disconnects.
            outcome, warning = await asyncio.shield(asyncio.wrap_future(future))
        finally:
            frontier.forget()
        return answer(said=outcome.text, count=outcome.touched, dry_run=dry, warning=warning)

    return respond


def _do(
    frontier: Frontier, name: str, action: Action, given: Arguments, is_dry: bool, user: str
) -> tuple[Outcome, str]:
    """Do or plan an action, and note in the audit list what was done; return also the warnings."""
    view = frontier.view()
    if is_dry:
        return _run(view, action, given, is_dry)
    shown = set(action.fields) - set(action.secret)
    arguments = {field: value for field, value in given.fields.items() if field in shown}
    try:
        outcome, warning = _run(view, action, given, is_dry)
    except FrontierError as error:
        Audit(view).note(user, name, arguments, f"refused: {error}")
        raise
    except RedisError:
        with suppress(RedisError):
            Audit(view).note(user, name, arguments, "interrupted by an error of Redis: possibly partly done")
        raise
    try:
        Audit(view).note(user, name, arguments, outcome.text)
    except RedisError as error:
        # The action itself succeeded.
        warning = f"{warning and f'{warning}. '}The action could not be noted in the audit list: {error}"
    return outcome, warning


def _run(view: View, action: Action, given: Arguments, is_dry: bool) -> tuple[Outcome, str]:
    """Return the outcome, and the warnings.

    :raises InspectionError: if the action is refused, with the warnings as the reasons.
    """
    observer = Observer()
    try:
        operation = action.prepare(view, given, observer)
        outcome = operation.plan() if is_dry else operation.do()
    except FrontierError as error:
        if not observer.warnings:
            raise
        raise InspectionError(". ".join([str(error), *observer.warnings])) from error
    return outcome, ". ".join(observer.warnings)
