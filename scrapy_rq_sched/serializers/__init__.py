"""Turn a request's dict into bytes, and back: JSON, compressed JSON, msgpack, pickle, or your own.

A serializer is any object or module with ``dumps(dict) -> bytes | str`` and ``loads(bytes) -> dict``.
It must restore an equal dict, or refuse it. The serializers of this package check the dict before they write
it. With any other serializer, the package reads the bytes back and compares.
"""

from __future__ import annotations

import inspect
import json as _json
import pickle as _pickle
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from scrapy.utils.misc import load_object

from ..codec import json_bounds
from ..codec.base_types import to_base_types
from ..codec.json_bounds import MOST_VALUES
from ..codec.values import class_path
from ..errors import SettingError, UnserializableRequestError
from . import json_values


class Serializer(Protocol):
    """The interface of a serializer, for ``SCHEDULER_SERIALIZER``."""

    def dumps(self, obj: Any) -> Any:
        """Return *obj* as bytes or text."""

    def loads(self, data: bytes) -> Any:
        """Return the object in *data*."""


class JSONSerializer:
    """JSON, as text that ``redis-cli`` can show. Bytes are stored as ``{"$bytes": "<base64>"}``.

    An instance of a subclass that equals its base type is stored as the base type. The serializer refuses
    values that JSON would silently change: tuples, keys that are not text, numbers that are not finite, and
    instances of subclasses that do not equal their base type. It neither writes nor reads an entry of more
    than 250,000 values.
    """

    name = "json"
    faithful = True

    def __init__(self) -> None:
        self._encode = _json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_values.tag_bytes
        ).encode

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as JSON in UTF-8.

        :raises UnserializableRequestError: if JSON would change *obj*. The message names the field.
        """
        try:
            return self._write(obj)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnserializableRequestError(blame(self._write, obj, error)) from error

    def _write(self, obj: Any) -> bytes:
        obj = to_base_types(obj)
        problem = json_values.problem(obj)
        if problem:
            raise UnserializableRequestError(json_values.without_brackets(*problem))
        written = self._encode(obj).encode()
        if len(written) > MOST_VALUES:  # see json_bounds.check(); this way it costs most entries nothing
            json_bounds.check(written)
        return written

    def loads(self, data: bytes) -> Any:
        """Return the object in *data*.

        :raises ValueError: if *data* is not JSON, or has too many values.
        """
        if len(data) > MOST_VALUES:
            json_bounds.check(data)
        hook = json_values.untag_bytes if b'"$bytes"' in data else None
        return _json.loads(data, object_hook=hook)


class DeflatedJSONSerializer(JSONSerializer):
    """Compressed JSON: about 0.4 of the size, but ``redis-cli`` cannot show it as text.

    The compression uses a fixed dictionary with the text that most entries share, such as field names.
    """

    name = "json+deflate"

    #: The compression dictionary. It is part of the format: changing it makes existing entries unreadable.
    #: Texts that follow each other in an entry do so here; the most common text is last, which costs least.
    DICTIONARY = (
        b'"method":"POST","body":"","cookies":{"cb_kwargs":{"errback":"on_error","dont_filter":true,"priority":1'
        b'"callback":"_callback","meta":{"rule":0,"link_text":"","depth":2}"callback":"parse_item"'
        b'.html"},"meta":{"depth":1}}{"url":"https://www.","callback":"parse","headers":{"Referer":"https://www.'
    )
    #: An entry from outside must not fill the memory. So the JSON of an entry may have this many bytes, or
    #: this many times the entry's bytes, whichever is more; and this many bytes at most.
    ALLOWED, TIMES, LARGEST = 4 * 1024 * 1024, 64, 64 * 1024 * 1024
    _RAW = -15  # zlib's window, without its header and checksum

    def _write(self, obj: Any) -> bytes:
        written = super()._write(obj)
        deflate = zlib.compressobj(wbits=self._RAW, zdict=self.DICTIONARY)
        data = deflate.compress(written) + deflate.flush()
        if len(written) > self.ALLOWED and len(written) > self._limit(data):
            raise UnserializableRequestError(
                f"it has {len(written)} bytes as JSON; the limit is {self._limit(data)}"
            )
        return data

    def loads(self, data: bytes) -> Any:
        """Return the object in *data*.

        :raises ValueError: if *data* is not compressed JSON, contains too many bytes, or has too many values.
        """
        inflate = zlib.decompressobj(wbits=self._RAW, zdict=self.DICTIONARY)
        limit = self.ALLOWED if len(data) < 1000 else self._limit(data)
        try:
            written = inflate.decompress(data, limit)
        except zlib.error as error:
            raise ValueError(f"it is not compressed JSON: {error}") from error
        if not inflate.eof or inflate.unused_data:
            raise ValueError(f"it is not compressed JSON of at most {limit} bytes")
        return super().loads(written)

    def _limit(self, data: bytes) -> int:
        return min(self.LARGEST, max(self.ALLOWED, self.TIMES * len(data)))


class MsgpackSerializer:
    """MessagePack: smaller than JSON, and stores bytes and integer keys. It needs the extra ``msgpack``.

    An instance of a subclass that equals its base type is stored as the base type; any other is refused.
    """

    name = "msgpack"
    faithful = True

    def __init__(self) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise SettingError(
                "SCHEDULER_SERIALIZER is 'msgpack', but the package msgpack is not installed. Run: pip "
                "install 'scrapy-rq-sched[msgpack]'"
            ) from error
        # With strict types, msgpack refuses a tuple instead of turning it into a list.
        self._packb = partial(msgpack.packb, strict_types=True)
        self._unpackb = partial(msgpack.unpackb, strict_map_key=False)

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as MessagePack.

        :raises UnserializableRequestError: if MessagePack would change *obj*.
        """
        try:
            return self._pack(obj)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnserializableRequestError(blame(self._pack, obj, error)) from error

    def _pack(self, obj: Any) -> bytes:
        obj = to_base_types(obj)
        _refuse_buffers(obj)
        data = bytes(self._packb(obj))
        if len(data) > MOST_VALUES:
            self._unpack_counting(data)
        return data

    def loads(self, data: bytes) -> Any:
        """Return the object in *data*.

        :raises ValueError: if *data* is not MessagePack, or has too many values.
        """
        # A value has at least one byte. So most entries need no count.
        return self._unpackb(data) if len(data) <= MOST_VALUES else self._unpack_counting(data)

    def _unpack_counting(self, data: bytes) -> Any:
        left = most = MOST_VALUES

        def count(values: Any) -> Any:
            nonlocal left
            left -= len(values) * (2 if isinstance(values, dict) else 1)
            if left < 0:
                raise ValueError(json_bounds.TOO_MANY)
            return values

        limits = {"max_array_len": most, "max_map_len": most // 2}
        try:
            return self._unpackb(data, list_hook=count, object_hook=count, **limits)
        except ValueError as error:
            if any(name in str(error) for name in limits):
                raise ValueError(json_bounds.TOO_MANY) from error
            raise


def _refuse_buffers(value: Any) -> None:
    kind = type(value)
    if kind is dict:
        for item in value.values():
            _refuse_buffers(item)
    elif kind is list:
        for item in value:
            _refuse_buffers(item)
    elif kind in (bytearray, memoryview):
        raise TypeError(f"can not serialize '{kind.__name__}' object")


class PickleSerializer:
    """Pickle: stores nearly all objects, but runs any code that is in Redis. Use only a trusted Redis.

    scrapy-redis can read these entries.
    """

    name = "pickle"
    faithful = True

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as a pickle.

        :raises UnserializableRequestError: if *obj* cannot be pickled.
        """
        try:
            return self._pack(obj)
        except Exception as error:  # an object may raise anything
            raise UnserializableRequestError(blame(self._pack, obj, error)) from error

    @staticmethod
    def _pack(obj: Any) -> bytes:
        data = _pickle.dumps(obj, protocol=4)
        if b"\x93" in data:  # it names a class, which may not accept its own state
            _pickle.loads(data)  # noqa: S301 - what we have just written
        return data

    def loads(self, data: bytes) -> Any:
        """Return the object in *data*. This runs code that *data* contains."""
        return _pickle.loads(data)  # noqa: S301 - opt-in, and the class says so


_OURS = (JSONSerializer, DeflatedJSONSerializer, MsgpackSerializer, PickleSerializer)
_BY_NAME = {cls.name: cls for cls in _OURS}

#: The serializers that run no code when they read. If only data names a serializer, it must be one of these.
HARMLESS = frozenset({JSONSerializer.name, DeflatedJSONSerializer.name, MsgpackSerializer.name})


def load_serializer(value: Any) -> Serializer:
    """Return the serializer for a value of ``SCHEDULER_SERIALIZER``, or of a queue's ``serializer``.

    :param value: ``"json"``, ``"json+deflate"``, ``"msgpack"`` or ``"pickle"``; an import path; or the
        object itself.
    :raises SettingError: if *value* is not one of these, or if the object lacks ``dumps`` or ``loads``.
    """
    serializer = value
    if isinstance(value, str):
        if value in _BY_NAME:
            return _BY_NAME[value]()
        serializer = _load_module_or_object(value)
    if isinstance(serializer, type):
        with suppress(TypeError):  # its constructor needs arguments: it is refused below
            serializer = serializer()
    if isinstance(serializer, type):
        serializer = None
    if not (hasattr(serializer, "dumps") and hasattr(serializer, "loads")):
        raise SettingError(
            "SCHEDULER_SERIALIZER must be 'json', 'json+deflate', 'msgpack', 'pickle', or the import path of "
            f"a module or object with dumps and loads, not {value!r}"
        )
    return serializer  # type: ignore[no-any-return] # has the methods of the protocol


_PICKLECOMPAT = "scrapy_rq_sched.picklecompat"


def names_pickle(name: str) -> bool:
    """Return whether *name*, from a setting or from Redis, is one of the names of the pickle serializer."""
    return name in (PickleSerializer.name, _PICKLECOMPAT)


def serializer_name(serializer: Any) -> str:
    """Return the name by which the workers of a fleet compare their serializers."""
    if type(serializer) in _BY_NAME.values():
        return str(serializer.name)
    if inspect.ismodule(serializer):
        # Another name, from scrapy-redis, for the same serializer.
        return PickleSerializer.name if serializer.__name__ == _PICKLECOMPAT else serializer.__name__
    return class_path(type(serializer))


def _load_module_or_object(path: str) -> Any:
    for load_path in (import_module, load_object):
        try:
            return load_path(path)
        except (ImportError, NameError, ValueError, TypeError):
            continue  # the caller refuses the setting if neither succeeds
    return None


def blame(dumps: Callable[[Any], Any], obj: Any, error: Exception) -> str:
    """Return the field of *obj* that *dumps* refuses, and the error, when it has refused *obj* as a whole."""
    for field, value in obj.items() if isinstance(obj, dict) else ():
        try:
            dumps({field: value})
        except Exception:  # any error means that this is the field
            return f"{field}: {error}"
    return str(error)
