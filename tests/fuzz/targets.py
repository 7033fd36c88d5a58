"""All that is fuzzed, by name."""

from __future__ import annotations

from .api import Api
from .archive import Archive
from .entries import Entries
from .join import Join
from .seeds import Seeds
from .state import State
from .target import Target

TARGETS: dict[str, type[Target]] = {
    target.name: target for target in (Seeds, Entries, State, Join, Archive, Api)
}
