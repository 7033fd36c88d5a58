"""Remove a frontier."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...codec.values import text_of
from ...errors import FrontierError, InspectionError, frontier_command
from ...frontier.scripts import filter_step, register
from .. import own_keys
from ..read_status import read_status
from ..view import View
from ..wording import counted
from .operation import Operation

#: The parts of a frontier that :func:`clear` can keep.
KEEPABLE = ("seeds", "failed", "seen")


def clear_frontier(
    view: View, forces: bool = False, keep: Collection[str] = (), with_history: bool = False
) -> Operation:
    """Remove the frontier. Items and statistics stay. The count is that of its entries.

    :param forces: whether to remove it even if workers are alive; they log that it was removed.
    :param keep: members of :data:`KEEPABLE` that stay.
    :param with_history: whether to delete the history of crawls, too.
    """
    own_keys.require(view)
    status = read_status(view)
    if status.alive and not forces:
        raise _alive(view, status.alive)
    parts = ("waiting", "leased", "delayed", "following", *KEEPABLE)
    contents: dict[str, int] = {name: getattr(status, name) for name in parts if name not in keep}
    # With their rests and their cookies.
    contents["items of pools"] = sum(pool.items for pool in status.pools)
    listed = ", ".join(f"{count:,} {name}" for name, count in contents.items() if count) or "it was empty"
    total, remarks = sum(contents.values()), ""
    try:
        view.named_queue_class  # noqa: B018 - raises if it cannot be known
    except FrontierError as error:
        remarks = f". The waiting requests stay. {error}. Clear them with its own code"

    def deed() -> int:
        nonlocal remarks
        other = clear(view, forces, keep, with_history)
        if other:
            remarks += f". The fingerprints stay: frontier {other!r} has the same SCHEDULER_DUPEFILTER_KEY"
        return total

    return Operation(
        lambda _, mood: f"The frontier of spider {view.spider} {mood.was} removed: {listed}{remarks}",
        lambda: total,
        deed,
    )


def clear(view: View, force: bool = False, keep: Iterable[str] = (), with_history: bool = False) -> str:
    """Remove the frontier. Items and statistics stay.

    :param force: whether to clear it even if workers are alive; they log that it was removed.
    :param keep: members of :data:`KEEPABLE` that stay.
    :param with_history: whether to delete the history of crawls, too.
    :return: the other frontier that shares the dupefilter, which was therefore kept; empty if not shared.
    :raises InspectionError: if workers are alive, unless *force*; or if ``meta`` names keys that are not the
        frontier's.
    """
    own_keys.require(view)
    script = register(view.server, "clear")
    keep = set(keep)
    flags = [int(name in keep) for name in KEEPABLE]
    problem, detail = script(view.keys.all(), [int(force), *flags, int(with_history), view.keys.prefix])
    if problem == b"alive":
        raise _alive(view, int(detail))
    view.wait_until_freed()
    # Only a compact filter needs this; meta, which names the filter, is already deleted.
    step = filter_step(view.server, view.keys.dupefilter, "compact")
    while problem != b"shared" and "seen" not in keep and step("sweep"):
        pass
    sweep_slots = register(view.server, "sweep")
    while sweep_slots(view.keys.all(), []):
        pass
    return text_of(detail) if problem == b"shared" else ""


def _alive(view: View, count: int) -> InspectionError:
    return InspectionError(
        f"The crawl of spider {view.spider!r} has {counted(count, 'worker')}. With --force, the frontier is "
        "removed all the same, and their logs report that. To stop them first: "
        + frontier_command("stop", view.spider)
    )
