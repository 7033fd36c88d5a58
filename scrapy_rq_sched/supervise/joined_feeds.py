"""The feeds of the settings: which of them ``scrapy frontier crawl`` writes, once, for all workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object

from ..collect.item_format import LINES, ends_lines
from ..feeds import WholeItemsStorage, feeds_in, has_filter, is_same_for_all, with_worker
from ..servers.addresses import show_feed
from .feeds import path_of

#: The formats whose items are JSON on their way to the file.
FORMATS = (*LINES, "json", "csv", "xml")
#: Options that only Scrapy's own way of writing has.
_SCRAPYS_OWN = ("batch_item_count", "postprocessing", "item_export_kwargs")


class SettingsFeed(NamedTuple):
    """A feed of the settings.

    :param uri: its URI, as messages show it.
    :param path: its file; None if it is not one file on this machine.
    :param options: its options.
    :param is_joined: whether the file is written for all workers; if not, each worker writes the feed itself.
    :param remark: why each worker writes it itself, and what to do; empty if there is nothing to say.
    """

    uri: str
    path: Path | None
    options: dict[str, Any]
    is_joined: bool
    remark: str


def feeds_of_settings(settings: Any, spider: str) -> Iterator[SettingsFeed]:
    """Yield each feed of Scrapy's *settings*.

    :param spider: the spider's name, for ``%(name)s`` in the name of a file.
    """
    for key, options in feeds_in(settings).items():
        uri = str(key)
        options["format"] = options.get("format") or Path(uri).suffix.removeprefix(".")
        path = path_of(uri.replace("%(name)s", spider))
        obstacle = _obstacle(uri, path, options, settings)
        remark = _remark(uri, obstacle) if obstacle else ""
        yield SettingsFeed(
            show_feed(uri), Path(path).resolve() if path else None, options, not obstacle, remark
        )


def _remark(uri: str, obstacle: str) -> str:
    """Return the line about a feed that each worker writes; none about one that is made for that."""
    if "%(worker)" in uri or uri.startswith("stdout:"):
        return ""
    shown = show_feed(uri)
    text = f"Feed {shown!r} of FEEDS is not written once for all workers, because {obstacle}. "
    if not is_same_for_all(uri):
        return f"{text}Each worker writes its own, as with scrapy crawl"
    return (
        f"{text}All workers write it, and damage or replace each other's items. Put %(worker)s into its URI, "
        f"as in {with_worker(shown)!r}, or change the feed"
    )


def _obstacle(uri: str, path: str, options: dict[str, Any], settings: Any) -> str:
    """Return why a feed cannot be written once for all workers, as Scrapy would; empty if it can."""
    for name in _SCRAPYS_OWN:
        default = settings.getint("FEED_EXPORT_BATCH_ITEM_COUNT") if name == "batch_item_count" else None
        if options.get(name, default):
            return f"it has {name}"
    if not path:
        return "its name has a placeholder" if "%(" in uri else "it is not a local file"
    format_ = options["format"]
    if format_ not in FORMATS:
        return f"its format is {format_!r}, and not JSON lines, JSON, CSV or XML"
    scrapys = default_settings.FEED_EXPORTERS_BASE[format_]
    if load_object(settings.getwithbase("FEED_EXPORTERS").get(format_) or object) is not load_object(scrapys):
        return f"FEED_EXPORTERS has an exporter of the project's own for {format_!r}"
    storage = settings.getwithbase("FEED_STORAGES").get("file" if uri.startswith("file:") else "")
    if load_object(storage or object) not in (FileFeedStorage, WholeItemsStorage):
        return "FEED_STORAGES has a storage of the project's own for files"
    encoding = options.get("encoding", settings.get("FEED_EXPORT_ENCODING"))
    if format_ in LINES and encoding and not ends_lines(encoding):
        return f"lines cannot be appended in the encoding {encoding}"
    if settings.get("FRONTIER_ITEMS") and has_filter(options):
        return "it has item_classes or an item_filter, and FRONTIER_ITEMS is set"
    if settings.get("FRONTIER_ITEMS") and settings.get("REDIS_ITEMS_SERIALIZER"):
        return "FRONTIER_ITEMS stores items with REDIS_ITEMS_SERIALIZER, and not as JSON"
    return ""
