"""Make this package's scheduler the default of Scrapy, in each process that finds this folder in its path."""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

NAME = "scrapy.settings.default_settings"


def own_redis() -> str:
    """Return the address of the database that only this worker of pytest-xdist uses."""
    return os.environ["UPSTREAM_REDIS"] + os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")


class Finder:
    """Finds the default settings of Scrapy, and changes them once they are loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != NAME:
            return None
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = spec.loader if spec else None
        load = loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            vars(module).update(SCHEDULER="scrapy_rq_sched.Scheduler", REDIS_URL=own_redis())

        loader.exec_module = load_and_change
        return spec


if "UPSTREAM_REDIS" in os.environ:
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
