"""Pickle under scrapy-redis's name: ``SCHEDULER_SERIALIZER = "scrapy_rq_sched.picklecompat"``.

It can store nearly all objects, but it **runs any code that is in Redis**. Use it only if nobody else can
write to this Redis.
"""

from __future__ import annotations

import pickle
from typing import Any


def loads(s: bytes) -> Any:
    """Return the object in *s*. This runs code that *s* contains."""
    return pickle.loads(s)  # noqa: S301 - opt-in, and the module says so


def dumps(obj: Any) -> bytes:
    """Return *obj* as a pickle, with the newest protocol."""
    return pickle.dumps(obj, protocol=-1)
