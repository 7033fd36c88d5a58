"""Commands that are typed in a copy of the test project, as on machines of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.crawl import PROJECT, start_interpreter

from .arena import Arena


def copy_project(arena: Arena, name: str) -> Path:
    """Return a copy of the test project in the arena's folder."""
    ignored = shutil.ignore_patterns("__pycache__", ".scrapy")
    return Path(shutil.copytree(PROJECT, arena.folder / name, ignore=ignored))


def type_command(
    arena: Arena, project: Path, *arguments: str, environment: Mapping[str, str] | None = None, **more: object
) -> int:
    """Start ``scrapy`` in *project* with the crawl's settings and *more*; return its number in the fleet."""
    number = len(arena.fleet.workers)
    log = arena.folder / f"worker-{number}.log"
    settings = {**arena.settings, **more}
    options = [text for name, value in settings.items() for text in ("-s", f"{name}={value}")]
    variables = {"REDIS_URL": arena.proxy.url, "RECORD": str(arena.fleet.record), **(environment or {})}
    command = ["-m", "scrapy", *arguments, *options]
    arena.fleet.workers.append(start_interpreter(command, {**os.environ, **variables}, log, project))
    return number
