"""The colours of the states of crawls and workers."""

from __future__ import annotations

from .output import Styled

#: The colour of each state that asks for attention, or has good news.
_STATES = {
    "crawling": "green",
    "finished": "green",
    "idle": "cyan",
    "paused": "yellow",
    "draining": "yellow",
    "stopping": "yellow",
    "stopped": "yellow",
    "cleared": "yellow",
    "importing": "cyan",
    "converting": "cyan",
    "alive": "green",
    "closing": "yellow",
    "dead": "red",
}


def in_state(state: str, shown: str = "") -> str:
    """Return *state*, or the text that is shown for it, in its colour."""
    return Styled(shown or state, _STATES.get(state, ""))
