"""All that is fuzzed, by name."""

from __future__ import annotations

from .api import Api
from .archive import Archive
from .entries import Entries
from .item_file import ItemFiles
from .seeds import Seeds
from .state import State
from .target import Target

TARGETS: dict[str, type[Target]] = {
    target.name: target for target in (Seeds, Entries, State, ItemFiles, Archive, Api)
}
