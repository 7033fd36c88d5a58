"""The dashboard's actions on a frontier. They call the same functions as the commands of the same names.

Each function returns a description of the change. If *dry*, it describes the change without making it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from ..codec.slot_rules import FIELDS, LONGEST_DELAY, slot_rule
from ..errors import InspectionError
from ..inspect import Control, Seeding, View, own_keys, read_status
from ..inspect.edit import forget
from ..inspect.explain import Explainer
from ..inspect.fingerprint import Fingerprinter
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Few
from ..inspect.set_aside import set_aside
from ..inspect.slots import Slots
from ..inspect.wording import counted
from .arguments import Arguments

#: Seeds, or URLs, in one action.
MOST = 1000
#: The longest time for which a slot may be blocked, in seconds.
LONGEST_BLOCK = 30 * 86_400


class Done(NamedTuple):
    """The result of an action, or of a dry run.

    :param said: the result as a sentence.
    :param touched: the number of affected workers, requests, seeds or URLs.
    """

    said: str
    touched: int


class Action(NamedTuple):
    """An action, and the names of its arguments."""

    do: Callable[[View, Arguments, bool], Done]
    fields: tuple[str, ...] = ()


def pause(view: View, given: Arguments, dry: bool) -> Done:
    """Pause the crawl: no worker begins a page."""
    if dry:
        status = read_status(view)
        held = counted(status.leased, "request")
        return Done(
            f"This pauses the crawl: {_workers(status.alive)} would begin no page until it is "
            f"resumed. Requests that were begun are finished; the others go back to the queue ({held} in "
            "hand)",
            status.alive,
        )
    alive = Control(view).pause()
    return Done(f"Spider {view.spider} is paused: {_workers(alive)} will begin no page", alive)


def drain(view: View, given: Arguments, dry: bool) -> Done:
    """Drain the crawl: workers finish the requests in hand, and take no new ones."""
    if dry:
        status = read_status(view)
        held = counted(status.leased, "request")
        return Done(
            f"This drains the crawl: {_workers(status.alive)} would finish {held} in hand, and take no new "
            "ones until it is resumed",
            status.alive,
        )
    alive = Control(view).drain()
    return Done(
        f"Spider {view.spider} is drained: {_workers(alive)} will finish the requests in hand, and take no "
        "new ones",
        alive,
    )


def resume(view: View, given: Arguments, dry: bool) -> Done:
    """Resume the crawl after a pause or a drain."""
    if dry:
        alive = read_status(view).alive
        return Done(f"This resumes the crawl: {_workers(alive)} would begin pages again", alive)
    alive = Control(view).resume()
    return Done(f"Spider {view.spider} is resumed: {_workers(alive)} will begin pages again", alive)


def stop(view: View, given: Arguments, dry: bool) -> Done:
    """Close the workers that are alive."""
    if dry:
        alive = read_status(view).alive
        if not alive:
            return Done("No worker is alive, so none would close", alive)
        return Done(
            f"{counted(alive, 'worker')} would close, as after one Ctrl-C: nothing is lost. The crawl "
            "continues when somebody starts workers again",
            alive,
        )
    alive = Control(view).stop()
    if not alive:
        return Done(f"Spider {view.spider}: no worker is alive, so none closes", alive)
    return Done(f"Spider {view.spider} is stopped: {counted(alive, 'worker')} will close", alive)


def seed(view: View, given: Arguments, dry: bool) -> Done:
    """Push seeds; push none if one of them is bad."""
    priority = given.number("priority", -(2**53), 2**53)
    rules = SeedRules(view, None if priority is None else int(priority))
    seeding = Seeding(view, Few(given.texts("seeds", MOST)), rules)
    checked = seeding.check(lambda _: None)
    if dry or checked.bad:
        seeding.forget()
    if checked.bad:
        reasons = "; ".join(f"seed {number}: {reason}" for number, reason in checked.problems)
        raise InspectionError(
            f"Nothing was pushed: {checked.bad:,} of {counted(checked.bad + checked.good, 'seed')} cannot be "
            f"turned into a request: {reasons}"
        )
    seeds = counted(checked.good, "seed")
    if dry:
        return Done(f"{seeds} would be pushed to {seeding.key!r}", checked.good)
    seeding.push(lambda _: None)
    alive = read_status(view).alive
    if alive:
        then = f"{counted(alive, 'worker')} will take them"
    else:
        then = "no worker is alive, so they wait until one starts"
    return Done(f"{seeds} pushed to {seeding.key!r}: {then}", checked.good)


def forget_urls(view: View, given: Arguments, dry: bool) -> Done:
    """Forget URLs, so that they count as not seen; with ``crawl``, push them as seeds, too."""
    own_keys.require(view)
    urls, crawl = given.texts("urls", MOST), given.flag("crawl")
    given_urls = counted(len(urls), "URL")
    if dry:
        seen = Explainer(view).count_seen(urls)
        then = f"; all {len(urls):,} would be pushed as seeds" if crawl else ""
        return Done(f"This forgets the URLs that have been seen, {seen:,} of {given_urls}{then}", seen)
    fingerprinter = Fingerprinter(view)
    fingerprints = [fingerprinter.of(fingerprinter.request(url)) for url in urls]
    rules = SeedRules(view)
    if crawl and rules.are_its_own:
        raise InspectionError(
            f"Spider {view.spider!r} reads seeds in its own form: forget the URLs without crawl, and push "
            "seeds in that form"
        )
    forgotten = forget(view, fingerprints)
    if crawl:
        seeding = Seeding(view, Few(json.dumps({"dont_filter": False, "url": url}) for url in urls), rules)
        seeding.check(lambda _: None)
        seeding.push(lambda _: None)
    then = f"; all {len(urls):,} were pushed as seeds" if crawl else ""
    return Done(
        f"The URLs that had been seen, {forgotten:,} of {given_urls}, were forgotten{then}", forgotten
    )


def requeue(view: View, given: Arguments, dry: bool) -> Done:
    """Put entries of the failed list back into the queue, or to the seeds."""
    return _of_failed(view, given, dry, again=True)


def forget_failed(view: View, given: Arguments, dry: bool) -> Done:
    """Remove entries of the failed list for good."""
    return _of_failed(view, given, dry, again=False)


def _of_failed(view: View, given: Arguments, dry: bool, again: bool) -> Done:
    chosen = {name: given.optional(name) for name in ("reason", "id", "url")}
    failed, problem = set_aside(view, again, changes=True)
    if problem and chosen["url"] is not None:
        raise InspectionError(problem)
    if dry:
        count = sum(1 for one in failed.chosen(**chosen, exactly=True) if one.can_go_back or not again)
    else:
        count = (failed.requeue if again else failed.forget)(**chosen, exactly=True)
    entries = f"{count:,} {'entry' if count == 1 else 'entries'} of the failed list"
    verb = "would be" if dry else "was" if count == 1 else "were"
    if again:
        return Done(f"{entries} {verb} put back, to be crawled again", count)
    then = "its URL still counts as seen" if count == 1 else "their URLs still count as seen"
    return Done(f"{entries} {verb} removed for good; {then}", count)


def block(view: View, given: Arguments, dry: bool) -> Done:
    """Block a slot for a number of seconds: no worker begins a request of it."""
    seconds = given.number("seconds", 1, LONGEST_BLOCK)
    if seconds is None:
        raise InspectionError(f"seconds is missing; it must be a number from 1 to {LONGEST_BLOCK}")
    slots, slot, waiting = _slot(view, given)
    requests = counted(waiting, "waiting request")
    if dry:
        return Done(f"Slot {slot} would be blocked for {seconds:,.0f} s: it has {requests}", waiting)
    slots.block(slot, seconds)
    return Done(f"Slot {slot} is blocked for {seconds:,.0f} s: it has {requests}", waiting)


def unblock(view: View, given: Arguments, dry: bool) -> Done:
    """Unblock a slot."""
    slots, slot, waiting = _slot(view, given)
    if dry:
        return Done(f"Slot {slot} would no longer be blocked", waiting)
    slots.unblock(slot)
    return Done(f"Slot {slot} is no longer blocked", waiting)


def set_slot(view: View, given: Arguments, dry: bool) -> Done:
    """Set limits of a slot until the crawl is finished."""
    slots, slot, waiting = _slot(view, given)
    said = {name: value for name in FIELDS if (value := given.fields.get(name)) is not None}
    if not said:
        raise InspectionError(f"No limit is given. Give at least one of {', '.join(FIELDS)}")
    given.number("delay", 0, LONGEST_DELAY)
    rule = slot_rule(f"slot {slot!r}", slot, said)
    limits = ", ".join(f"{name}={value}" for name, value in said.items())
    requests = counted(waiting, "waiting request")
    if dry:
        return Done(
            f"All workers together would keep {limits} for slot {slot}, which has {requests}", waiting
        )
    slots.set(slot, rule)
    return Done(f"All workers together keep {limits} for slot {slot} until the crawl is finished", waiting)


def reset_slot(view: View, given: Arguments, dry: bool) -> Done:
    """Reset the limits of a slot to the settings."""
    slots, slot, waiting = _slot(view, given)
    if dry:
        return Done(f"The limits of slot {slot} would be reset to the settings", waiting)
    slots.reset(slot)
    return Done(f"The limits of slot {slot} are reset to the settings", waiting)


def _slot(view: View, given: Arguments) -> tuple[Slots, str, int]:
    if not view.settings.by_slot:
        raise InspectionError("FRONTIER_BY_SLOT is False, so this frontier has no slots")
    own_keys.require(view)
    slots = Slots(view)
    slot = slots.named(given.text("slot"))
    (status,) = slots.read([slot])
    return slots, slot, status.waiting


def _workers(count: int) -> str:
    return counted(count, "worker") if count else "no worker is alive now; workers that start later"


_CHOSEN = ("reason", "id", "url")

#: The actions by their paths below ``/api/v1/``.
ACTIONS: dict[str, Action] = {
    "pause": Action(pause),
    "drain": Action(drain),
    "resume": Action(resume),
    "stop": Action(stop),
    "seed": Action(seed, ("seeds", "priority")),
    "forget": Action(forget_urls, ("urls", "crawl")),
    "failed/requeue": Action(requeue, _CHOSEN),
    "failed/forget": Action(forget_failed, _CHOSEN),
    "slots/block": Action(block, ("slot", "seconds")),
    "slots/unblock": Action(unblock, ("slot",)),
    "slots/set": Action(set_slot, ("slot", *FIELDS)),
    "slots/reset": Action(reset_slot, ("slot",)),
}
