"""Run by ``make wheel`` in an environment that has only the wheel: is everything in it?"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files

import scrapy_rq_sched
from scrapy_rq_sched.convert import Conversion
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.queue import FifoQueue, PriorityQueue
from scrapy_rq_sched.serializers import JSONSerializer, PickleSerializer

#: The modules that need an extra.
OF_EXTRAS = ("scrapy_rq_sched.dashboard", "scrapy_rq_sched.commands.terminal")

# Each module can be imported with nothing but what the wheel asks for; each script is found and read.
for module in pkgutil.walk_packages(scrapy_rq_sched.__path__, "scrapy_rq_sched."):
    if not module.name.startswith(OF_EXTRAS):
        import_module(module.name)
for discipline in ("fifo", "lifo", "priority", "custom"):
    for dupefilter in ("exact", "compact"):
        Frontier(None, Keys("spider"), "worker", discipline, dupefilter=dupefilter)
for queue_class in (FifoQueue, PriorityQueue):
    Conversion(None, Keys("spider"), queue_class, PickleSerializer(), JSONSerializer())
(command,) = entry_points(group="scrapy.commands", name="frontier")
assert command.load().__module__ == "scrapy_rq_sched.commands.frontier"
assert (files("scrapy_rq_sched") / "py.typed").is_file()
static = files("scrapy_rq_sched") / "dashboard" / "static"
for name in ("index.html", "login.html", "link.html", "app.js", "login.js", "style.css", "icon.svg"):
    assert (static / name).is_file()
# The page is made of modules, and each names those that it needs.
for module in static.iterdir():
    for name in re.findall(r'from "\./([^"]+)"', module.read_text("utf-8")):
        assert (static / name).is_file(), name
assert scrapy_rq_sched.Scheduler.__module__ == "scrapy_rq_sched.scheduler"
print("The wheel is complete:", files("scrapy_rq_sched"))
