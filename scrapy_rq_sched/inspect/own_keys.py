"""Which keys a change may touch: those that the settings name, and those below the frontier's own prefix.

Redis keeps some names of keys in a frontier's ``meta``, for commands without the workers' settings. Everybody
who can write to this frontier can write these names. So a key of another frontier there is only read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from ..assembly.keys import load_keys
from ..errors import InspectionError, bounded
from ..keys import Keys
from .view import View

#: The maximum number of parts of a key below the prefix: a longer one is not the frontier's own.
MOST_PARTS = 20


class _Named(NamedTuple):
    """The keys that a setting names."""

    setting: str
    keys: list[str]


def require(view: View) -> None:
    """Check that a change of *view*'s frontier touches no key that only its ``meta`` names.

    :raises InspectionError: if such a key lies outside the frontier's prefix, or belongs to another frontier.
    """
    by_settings = _by_settings(view)
    allowed = dict(_named(by_settings)) if by_settings is not None else {}
    foreign = [
        named
        for named in _named(view.keys)
        if not all(key in allowed.get(named.setting, ()) or _is_own(view, key) for key in named.keys)
    ]
    if not foreign:
        return
    first = foreign[0]
    key = next(key for key in first.keys if key not in allowed.get(first.setting, ()))
    confirmed = list(foreign)
    if by_settings is None:
        confirmed.insert(0, _Named("SCHEDULER_QUEUE_KEY", [view.keys.requests]))
    raise InspectionError(
        f"Key {view.keys.meta!r} in Redis names {bounded(key)!r} as a key of spider {view.spider!r}, but the "
        "settings do not, and it is not one of the frontier's own keys, which begin with "
        f"{view.keys.prefix + ':'!r}: another program may have written it there. Nothing was changed. If the "
        f"key is right, confirm it: {' '.join(map(_option, confirmed))}"
    )


def _by_settings(view: View) -> Keys | None:
    """Return the keys that the settings name; None if they name another queue than that of *view*."""
    redis_key = view.redis_key or getattr(view.spidercls, "redis_key", None)
    keys = load_keys(view.settings, view.server, view.spider, redis_key)
    return keys if keys.requests == view.keys.requests else None


def _named(keys: Keys) -> Iterator[_Named]:
    """Yield the keys whose names a frontier's ``meta`` has."""
    yield _Named("SCHEDULER_DUPEFILTER_KEY", [keys.dupefilter])
    yield _Named("REDIS_START_URLS_KEY", keys.start_urls)
    yield _Named("FRONTIER_SLOTS_KEY", [keys.slot_states])
    yield _Named("FRONTIER_MAX_WORKERS_KEY", [keys.places])


def _is_own(view: View, key: str) -> bool:
    """Return whether *key* lies below the frontier's prefix, and not below another frontier's."""
    prefix = f"{view.keys.prefix}:"
    if not key.startswith(prefix) or key.count(":") > prefix.count(":") + MOST_PARTS:
        return False
    ends = [place for place, char in enumerate(key) if char == ":" and place >= len(prefix)]
    pipe = view.pipeline()
    for other in (*(key[:end] for end in ends), key, f"{key}:frontier"):
        pipe.exists(f"{other}:meta")
    return not any(pipe.execute())


def _option(named: _Named) -> str:
    keys = [bounded(key).replace("%", "%%") for key in named.keys[:10]]
    setting = f"{named.setting}={','.join(keys)}"
    return f"-s {shlex.quote(setting)}"
