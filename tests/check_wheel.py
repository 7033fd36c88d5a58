"""Run by ``make wheel`` in an environment that has only the wheel: is everything in it?"""

from __future__ import annotations

from importlib.resources import files

import scrapy_rq_sched
from scrapy_rq_sched.frontier import Frontier
from scrapy_rq_sched.keys import Keys


class _Server:
    """Takes the scripts, so that each has to be found and read."""

    def register_script(self, source: str) -> str:
        assert "local" in source
        return source


for discipline in ("fifo", "lifo", "priority"):
    Frontier(_Server(), Keys("spider"), "worker", discipline)
assert (files("scrapy_rq_sched") / "py.typed").is_file()
assert scrapy_rq_sched.Scheduler.__module__ == "scrapy_rq_sched.scheduler"
print("The wheel is complete:", files("scrapy_rq_sched"))
