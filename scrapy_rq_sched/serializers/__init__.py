"""What turns a request's dict into bytes and back: JSON, deflated or not, msgpack, pickle, or the user's own.

A serializer is any object or module with ``dumps(dict) -> bytes | str`` and ``loads(bytes) -> dict``.
It gives back what it was given, or refuses it: ours check what they are given; another's is checked
by reading back what it wrote.
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

from ..codec.base_types import to_base_types
from ..errors import SettingError, UnserializableRequestError
from . import json_values


class Serializer(Protocol):
    """What ``SCHEDULER_SERIALIZER`` may name."""

    def dumps(self, obj: Any) -> Any:
        """Return *obj* as bytes or text."""

    def loads(self, data: bytes) -> Any:
        """Return the object that *data* was made of."""


class JSONSerializer:
    """JSON, as text that ``redis-cli`` shows. Bytes are kept as ``{"$bytes": "<base64>"}``.

    An instance of a subclass that equals its base type is written as the base type. Refused, because JSON
    would change them without a word: tuples, keys that are not text, numbers that are not finite, and
    instances of subclasses that do not equal their base type.
    """

    name = "json"
    faithful = True

    def __init__(self) -> None:
        self._encode = _json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_values.tag_bytes
        ).encode

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as JSON in UTF-8.

        :raises UnserializableRequestError: naming the field that JSON would change.
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
        return self._encode(obj).encode()

    def loads(self, data: bytes) -> Any:
        """Return the object that *data* was made of.

        :raises ValueError: if *data* is not JSON.
        """
        hook = json_values.untag_bytes if b'"$bytes"' in data else None
        return _json.loads(data, object_hook=hook)


class DeflatedJSONSerializer(JSONSerializer):
    """JSON, compressed: about 0.4 of its bytes, which ``redis-cli`` does not show as text.

    A URL and its ``Referer`` have much in common; what entries have in common with each other, such as the
    names of the fields, is in a dictionary that they need not carry.
    """

    name = "json+deflate"

    #: What is in it is part of the format: frontiers are read with the one that they were written with. What
    #: follows each other in an entry does so here; the most common is last, which is the cheapest to name.
    DICTIONARY = (
        b'"method":"POST","body":"","cookies":{"cb_kwargs":{"errback":"on_error","dont_filter":true,"priority":1'
        b'"callback":"_callback","meta":{"rule":0,"link_text":"","depth":2}"callback":"parse_item"'
        b'.html"},"meta":{"depth":1}}{"url":"https://www.","callback":"parse","headers":{"Referer":"https://www.'
    )
    #: Bytes of JSON that an entry may stand for: what somebody else has written must not fill the memory.
    LARGEST = 64 * 1024 * 1024
    _RAW = -15  # zlib's window, without its header and checksum

    def _write(self, obj: Any) -> bytes:
        written = super()._write(obj)
        if len(written) > self.LARGEST:
            raise UnserializableRequestError(
                f"it has {len(written)} bytes as JSON; the limit is {self.LARGEST}"
            )
        deflate = zlib.compressobj(wbits=self._RAW, zdict=self.DICTIONARY)
        return deflate.compress(written) + deflate.flush()

    def loads(self, data: bytes) -> Any:
        """Return the object that *data* was made of.

        :raises ValueError: if *data* is not compressed JSON, or more than :attr:`LARGEST` bytes of it.
        """
        inflate = zlib.decompressobj(wbits=self._RAW, zdict=self.DICTIONARY)
        try:
            written = inflate.decompress(data, self.LARGEST)
        except zlib.error as error:
            raise ValueError(f"it is not compressed JSON: {error}") from error
        if not inflate.eof or inflate.unused_data:
            raise ValueError(f"it is not compressed JSON of at most {self.LARGEST} bytes")
        return super().loads(written)


class MsgpackSerializer:
    """MessagePack: smaller than JSON, keeps bytes and integer keys; needs the extra ``msgpack``.

    An instance of a subclass that equals its base type is written as the base type; another is refused.
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
        # Strict: a tuple is refused, not turned into a list.
        self._packb = partial(msgpack.packb, strict_types=True)
        self._unpack = partial(msgpack.unpackb, strict_map_key=False)

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as MessagePack.

        :raises UnserializableRequestError: if MessagePack would change it.
        """
        try:
            return self._pack(obj)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnserializableRequestError(blame(self._pack, obj, error)) from error

    def _pack(self, obj: Any) -> bytes:
        obj = to_base_types(obj)
        _refuse_buffers(obj)
        return bytes(self._packb(obj))

    def loads(self, data: bytes) -> Any:
        """Return the object that *data* was made of.

        :raises ValueError: if *data* is not MessagePack.
        """
        return self._unpack(data)


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
    """Pickle: keeps nearly everything, and runs whatever code is in Redis. Opt-in for a trusted Redis.

    What it writes, scrapy-redis reads.
    """

    name = "pickle"
    faithful = True

    def dumps(self, obj: Any) -> bytes:
        """Return *obj* as a pickle.

        :raises UnserializableRequestError: if it cannot be pickled.
        """
        try:
            return self._pack(obj)
        except Exception as error:  # an object may raise anything
            raise UnserializableRequestError(blame(self._pack, obj, error)) from error

    @staticmethod
    def _pack(obj: Any) -> bytes:
        data = _pickle.dumps(obj, protocol=4)
        if b"\x93" in data:  # it names a class, which may not take back what it gave
            _pickle.loads(data)  # noqa: S301 - what we have just written
        return data

    def loads(self, data: bytes) -> Any:
        """Return the object that *data* was made of, running the code that it holds."""
        return _pickle.loads(data)  # noqa: S301 - opt-in, and the class says so


_OURS = (JSONSerializer, DeflatedJSONSerializer, MsgpackSerializer, PickleSerializer)
_BY_NAME = {cls.name: cls for cls in _OURS}


def load_serializer(value: Any) -> Serializer:
    """Return the serializer that ``SCHEDULER_SERIALIZER`` or a queue's ``serializer`` names.

    :param value: ``"json"``, ``"json+deflate"``, ``"msgpack"`` or ``"pickle"``; an import path; or the
        object itself.
    :raises SettingError: if it is none of these, or lacks ``dumps`` or ``loads``.
    """
    serializer = value
    if isinstance(value, str):
        if value in _BY_NAME:
            return _BY_NAME[value]()
        serializer = _load_module_or_object(value)
    if isinstance(serializer, type):
        with suppress(TypeError):  # it needs arguments, and is refused below
            serializer = serializer()
    if isinstance(serializer, type):
        serializer = None
    if not (hasattr(serializer, "dumps") and hasattr(serializer, "loads")):
        raise SettingError(
            "SCHEDULER_SERIALIZER must be 'json', 'json+deflate', 'msgpack', 'pickle', or the import path of "
            f"a module or object with dumps and loads, not {value!r}"
        )
    return serializer  # type: ignore[no-any-return] # has what the protocol asks for


_PICKLECOMPAT = "scrapy_rq_sched.picklecompat"


def serializer_name(serializer: Any) -> str:
    """Return what identifies *serializer* to the workers of a fleet."""
    if type(serializer) in _BY_NAME.values():
        return str(serializer.name)
    if inspect.ismodule(serializer):
        # The same by another name, which is scrapy-redis's.
        return PickleSerializer.name if serializer.__name__ == _PICKLECOMPAT else serializer.__name__
    cls = type(serializer)
    return f"{cls.__module__}.{cls.__qualname__}"


def _load_module_or_object(path: str) -> Any:
    for load_path in (import_module, load_object):
        try:
            return load_path(path)
        except (ImportError, NameError, ValueError, TypeError):
            continue  # perhaps it is the other; if neither, the caller refuses the setting
    return None


def blame(dumps: Callable[[Any], Any], obj: Any, error: Exception) -> str:
    """Return which field of *obj* cannot be written; only called when *obj* as a whole cannot."""
    for field, value in obj.items() if isinstance(obj, dict) else ():
        try:
            dumps({field: value})
        except Exception:  # whatever it raises, this is the field
            return f"{field}: {error}"
    return str(error)
