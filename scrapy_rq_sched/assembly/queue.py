"""The queue that settings name."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from scrapy.utils.misc import load_object

from .. import connection
from ..errors import FrontierMismatchError, SettingError
from ..frontier.refusals import how_to_convert
from ..keys import Keys
from ..queue import CLASS_NAMES, DISCIPLINES
from ..serializers import load_serializer, serializer_name
from ..settings import FrontierSettings

#: The first byte of a pickle.
PICKLE = b"\x80"
_QUEUE_METHODS = ("push", "pop", "__len__", "clear")


def load_queue(settings: FrontierSettings, server: Any, spider: Spider, keys: Keys) -> Any:
    """Return a queue of the class that ``SCHEDULER_QUEUE_CLASS`` names.

    :raises SettingError: if the setting does not name a queue class, or if the class cannot be instantiated.
    """
    cls = load_queue_class(settings)
    serializer = load_serializer(settings.serializer)
    try:
        # By name, as in scrapy-redis: the constructor of a user's class may have another order.
        return cls(server=server, spider=spider, key=keys.requests.replace("%", "%%"), serializer=serializer)
    except TypeError as error:
        raise SettingError(
            f"SCHEDULER_QUEUE_CLASS is {settings.queue_class!r}, which cannot be instantiated: {error}. Its "
            "constructor must accept server, spider, key and serializer, and the class must have push, pop "
            "and __len__"
        ) from error


def load_queue_class(settings: FrontierSettings) -> Any:
    """Return the class that ``SCHEDULER_QUEUE_CLASS`` names.

    :raises SettingError: if the setting does not name a queue class.
    """
    value = settings.queue_class
    try:
        cls = load_object(value)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise SettingError(f"SCHEDULER_QUEUE_CLASS is {value!r}, which cannot be loaded: {error}") from None
    if not (isinstance(cls, type) and all(hasattr(cls, name) for name in _QUEUE_METHODS)):
        raise SettingError(
            f"SCHEDULER_QUEUE_CLASS must be scrapy_rq_sched.{CLASS_NAMES}, or a class "
            f"with {', '.join(_QUEUE_METHODS)}, not {value!r}"
        )
    return cls


def is_custom(queue: Any) -> bool:
    """Return whether *queue* has its own ``push`` or ``pop``, which the exchange cannot replace."""
    cls = type(queue)
    return not any(
        isinstance(queue, ours) and (cls.push, cls.pop) == (ours.push, ours.pop) for ours in DISCIPLINES
    )


def check_readable(queue: Any) -> None:
    """Check that *queue* contains no requests of scrapy-redis that its serializer cannot read.

    :raises FrontierMismatchError: if it does.
    """
    if is_custom(queue):
        return
    try:
        entry = queue.peek()
    except connection.ResponseError:
        return  # a key of a wrong type: joining reports it
    if entry is None or not entry.startswith(PICKLE):
        return
    try:
        queue.serializer.loads(entry)
    except Exception as error:  # a user's serializer may raise any exception
        raise FrontierMismatchError(
            f"{queue.key!r} contains pickled requests, as scrapy-redis writes them, but SCHEDULER_SERIALIZER "
            f"is {serializer_name(queue.serializer)!r}. To crawl them as they are, set SCHEDULER_SERIALIZER "
            f"= 'scrapy_rq_sched.picklecompat'. {how_to_convert(queue.spider.name, 'pickle')}"
        ) from error
