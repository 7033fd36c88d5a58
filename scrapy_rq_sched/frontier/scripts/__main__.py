"""Print the files that make up a script: ``python -m scrapy_rq_sched.frontier.scripts exchange``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from . import needs, part, variants


class Node(NamedTuple):
    """A Lua file in the tree of a script.

    :param depth: 0 for the script itself, one more for each file that needs this one.
    :param file: its name in ``lua/``, without the suffix.
    :param lines: its number of lines; 0 if it was in the tree before: then its needs are not repeated.
    """

    depth: int
    file: str
    lines: int


def tree(name: str, queue: str = "priority", dupefilter: str = "exact") -> Iterator[Node]:
    """Yield the files of ``lua/<name>.lua``, each before the files that it needs.

    :param queue: the queue discipline, and :param dupefilter: the filter, as for
        :func:`~scrapy_rq_sched.frontier.scripts.compose`.
    """
    stands_for, shown = variants(queue, dupefilter), set[str]()

    def visit(needed: str, depth: int) -> Iterator[Node]:
        file = stands_for.get(needed, needed)
        if file in shown:
            yield Node(depth, file, 0)
            return
        shown.add(file)
        yield Node(depth, file, part(file).count(b"\n"))
        for below in needs(file):
            yield from visit(below, depth + 1)

    return visit(name, 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tree of the script that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m scrapy_rq_sched.frontier.scripts", description=__doc__)
    parser.add_argument("script", help="the name of a file in frontier/lua/scripts, such as exchange or open")
    parser.add_argument(
        "--queue", default="priority", help="a file in lua/store/queue (default: %(default)s)"
    )
    parser.add_argument("--filter", default="exact", help="a file in lua/store/filter (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        nodes = list(tree(f"scripts/{options.script}", options.queue, options.filter))
    except FileNotFoundError as error:
        parser.error(f"frontier/lua/scripts has no file {Path(error.filename).name}")
    for depth, file, lines in nodes:
        print(f"{'  ' * depth + file:<40} {lines or '(above)':>7}")
    files = [node for node in nodes if node.lines]
    print(f"{f'{len(files)} files':<40} {sum(node.lines for node in files):>7}")


if __name__ == "__main__":
    main()
