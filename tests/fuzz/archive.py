"""Files of an exported frontier that somebody has changed: imported whole, or refused in one line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from scrapy_rq_sched.inspect import Export, View
from scrapy_rq_sched.inspect.archive import WIDTHS

from .hostile import as_json, blobs, kept, mutated, numbers, raw, texts, values
from .oracle import Complaint
from .shop import NEIGHBOUR, SPIDER, Base, command_faults, contents, everything, settings
from .target import Target, World

#: The frontier that files are imported as.
COPY = "copy"
#: Fields of the first line, and of its ``meta``.
HEADER = ("spider", "time", "queue", "meta", "counts", "version", "format")
META = (
    "format",
    "dupefilter",
    "SCHEDULER_SERIALIZER",
    "SCHEDULER_QUEUE_CLASS",
    "requests_key",
    "dupefilter_key",
)
META += ("start_urls_keys", "places_key", "slot_states", "spider", "epoch", "pages", "state", "found")


class Archive(Target):
    """Lines of a file. A case is a list of lines, and whether their sums are made to fit."""

    name = "import"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._base = Base(world.server, world.url, 600.0)
        self._base.restore()
        view = View.from_settings(settings(world.url), SPIDER)
        self._lines = b"".join(Export(view).lines()).splitlines(keepends=True)
        view.server.close()

    def cases(self) -> st.SearchStrategy[dict[str, Any]]:
        lines = [kept(line) for line in self._lines]
        return st.fixed_dictionaries({"lines": _lines(lines), "fits": st.sampled_from([True, True, False])})

    def examine(self, cases: list[dict[str, Any]]) -> Iterator[Complaint]:
        for case in cases:
            yield from self._examine([raw(line) for line in case["lines"]], case["fits"])

    def _examine(self, lines: list[bytes], fits: bool) -> Iterator[Complaint]:
        server = self.world.server
        server.flushdb()
        server.mset(NEIGHBOUR)
        server.set(f"{SPIDER}:requests", "of another frontier")
        before = contents(server)
        path = self.world.folder / "fuzzed.frontier"
        path.write_bytes(b"".join(_fitting(lines) if fits else lines))
        yield from command_faults(self.world.url, "import", COPY, "--file", str(path))
        after = contents(server)
        own = f"{COPY}:".encode()
        changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
        if changed:
            if others := [kept(key) for key in changed if not key.startswith(own)]:
                yield Complaint("an import has changed keys of another frontier", str(others))
            if not server.exists(f"{COPY}:converting"):
                yield from self._lost(lines)
            yield from self._cleared()

    def _cleared(self) -> Iterator[Complaint]:
        """Show and clear what was imported, whether that is whole or not."""
        server = self.world.server
        yield from command_faults(self.world.url, "status", COPY)
        yield from command_faults(self.world.url, "clear", COPY, "--force", "--yes")
        if left := [kept(key) for key in server.scan_iter(f"{COPY}:*") if not _stays(key)]:
            yield Complaint("clear --force leaves keys of an import", str(left))
        for key, value in NEIGHBOUR.items():
            if server.get(key) != value.encode():
                yield Complaint("clear has changed a key of another program", key)

    def _lost(self, lines: list[bytes]) -> Iterator[Complaint]:
        """Look for the requests of a file that was imported."""
        found = everything(contents(self.world.server))
        for line in b"".join(lines).splitlines():
            try:
                kind, entries = json.loads(line)
            except (ValueError, TypeError):  # the sums that were replaced
                continue
            if kind not in ("waiting", "by slot", "seeds", "leased", "noted", "delayed"):
                continue
            for value in entries[WIDTHS[kind] - 1 :: WIDTHS[kind]]:
                if not isinstance(value, str):
                    continue
                # Where it is kept, the fields before a request are others.
                request = value if kind == "waiting" else value.split(" ", 3)[-1]
                data = request.encode("utf-8", "surrogatepass")
                if data not in found and as_json(request)[1:-1].encode() not in found:
                    yield Complaint(f"an import has lost an entry of the kind {kind!r}", value[:500])
                    return


def _stays(key: bytes) -> bool:
    """Return whether a cleared frontier keeps this key."""
    return any(
        name in key for name in (b":audit", b":events", b":meta:times", b":workers:lost", b":finished")
    )


@st.composite
def _lines(draw: st.DrawFn, lines: list[str]) -> list[str]:
    """Return the *lines* of a file, some of them changed."""
    made = list(lines)
    for _ in range(draw(st.integers(1, 3))):
        if not made:
            break
        place = draw(st.integers(0, len(made) - 1))
        how = draw(
            st.sampled_from(["value", "value", "value", "header", "bytes", "drop", "twice", "swap", "new"])
        )
        if how == "value":
            made[place] = draw(_with_a_value(made[place]))
        elif how == "header":
            made[0] = draw(_with_a_field(made[0]))
        elif how == "bytes":
            made[place] = draw(mutated([made[place]]))
        elif how == "drop":
            del made[place]
        elif how == "twice":
            made.insert(place, made[place])
        elif how == "swap":
            other = draw(st.integers(0, len(made) - 1))
            made[place], made[other] = made[other], made[place]
        else:
            kind = st.one_of(st.sampled_from(sorted(WIDTHS)), texts(4))
            line = draw(st.tuples(kind, st.one_of(st.lists(_entries(), max_size=4), values())))
            made.insert(place, as_json(line) + "\n")
    return made


def _entries() -> st.SearchStrategy[Any]:
    kinds = st.sampled_from(["request", "list", "zset", "set", "seed", "drop", "x", "request9"])
    entry = st.builds(
        "{} {} {}@{}@{}@{} {}".format, kinds, numbers(), numbers(), numbers(), texts(5), numbers(), texts()
    )
    return st.one_of(entry, entry, numbers().map(str), texts(), values())


@st.composite
def _with_a_value(draw: st.DrawFn, line: str) -> str:
    """Return *line* with another value in it."""
    try:
        kind, found = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return draw(blobs()) + "\n"
    if isinstance(found, list) and found:
        place = draw(st.integers(0, len(found) - 1))
        original = found[place] if isinstance(found[place], str) else "x"
        own = mutated([original]).map(lambda text: raw(text).decode("utf-8", "replace"))
        found[place] = draw(st.one_of(own, _entries(), st.builds(lambda t: {"base64": t}, texts())))
        return as_json([kind, found]) + "\n"
    return as_json([kind, draw(values())]) + "\n"


@st.composite
def _with_a_field(draw: st.DrawFn, line: str) -> str:
    """Return the first line with another field in it, or in its meta."""
    try:
        kind, header = json.loads(line)
        dict(header["meta"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return line
    value = draw(
        st.one_of(texts(), values(), st.sampled_from(["pickle", "os", "prod:requests", "lifo", "fifo"]))
    )
    if draw(st.booleans()):
        header["meta"][draw(st.one_of(st.sampled_from(META), texts(5)))] = value
    else:
        header[draw(st.one_of(st.sampled_from(HEADER), texts(5)))] = value
    return as_json([kind, header]) + "\n"


def _fitting(lines: list[bytes]) -> Iterator[bytes]:
    """Yield *lines* with a last one whose sums fit them, as somebody writes it who means harm."""
    digest = hashlib.sha256()
    counts: dict[str, dict[str, int]] = {"lines": {}, "entries": {}}
    for number, line in enumerate(lines):
        try:
            kind, found = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            kind, found = "", []
        if kind == "end":
            continue
        yield line
        digest.update(line)
        if number and isinstance(kind, str) and isinstance(found, list) and kind in WIDTHS:
            counts["lines"][kind] = counts["lines"].get(kind, 0) + 1
            counts["entries"][kind] = counts["entries"].get(kind, 0) + len(found) // WIDTHS[kind]
    yield as_json(["end", {**counts, "sha256": digest.hexdigest()}]).encode() + b"\n"
