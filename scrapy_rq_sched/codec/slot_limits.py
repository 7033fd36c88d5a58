"""The limits of a slot, which all workers keep together, and the policy that gives each slot its limits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """The limits of a slot, which all workers keep together.

    :param delay: seconds between two requests; 0: no delay.
    :param jitter: the share of the delay, from 0 to 1, by which a single delay may be shorter or longer.
    :param concurrency: downloads at a time; 0: no limit.
    """

    delay: float = 0.0
    jitter: float = 0.0
    concurrency: int = 0

    def __str__(self) -> str:
        """Return the limits in words. A jitter without a delay is no limit."""
        delay = f"delay {self.delay:g} s, jitter {self.jitter:g}" if self.delay else "no delay"
        return f"{delay}, concurrency {self.concurrency}" if self.concurrency else delay

    @property
    def is_unlimited(self) -> bool:
        """Whether a slot has neither a delay nor a concurrency: a jitter alone is no limit."""
        return not (self.delay or self.concurrency)

    def to_wire(self) -> list[float]:
        """Return the limits as the scripts take them: the delay in milliseconds, jitter, concurrency."""
        return [1000 * self.delay, self.jitter, self.concurrency]

    @classmethod
    def parse(cls, numbers: list[float]) -> SlotLimits:
        """Return the limits that a script has sent in the form of :meth:`to_wire`."""
        delay, jitter, concurrency = numbers
        return cls(delay / 1000, jitter, int(concurrency))


#: The limits of a slot without limits.
UNLIMITED = SlotLimits()


@dataclass(frozen=True)
class SlotPolicy:
    """The limits of all slots, by the settings of a worker. The frontier applies them to each slot it serves.

    :param default: the limits of a slot that is not named, and that no pattern fits.
    :param named: the limits of single slots, by name.
    :param patterns: globs in lower case, each with the limits of the slots that it fits, in their order.
    """

    default: SlotLimits = UNLIMITED
    named: Mapping[str, SlotLimits] = field(default_factory=dict)
    patterns: tuple[tuple[str, SlotLimits], ...] = ()

    def __bool__(self) -> bool:
        """Return whether any slot has limits."""
        every = (self.default, *self.named.values(), *(limits for _, limits in self.patterns))
        return not all(limits.is_unlimited for limits in every)

    @cached_property
    def id(self) -> str:
        """A name that no policy with other limits has.

        It also has the number of named slots and the length of the patterns, so that
        ``lua/exchange/slot_policy.lua`` notices if some of them are missing.
        """
        wire = self.to_wire()
        digest = hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()
        return f"p{digest[:12]}.{len(self.named)}.{len(wire.get('patterns', '').encode())}"

    def to_wire(self) -> dict[str, Any]:
        """Return the policy as ``lua/exchange/slot_policy.lua`` takes it."""
        wire: dict[str, Any] = {"default": self.default.to_wire()}
        if self.named:
            wire["named"] = {name: limits.to_wire() for name, limits in self.named.items()}
        if self.patterns:
            # As text, because the scripts store it as it is.
            wire["patterns"] = json.dumps(
                [[glob, literals(glob), *its.to_wire()] for glob, its in self.patterns]
            )
        return wire


#: A part of a glob: ``[abc]`` or ``[!a-z]``, or a single character.
_PARTS = re.compile(r"\[(!?)([^\]!][^\]]*)\]|(.)", re.DOTALL)


def literals(glob: str) -> list[str]:
    """Return the texts between the asterisks of *glob*, each as a Lua pattern without repetition.

    A name fits *glob* if it consists of these texts in their order, with any text between them.
    """
    texts = [""]
    for part in _PARTS.finditer(glob):
        negated, chars, char = part.groups()
        if char == "*":
            texts.append("")
        elif char == "?":
            # The bytes of a character outside ASCII count as one character.
            texts[-1] += ".[^%c%p%s%w]*"
        elif char:
            texts[-1] += _escaped(char)
        else:
            # A hyphen makes a range in both languages.
            inner = "".join(one if one == "-" else _escaped(one) for one in chars)
            texts[-1] += f"[{'^' if negated else ''}{inner}]"
    return texts


def _escaped(char: str) -> str:
    return char if char.isalnum() or not char.isascii() else f"%{char}"
