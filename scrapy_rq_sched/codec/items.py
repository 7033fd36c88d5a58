"""Turn items into the bytes that Redis stores."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from itemadapter import ItemAdapter
from scrapy.exporters import JsonLinesItemExporter
from scrapy.utils.serialize import ScrapyJSONEncoder

from ..errors import UnserializableItemError
from ..serializers import blame

#: The default of ``REDIS_ITEMS_SERIALIZER``: JSON, as Scrapy's feed exports write it.
default_serialize: Callable[[Any], str] = ScrapyJSONEncoder().encode


class LineSerializer:
    """Serializes items as Scrapy's feed exports do: the order of the fields, and their own serializers.

    Each character that is not ASCII is escaped: also half of a surrogate pair, which UTF-8 lacks.
    """

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._exporter = JsonLinesItemExporter(self._buffer)

    def __call__(self, item: Any) -> bytes:
        """Return *item* as a line of JSON, without the line's end."""
        try:
            self._exporter.export_item(item)
            return self._buffer.getvalue().rstrip(b"\n")
        finally:
            self._buffer.seek(0)
            self._buffer.truncate()


def item_bytes(
    item: Any, serialize: Callable[[Any], Any], encode: Callable[[Any], bytes] = str.encode
) -> bytes:
    """Return *item* as bytes.

    :param serialize: returns the item as text or bytes.
    :param encode: turns what is no bytes into bytes.
    :raises UnserializableItemError: if this fails. The message names the field, and what to do.
    """
    try:
        data = serialize(item)
        return bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else encode(data)
    except Exception as error:  # the user's code may raise anything
        fields = dict(ItemAdapter(item)) if ItemAdapter.is_item(item) else item
        reason = blame(serialize, fields, error)
        raise UnserializableItemError(
            f"{reason}. Change the item, or set REDIS_ITEMS_SERIALIZER to a serializer that accepts it"
        ) from error
