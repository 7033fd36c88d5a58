"""Set the limits of a slot, reset them, block a slot, or unblock it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ...codec.slot_rules import FIELDS, slot_rule
from ...errors import InspectionError, frontier_command
from .. import own_keys
from ..slots import Slots
from ..view import View
from ..wording import counted
from .operation import Mood, Operation

#: The longest time for which a slot may be blocked, in seconds.
LONGEST_BLOCK = 30 * 86_400


def set_slot(view: View, name: str, limits: Mapping[str, Any]) -> Operation:
    """Give the slot *name* some *limits* until the crawl is finished; they override the settings.

    :param limits: values by their names in :data:`FIELDS`.
    """
    if not limits:
        raise InspectionError(f"No limit is given. Give at least one of {', '.join(FIELDS)}")
    rule = slot_rule(f"slot {name!r}", name, limits)
    given = ", ".join(f"{field}={value}" for field, value in limits.items())
    return _change(
        view,
        name,
        lambda slots, slot: slots.set(slot, rule),
        lambda slot, mood: (
            f"All workers together {mood.will} keep {given} for slot {slot} until the crawl is finished"
        ),
    )


def reset_slot(view: View, name: str) -> Operation:
    """Give the slot *name* the limits of the settings again."""
    return _change(
        view, name, Slots.reset, lambda slot, mood: f"Slot {slot} {mood.will} have the limits of the settings"
    )


def block_slot(view: View, name: str, seconds: float, period: str = "") -> Operation:
    """Let the slot *name* give no request for a number of *seconds*.

    :param period: the same time in words.
    """
    if not 0 < seconds <= LONGEST_BLOCK:
        raise InspectionError(
            f"The time of a block must be more than 0 s, and at most {LONGEST_BLOCK:,} s ("
            f"{LONGEST_BLOCK // 86_400} days)"
        )
    shown = period or f"{seconds:,.0f} s"
    unblock = frontier_command("slots", view.spider, "unblock", shlex.quote(name))
    return _change(
        view,
        name,
        lambda slots, slot: slots.block(slot, seconds),
        lambda slot, mood: f"Slot {slot} {mood.is_} blocked for {shown}: no worker begins a request of it",
        f"To unblock it: {unblock}",
    )


def unblock_slot(view: View, name: str) -> Operation:
    """Let the slot *name* give requests again."""
    return _change(view, name, Slots.unblock, lambda slot, mood: f"Slot {slot} {mood.is_} no longer blocked")


def _change(
    view: View,
    name: str,
    deed: Callable[[Slots, str], None],
    text: Callable[[str, Mood], str],
    hint: str = "",
) -> Operation:
    """Prepare a change of the slot that a user calls *name*. The count is that of its waiting requests."""
    if not view.settings.by_slot:
        raise InspectionError("FRONTIER_BY_SLOT is False, so this frontier has no slots")
    own_keys.require(view)
    slots = Slots(view)
    slot = slots.named(name)
    (status,) = slots.read([slot])

    def do() -> int:
        deed(slots, slot)
        return status.waiting

    return Operation(
        lambda count, mood: f"{text(slot, mood)}. It has {counted(count, 'waiting request')}",
        lambda: status.waiting,
        do,
        hint,
    )
