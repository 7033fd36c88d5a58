"""What the dashboard does to a frontier: what the commands of the same names do, by the same functions.

Each function returns what it has done; or, if *dry*, what it would do, and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from ..codec.slot_rules import FIELDS, LONGEST_DELAY, slot_rule
from ..errors import InspectionError
from ..inspect import Control, Seeding, View, read_status
from ..inspect.edit import forget
from ..inspect.explain import Explainer
from ..inspect.fingerprint import Fingerprinter
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Few
from ..inspect.set_aside import set_aside
from ..inspect.slots import Slots
from .arguments import Arguments

#: Seeds, or URLs, at a time.
MOST = 1000
#: The longest time for which a slot may be blocked, in seconds.
LONGEST_BLOCK = 30 * 86_400


class Done(NamedTuple):
    """What was done, or would be.

    :param said: in a sentence.
    :param touched: to how many workers, requests, seeds or URLs.
    """

    said: str
    touched: int


class Action(NamedTuple):
    """An action, and what it may be given."""

    do: Callable[[View, Arguments, bool], Done]
    fields: tuple[str, ...] = ()


def pause(view: View, given: Arguments, dry: bool) -> Done:
    """Have the workers begin no page."""
    if dry:
        status = read_status(view)
        held = _counted(status.leased, "request")
        return Done(
            f"{_workers(status.alive)} would begin no page until the crawl is resumed. What they are at they "
            f"finish; what they have not begun goes back to the queue ({held} in hand)",
            status.alive,
        )
    alive = Control(view).pause()
    return Done(f"Spider {view.spider} is paused: {_workers(alive)} will begin no page", alive)


def drain(view: View, given: Arguments, dry: bool) -> Done:
    """Have the workers do what they have in hand, and take no more."""
    if dry:
        status = read_status(view)
        held = _counted(status.leased, "request")
        return Done(
            f"{_workers(status.alive)} would finish {held} in hand, and take no more until the "
            "crawl is resumed",
            status.alive,
        )
    alive = Control(view).drain()
    return Done(f"Spider {view.spider} is drained: {_workers(alive)} will take no more", alive)


def resume(view: View, given: Arguments, dry: bool) -> Done:
    """Have the workers go on."""
    if dry:
        alive = read_status(view).alive
        return Done(f"{_workers(alive)} would begin pages again", alive)
    alive = Control(view).resume()
    return Done(f"Spider {view.spider} goes on: {_workers(alive)} will begin pages again", alive)


def stop(view: View, given: Arguments, dry: bool) -> Done:
    """Have the workers that are alive close."""
    if dry:
        alive = read_status(view).alive
        return Done(
            f"{_workers(alive)} would close, as after one Ctrl-C: nothing is lost. To go on, somebody has to "
            "start workers again",
            alive,
        )
    alive = Control(view).stop()
    return Done(f"Spider {view.spider}: {_workers(alive)} will close", alive)


def seed(view: View, given: Arguments, dry: bool) -> Done:
    """Push seeds: none is pushed where one is bad."""
    priority = given.number("priority", -(2**53), 2**53)
    rules = SeedRules(view, None if priority is None else int(priority))
    seeding = Seeding(view, Few(given.texts("seeds", MOST)), rules)
    checked = seeding.check(lambda _: None)
    if dry or checked.bad:
        seeding.forget()
    if checked.bad:
        reasons = "; ".join(f"seed {number}: {reason}" for number, reason in checked.problems)
        raise InspectionError(
            f"Nothing was pushed: {checked.bad:,} of {checked.bad + checked.good:,} seeds cannot be made a "
            f"request of: {reasons}"
        )
    seeds = _counted(checked.good, "seed")
    if dry:
        return Done(f"{seeds} would be pushed to {seeding.key!r}", checked.good)
    seeding.push(lambda _: None)
    alive = read_status(view).alive
    who = f"{_workers(alive)} will take them" if alive else "no worker is alive to take them"
    return Done(f"{seeds} pushed to {seeding.key!r}: {who}", checked.good)


def forget_urls(view: View, given: Arguments, dry: bool) -> Done:
    """Have URLs count as not seen; with ``crawl``, push them as seeds, too."""
    urls, crawl = given.texts("urls", MOST), given.flag("crawl")
    counted, then = _counted(len(urls), "URL"), ", and pushed as seeds" if crawl else ""
    if dry:
        seen = Explainer(view).count_seen(urls)
        return Done(f"{seen:,} of {counted} have been seen, and would be forgotten{then}", seen)
    fingerprinter = Fingerprinter(view)
    fingerprints = [fingerprinter.of(fingerprinter.request(url)) for url in urls]
    rules = SeedRules(view)
    if crawl and rules.are_its_own:
        raise InspectionError(
            f"Spider {view.spider!r} reads seeds in a form of its own: push them as seeds, in that form"
        )
    forgotten = forget(view, fingerprints)
    if crawl:
        seeding = Seeding(view, Few(json.dumps({"dont_filter": False, "url": url}) for url in urls), rules)
        seeding.check(lambda _: None)
        seeding.push(lambda _: None)
    return Done(f"{forgotten:,} of {counted} had been seen, and are forgotten{then}", forgotten)


def requeue(view: View, given: Arguments, dry: bool) -> Done:
    """Put entries of the failed list back to where they stood."""
    return _of_failed(view, given, dry, again=True)


def forget_failed(view: View, given: Arguments, dry: bool) -> Done:
    """Remove entries of the failed list for good."""
    return _of_failed(view, given, dry, again=False)


def _of_failed(view: View, given: Arguments, dry: bool, again: bool) -> Done:
    chosen = {name: given.optional(name) for name in ("reason", "id", "url")}
    failed, problem = set_aside(view, again)
    if problem and chosen["url"] is not None:
        raise InspectionError(problem)
    if dry:
        count = sum(
            1 for one in failed.chosen(**chosen, exactly=True) if not (again and one.kind == "unknown")
        )
    else:
        count = (failed.requeue if again else failed.forget)(**chosen, exactly=True)
    done = "put back to where they stood" if again else "forgotten for good; their URLs still count as seen"
    entries = f"{count:,} {'entry' if count == 1 else 'entries'} of the failed list"
    return Done(f"{entries} would be {done}" if dry else f"{entries} {done}", count)


def block(view: View, given: Arguments, dry: bool) -> Done:
    """Have a slot give no request for so many seconds."""
    seconds = given.number("seconds", 1, LONGEST_BLOCK)
    if seconds is None:
        raise InspectionError("seconds is not given: say for how long")
    slots, slot, waiting = _slot(view, given)
    requests = _counted(waiting, "waiting request")
    if dry:
        return Done(f"{slot} would be asked for nothing for {seconds:,.0f} s: it has {requests}", waiting)
    slots.block(slot, seconds)
    return Done(f"{slot} is asked for nothing for {seconds:,.0f} s: it has {requests}", waiting)


def unblock(view: View, given: Arguments, dry: bool) -> Done:
    """Have a slot give requests again."""
    slots, slot, waiting = _slot(view, given)
    if dry:
        return Done(f"{slot} would no longer be blocked", waiting)
    slots.unblock(slot)
    return Done(f"{slot} is no longer blocked", waiting)


def set_slot(view: View, given: Arguments, dry: bool) -> Done:
    """Have limits hold for a slot until the crawl is finished."""
    slots, slot, waiting = _slot(view, given)
    said = {name: value for name in FIELDS if (value := given.fields.get(name)) is not None}
    if not said:
        raise InspectionError(f"Say what to set: {', '.join(FIELDS)}")
    given.number("delay", 0, LONGEST_DELAY)
    rule = slot_rule(f"slot {slot!r}", slot, said)
    what = ", ".join(f"{name}={value}" for name, value in said.items())
    requests = _counted(waiting, "waiting request")
    if dry:
        return Done(f"All workers together would keep {what} of {slot}, which has {requests}", waiting)
    slots.set(slot, rule)
    return Done(f"All workers together keep {what} of {slot}, until the crawl is finished", waiting)


def reset_slot(view: View, given: Arguments, dry: bool) -> Done:
    """Have what the settings say hold for a slot again."""
    slots, slot, waiting = _slot(view, given)
    if dry:
        return Done(f"What the settings say of {slot} would hold again", waiting)
    slots.reset(slot)
    return Done(f"What the settings say of {slot} holds again", waiting)


def _slot(view: View, given: Arguments) -> tuple[Slots, str, int]:
    if not view.settings.by_slot:
        raise InspectionError("FRONTIER_BY_SLOT is False: requests do not wait by slot")
    slots = Slots(view)
    slot = slots.named(given.text("slot"))
    (status,) = slots.read([slot])
    return slots, slot, status.waiting


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _workers(count: int) -> str:
    return _counted(count, "worker") if count else "No worker is alive; whoever starts"


_CHOSEN = ("reason", "id", "url")

#: By their paths below ``/api/v1/``.
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
