"""The spiders of a project, also if some of its files cannot be imported."""

from __future__ import annotations

import os
import pkgutil
import sysconfig
import traceback
from importlib import import_module
from typing import Any

from scrapy import Spider
from scrapy.spiderloader import SpiderLoader
from scrapy.utils.misc import load_object
from scrapy.utils.spider import iter_spider_classes

from ..errors import named, one_line

#: The folders of Python's own modules, and of installed packages.
_INSTALLED = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class ProjectSpiders:
    """The spiders of a project.

    Scrapy's own loader gives up at the first file that it cannot import, also with
    ``SPIDER_LOADER_WARN_ONLY``: the files after it are not read. Here such a file hides only its own spiders.

    :param settings: Scrapy's settings.
    :ivar problems: a sentence for each file that cannot be imported, with the line and the error.
    """

    def __init__(self, settings: Any) -> None:
        self.problems: list[str] = []
        self._found: dict[str, type[Spider]] = {}
        settings = settings.copy()
        # So that Scrapy's loader does not print the traceback instead.
        settings.set("SPIDER_LOADER_WARN_ONLY", False, "cmdline")
        # Scrapy 2.13.0 lacks the function for this.
        cls = load_object(settings["SPIDER_LOADER_CLASS"])
        try:
            loader = cls.from_settings(settings.frozencopy())
            self._found = {name: loader.load(name) for name in loader.list()}
        except Exception as error:  # from the user's code
            if not issubclass(cls, SpiderLoader):
                self._note(f"SPIDER_LOADER_CLASS {settings['SPIDER_LOADER_CLASS']}", error)
                return
            for module in settings.getlist("SPIDER_MODULES"):
                self._import(module)

    def list(self) -> list[str]:
        """Return the names of the spiders; outside a project, an empty list."""
        return sorted(self._found)

    def load(self, name: str) -> type[Spider] | None:
        """Return the class of the spider called *name*; None if the project has none that can be loaded."""
        return self._found.get(name)

    def _import(self, name: str) -> None:
        """Add the spiders of the module called *name*, and of the modules in it."""
        try:
            module = import_module(name)
        except Exception as error:  # from the user's code
            self._note(f"Module {name}", error)
            return
        self._found.update((cls.name, cls) for cls in iter_spider_classes(module))
        for inner in pkgutil.iter_modules(getattr(module, "__path__", ())):
            self._import(f"{name}.{inner.name}")

    def _note(self, module: str, error: Exception) -> None:
        text = named(error)
        if isinstance(error, SyntaxError):
            text = f"{type(error).__name__}: {error.msg}"
        self.problems.append(one_line(f"{_place(error) or module} cannot be loaded: {text}"))


def _place(error: Exception) -> str:
    """Return the file and the line of the project at which an import failed; empty if it failed elsewhere."""
    if isinstance(error, SyntaxError) and error.filename and os.path.exists(error.filename):
        path, line = error.filename, error.lineno
    else:
        # Without the frame of this module.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        of_project = [
            frame for frame in frames if os.path.exists(frame.filename) and not _is_installed(frame.filename)
        ]
        if not of_project:
            return ""
        path, line = of_project[-1].filename, of_project[-1].lineno
    near = os.path.relpath(path)
    return f"{path if near.startswith(os.pardir) else near}, line {line},"


def _is_installed(path: str) -> bool:
    return path.startswith(_INSTALLED)
