"""Convert the waiting requests of a frontier to another serializer, in place and in steps.

Its functions wait for Redis, so use them in scripts and terminals, not in a spider's callbacks.
"""

from __future__ import annotations

import json
import math
import pickletools
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import Self

from . import connection, serializers
from .assembly.keys import load_keys
from .assembly.queue import PICKLE, load_queue_class
from .codec import request
from .codec.stand_in import spider_for
from .errors import FrontierError, PayloadError, SettingError, UnknownCodeError, UnserializableRequestError
from .frontier import refusals
from .frontier.scripts import register
from .keys import Keys
from .queue import DISCIPLINES
from .serializers import faithful
from .settings import FrontierSettings

#: Entries to read, or to move, in one step.
STEP = 200


@dataclass
class Converted:
    """The result of a conversion, in requests.

    :param changed: requests that were converted, or would be converted.
    :param already: requests that had been converted before.
    :param unreadable: requests that the source serializer cannot read.
    :param problems: for each reason, how many requests could not be converted, including the unreadable ones.
    """

    changed: int = 0
    already: int = 0
    unreadable: int = 0
    problems: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of all requests that were read."""
        return self.changed + self.already + sum(self.problems.values())


class Conversion:
    """Converts the waiting requests of one spider's frontier.

    No worker of this package or of scrapy-redis may use the frontier meanwhile. After an interruption,
    :meth:`run` continues where it stopped.

    :param server: a redis-py client.
    :param keys: the keys of the frontier.
    :param queue_class: ``PriorityQueue``, ``FifoQueue`` or ``LifoQueue``.
    :param source: the serializer that the requests are stored with.
    :param target: the serializer to store the requests with.
    :param most_failed: the maximum number of entries in the failed list.
    """

    def __init__(
        self,
        server: Any,
        keys: Keys,
        queue_class: Any,
        source: serializers.Serializer,
        target: serializers.Serializer,
        most_failed: int = FrontierSettings.max_failed,
    ) -> None:
        self.server = server
        self._keys = keys
        self._is_list = queue_class.key_type == "list"
        self._source = source
        self._target = target
        self._all_keys = keys.own()
        self._begin = register(server, "convert/begin")
        self._step = register(server, "convert/list" if self._is_list else "convert/zset")
        self._end = register(server, "convert/end")
        self.most_failed = most_failed

    @classmethod
    def from_settings(cls, settings: Any, spider: str, source: Any = None, target: Any = None) -> Self:
        """Return a conversion of the frontier of the spider called *spider*.

        :param settings: the project's, as ``scrapy.utils.project.get_project_settings()`` returns them.
        :param source: a name such as ``"pickle"``, the import path of a serializer, or the serializer itself.
            The default is the serializer that Redis names for the frontier, if that runs no code.
        :param target: the same. The default is the target of an interrupted conversion, else
            ``SCHEDULER_SERIALIZER``, or JSON if that setting names *source*.
        :raises SettingError: if a setting is not valid, or if *source* and *target* are the same.
        :raises FrontierError: if only Redis names a serializer that may run code, or if nothing names it.
        """
        read = FrontierSettings.from_settings(settings)
        server = connection.get_client(settings)
        queue_class = load_queue_class(read)
        if not issubclass(queue_class, DISCIPLINES):
            raise SettingError(
                f"SCHEDULER_QUEUE_CLASS is {read.queue_class!r}, which keeps requests in its own way"
            )
        keys = load_keys(read, server, spider)
        if not source or not target:
            known_source, known_target = _known_serializers(server, keys, source, target, read.serializer)
            source, usual_target = source or known_source, known_target or read.serializer
        loaded_source = serializers.load_serializer(source)
        loaded_target = serializers.load_serializer(target or usual_target)
        names = [serializers.serializer_name(serializer) for serializer in (loaded_source, loaded_target)]
        if names[0] == names[1]:
            if target or names[0] == "json":
                raise SettingError(
                    f"The requests of spider {spider!r} are already stored as {names[0]}. Name another "
                    "serializer with --to. If they are stored with a different one, name that with --from"
                )
            # SCHEDULER_SERIALIZER still names the source: the project changes it after the conversion.
            loaded_target = serializers.load_serializer("json")
        return cls(server, keys, queue_class, loaded_source, loaded_target, read.max_failed)

    @property
    def warning(self) -> str:
        """The warning for the user before the first request is read; empty if no serializer runs code."""
        source, target = map(serializers.serializer_name, (self._source, self._target))
        # An entry that the source cannot read may be converted already, so the target reads it.
        reading = [source] if serializers.names_pickle(target) else [source, target]
        name = next((name for name in reading if name not in serializers.HARMLESS), "")
        if not name:
            return ""
        code = "runs any code that is in it" if serializers.names_pickle(name) else "may run code"
        return (
            f"reading a request with the serializer {name!r} {code}, also in a dry run: every program that "
            f"can write to the queue of spider {self._keys.spider!r} must be trusted"
        )

    def look(self) -> Converted:
        """Return the result that :meth:`run` would have. Change nothing."""
        met = Converted()
        for entries in self._entries():
            for entry, score in entries:
                self._convert(entry, score, "", met)
        return met

    def check(self) -> None:
        """Check that :meth:`run` may begin. Change nothing.

        :raises FrontierError: in the same cases as :meth:`run`.
        """
        names = [serializers.serializer_name(serializer) for serializer in (self._source, self._target)]
        keys, expected = self._keys, b"list" if self._is_list else b"zset"
        pipe = connection.server_of(self.server, keys.requests).pipeline(transaction=False)
        pipe.time()
        pipe.type(keys.requests)
        pipe.zrange(keys.workers, 0, -1, withscores=True)
        pipe.exists(keys.delayed, keys.followers)
        pipe.hget(keys.meta, "exporting")
        pipe.hmget(keys.converting, "from", "to")
        (seconds, microseconds), kind, workers, delayed, exporting, before = pipe.execute()
        now = seconds * 1000 + microseconds / 1000
        alive = sum(deadline > now for _, deadline in workers)
        held = delayed or any(self.server.exists(keys.leases(name.decode())) for name, _ in workers)
        problem: tuple[bytes, list[Any]] | None = None
        if kind not in (b"none", expected):
            problem = b"type", [kind]
        elif alive:
            problem = b"alive", [alive]
        elif held:
            problem = b"held", []
        elif exporting and float(exporting) > now:
            problem = b"exporting", []
        elif before[0] == b"import":
            problem = b"importing", []
        elif before[0] and before != [name.encode() for name in names]:
            problem = b"other", before
        if problem:
            raise refusals.to_convert(*problem, keys, self._is_list)

    def run(self) -> Converted:
        """Convert the waiting requests, or move them to the failed list. No worker can join meanwhile.

        :raises FrontierError: if the frontier is in use, if its queue does not match the queue class, or if
            another conversion was interrupted.
        """
        met = Converted()
        for slot in self._slots():
            left = self._begin_or_go_on(slot)
            if self._is_list:
                self._run_list(slot, met, left)
            else:
                self._run_sorted_set(slot, met)
        self._end(keys=self._all_keys, args=[serializers.serializer_name(self._target)])
        return met

    def _slots(self) -> list[str]:
        """Return the slots that have waiting requests; first the empty name, for requests without a slot."""
        return ["", *(slot.decode() for slot in self.server.zrange(self._keys.slots, 0, -1))]

    def _begin_or_go_on(self, slot: str) -> int:
        names = [serializers.serializer_name(serializer) for serializer in (self._source, self._target)]
        problem, *rest = self._begin(keys=self._keys.of_queue(slot), args=[*names, int(self._is_list)])
        if problem:
            raise refusals.to_convert(problem, rest, self._keys, self._is_list)
        return int(rest[0])

    def _entries(self) -> Iterator[list[tuple[bytes, str]]]:
        """Yield all entries with their scores, in batches."""
        for slot in self._slots():
            yield from self._entries_of(slot)

    def _entries_of(self, slot: str) -> Iterator[list[tuple[bytes, str]]]:
        key = self._keys.queue(slot)
        if self._is_list:
            for start in range(0, self.server.llen(key), STEP):
                yield [(entry, "0") for entry in self.server.lrange(key, start, start + STEP - 1)]
            return
        cursor, first = 0, True
        while cursor or first:
            cursor, found = self.server.zscan(key, cursor, count=STEP)
            first = False
            yield [(entry, repr(score)) for entry, score in found]

    def _run_list(self, slot: str, met: Converted, left: int) -> None:
        # Each step moves entries from the tail of the list to its head, which takes the same time for a list
        # of any length. The same step stores in Redis how many entries remain.
        while left:
            entries = self.server.lrange(self._keys.queue(slot), -min(STEP, left), -1)[::-1]
            self._replace(slot, [(entry, "0") for entry in entries], met, left)
            left -= len(entries)

    def _run_sorted_set(self, slot: str, met: Converted) -> None:
        # Scan again until a scan finds no new entry: a worker of scrapy-redis may still push. Stop also if
        # the number of entries does not fall: the source may be able to read what the target has written.
        last = math.inf
        while True:
            done = met.total - met.already
            for entries in self._entries_of(slot):
                self._replace(slot, entries, met)
            found = met.total - met.already - done
            if not 0 < found < last:
                return
            last = found

    def _replace(self, slot: str, entries: list[tuple[bytes, str]], met: Converted, left: int = 0) -> None:
        arguments: list[Any] = [left, len(entries)]
        for entry, score in entries:
            arguments += [entry, *self._convert(entry, score, slot, met)]
        if not self._step(keys=self._keys.of_queue(slot), args=arguments):
            raise FrontierError(
                "The queue changed meanwhile: another process uses it. Stop that, and try again"
            )

    def _convert(self, entry: bytes, score: str, slot: str, met: Converted) -> tuple[bytes, str]:
        """Return the converted entry; or an empty one, and the entry of the failed list."""
        try:
            data = self._source.loads(entry)
        except Exception as error:  # a serializer may raise anything
            if self._is_converted(entry):
                met.already += 1
                return entry, ""
            met.unreadable += 1
            reason = f"not {serializers.serializer_name(self._source)}: {error}"
            return self._set_aside(entry, score, slot, reason, met)
        try:
            converted = self._dump(data)
        except (PayloadError, UnserializableRequestError, UnknownCodeError) as error:
            return self._set_aside(entry, score, slot, str(error), met)
        met.changed += 1
        return converted, ""

    def _dump(self, data: Any) -> bytes:
        spider = spider_for(data, "convert")
        # Also in a list: two equal requests are two pages, each with its own items.
        nonce = secrets.token_hex(6)
        made = request.request_from_dict(data, spider)
        return faithful.dump(self._target, request.request_to_dict(made, spider, nonce))

    def _is_converted(self, entry: bytes) -> bool:
        if serializers.names_pickle(serializers.serializer_name(self._target)):
            return _is_pickle(entry)
        try:
            data = self._target.loads(entry)
        except Exception:  # a serializer may raise anything
            return False
        return isinstance(data, dict) and "url" in data

    def _set_aside(
        self, entry: bytes, score: str, slot: str, reason: str, met: Converted
    ) -> tuple[bytes, str]:
        met.problems[reason] += 1
        failed = {
            "id": f"convert/{secrets.token_hex(6)}",
            "kind": "request",
            "reason": f"it could not be converted: {reason}",
            "time": int(time.time()),
            "worker": "",
            "deaths": 0,
            "deliveries": 0,
            "history": "",
            "score": score,
            "slot": slot,
            "data_hex": entry.hex(),
        }
        return b"", json.dumps(failed)


def _is_pickle(entry: bytes) -> bool:
    """Return whether *entry* is a pickle, without running it."""
    try:
        return entry.startswith(PICKLE) and sum(1 for _ in pickletools.genops(entry)) > 0
    except Exception:  # bytes that are not a pickle may raise anything
        return False


def _known_serializers(
    server: Any, keys: Keys, source: Any, target: Any, usual_target: Any
) -> tuple[str, str]:
    """Return the serializer of the waiting requests, and the target of an interrupted conversion.

    Everybody who can write to the frontier can write these names. So a name of a serializer that may run code
    is not used.

    :param source: the source that the user has named, if any.
    :param target: the target that the user has named, if any.
    :param usual_target: the serializer in the settings.
    :raises FrontierError: if a name that is needed may run code, or is missing.
    """
    begun = [name and name.decode("utf-8", "replace") for name in server.hmget(keys.converting, "from", "to")]
    if begun[0] and begun[1] and begun[0] != "import":
        if not source and begun[0] not in serializers.HARMLESS:
            raise refusals.untrusted_serializer(keys.spider, keys.converting, begun[0])
        ours = serializers.serializer_name(serializers.load_serializer(usual_target))
        if not target and begun[1] not in serializers.HARMLESS and begun[1] != ours:
            raise refusals.untrusted_serializer(keys.spider, keys.converting, begun[1], "--to")
        return begun[0], "" if begun[1] == ours else begun[1]
    if source:
        return "", ""
    made_with = server.hget(keys.meta, "SCHEDULER_SERIALIZER")
    name = made_with and made_with.decode("utf-8", "replace")
    if name not in serializers.HARMLESS:
        raise refusals.untrusted_serializer(keys.spider, keys.meta, name)
    return name, ""
