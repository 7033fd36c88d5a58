"""What the user sees: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .crawl import Crawl, Verdict, requests
from .processes import Worker

#: Seconds between two lines, where there is no terminal to draw on.
LINE_INTERVAL = 2.0

STYLES = {"starting": "dim", "crawling": "green", "killed": "bold red", "finished": "bold green"}


class View:
    """Shows a crawl while it goes on. Use it as a context manager.

    :param has_keys: whether the viewer can press keys.
    """

    def __init__(self, console: Console, title: str, has_keys: bool) -> None:
        self._console = console
        self._title = title
        self._keys = "Press 1, 2 or 3 to kill -9 that worker, Ctrl-C to leave" if has_keys else ""
        self._events: list[str] = []
        self._elapsed = 0.0
        self._last_line = -LINE_INTERVAL
        self._live = Live(console=console, auto_refresh=False) if live(console) else None

    def announce(self, event: str) -> None:
        """Tell the user that something happened."""
        line = f"{self._elapsed:5.1f} s  {event}"
        self._events.append(line)
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, crawl: Crawl) -> None:
        """Show how the crawl stands."""
        self._elapsed = crawl.elapsed
        if self._live is not None:
            self._live.update(self._screen(crawl), refresh=True)
        elif crawl.elapsed - self._last_line >= LINE_INTERVAL or crawl.finished:
            self._last_line = crawl.elapsed
            self._console.print(status_line(crawl), highlight=False, markup=False, soft_wrap=True)

    def _screen(self, crawl: Crawl) -> RenderableType:
        events = [Text(event, style="yellow") for event in self._events]
        return Group(
            Text(self._title, style="bold"),
            workers_table(crawl),
            "",
            frontier_line(crawl),
            progress(crawl),
            "",
            Text(self._keys, style="dim"),
            *events,
            # The terminal echoes Ctrl-C as ^C; on a line of its own it does not move the table.
            "",
        )

    def __enter__(self) -> View:
        if self._live is None:
            self._console.print(self._title, highlight=False, markup=False, soft_wrap=True)
        else:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()


def live(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal


def workers_table(crawl: Crawl) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("worker", min_width=9)
    table.add_column("process", justify="right")
    table.add_column("state", min_width=9)
    for heading in ("pages", "pages/s", "in hand"):
        table.add_column(heading, justify="right", min_width=7)
    for worker in crawl.workers:
        table.add_row(
            worker.name,
            str(worker.pid),
            Text(worker.state, style=STYLES.get(worker.state, "bold red")),
            f"{len(worker.pages):,}",
            f"{worker.rate:.1f}" if worker.alive else "-",
            Text(str(worker.in_hand), style="yellow" if worker.killed and worker.in_hand else ""),
        )
    return table


def frontier_line(crawl: Crawl) -> Text:
    sample = crawl.sample
    counts = [("waiting", sample.waiting), ("leased", sample.leased), ("seen", sample.seen)]
    if sample.set_aside:
        counts.append(("set aside", sample.set_aside))
    parts = [part for name, count in counts for part in ((f"{name} ", "dim"), f"{count:<6,}", "  ")]
    if not crawl.redis_answers:
        parts.append(("Redis does not answer", "bold red"))
    return Text.assemble(*parts)


def progress(crawl: Crawl) -> Table:
    reached, total = crawl.reached(), len(crawl.pages)
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(
        ProgressBar(total=total, completed=reached, width=40),
        f"{reached:,} of {total:,} pages",
        f"{100 * reached // total} %",
        Text(f"{crawl.elapsed:.1f} s", style="dim"),
    )
    return row


def status_line(crawl: Crawl) -> str:
    sample = crawl.sample
    workers = ", ".join(
        f"{worker.name} {worker.state} {len(worker.pages)} ({worker.in_hand} in hand)"
        for worker in crawl.workers
    )
    return (
        f"{crawl.elapsed:5.1f} s  {crawl.reached()} of {len(crawl.pages)} pages; "
        f"waiting {sample.waiting}, leased {sample.leased}, seen {sample.seen}; {workers}"
        + ("" if crawl.redis_answers else "; Redis does not answer")
    )


def summary(crawl: Crawl, verdict: Verdict, started_at: float) -> RenderableType:
    """Return the summary of a crawl that is over."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("worker")
    table.add_column("pages", justify="right")
    table.add_column("end")
    table.add_column("after", justify="right")
    for worker in crawl.workers:
        table.add_row(worker.name, f"{len(worker.pages):,}", end_of(worker), end_time(worker, started_at))
    lines = [
        Text(f"pages reached  {verdict.reached:,} of {verdict.pages:,}"),
        Text(f"lost           {verdict.lost}", style="bold red" if verdict.lost else "bold green"),
        Text(f"repeated       {verdict.repeated}"),
        Text(f"seconds        {crawl.elapsed:.1f}"),
    ]
    lines += [
        Text(
            f"\n{kill.worker.name} was killed with {requests(kill.in_hand)} in hand, which went back to the\n"
            f"queue after {kill.took:.1f} s, and the others crawled them."
        )
        for kill in crawl.kills
        if kill.in_hand and kill.took is not None and not verdict.lost
    ]
    heading = Text("\nThe crawl is over", style="bold")
    return Group(heading, "", table, "", *lines, *map(complaint, verdict.complaints))


def what_next() -> RenderableType:
    """Return what a viewer can do after the demo."""
    table = Table.grid(padding=(0, 3, 0, 2))
    table.add_row("make demo-cores", "what all cores are worth, by one command")
    table.add_row("docs/one-machine.md", "the same for a project of yours")
    table.add_row("docs/quickstart.md", "a crawl on several machines, step by step")
    return Group(Text("\nWhat next", style="bold"), "", table)


def complaint(text: str) -> Text:
    return Text(f"WRONG: {text}", style="bold red")


def end_of(worker: Worker) -> Text:
    return Text("kill -9" if worker.killed else worker.state, style=STYLES.get(worker.state, ""))


def end_time(worker: Worker, started_at: float) -> str:
    return "" if worker.ended_at is None else f"{worker.ended_at - started_at:.1f} s"


def failure(message: str, worker: Worker) -> Text:
    """Return what is shown when the crawl had to be given up."""
    return Text.assemble(
        (f"The crawl was given up: {message}", "bold red"),
        f"\nThe end of {worker.name}'s log:\n{worker.log_tail()}",
    )


def refusal(message: str) -> Text:
    """Return what is shown when there could be no crawl."""
    return Text(f"The demo cannot run: {message}", style="bold red")
