"""Pickle, by scrapy-redis's name: ``SCHEDULER_SERIALIZER = "scrapy_rq_sched.picklecompat"``.

It keeps nearly everything, and **runs whatever code is in Redis**: only for one that nobody else can write
to.
"""

from __future__ import annotations

import pickle
from typing import Any


def loads(s: bytes) -> Any:
    """Return the object that *s* was made of, running the code that it holds."""
    return pickle.loads(s)  # noqa: S301 - opt-in, and the module says so


def dumps(obj: Any) -> bytes:
    """Return *obj* as a pickle of the newest protocol."""
    return pickle.dumps(obj, protocol=-1)
