"""A spider full of traps, each of which records that it was sprung: what no entry of Redis may do."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import scrapy

from . import lazy  # noqa: F401 - imported, so that an entry may name what is in it
from .record import record

WATCHED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class")


def _watch(event, arguments):
    # Whatever way it comes about: the interpreter itself tells of it.
    if event in WATCHED or (event == "import" and arguments[0].startswith("crawls.")):
        record("sprung", f"{event} {arguments[0]}")


def function(*args, **kwargs):
    """Record that something called this."""
    record("sprung", "function")


class NotARequest:
    """What takes the arguments of a request, and is none."""

    def __init__(self, *args, **kwargs):
        record("sprung", "NotARequest")


class OwnRequest(scrapy.Request):
    """A request with methods that a `_class` might name."""

    @staticmethod
    def make(*args, **kwargs):
        record("sprung", "OwnRequest.make")

    class Nested(scrapy.Request):
        """Is not at the top of a module."""


class TargetSpider(scrapy.Spider):
    """Has two callbacks; all else in it is a trap."""

    name = "target"
    Inner = NotARequest
    function_as_method = staticmethod(function)

    async def start(self):
        sys.addaudithook(_watch)  # from now on nothing need be imported or spawned
        return
        yield

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.shell = os.system
        self.run = subprocess.run
        self.of_module = function
        self.bound = NotARequest.__init__.__get__(object.__new__(NotARequest))

    def parse(self, response):
        record("parsed", response.url)

    def parse_item(self, response, **kwargs):
        record("item", f"{response.url} {sorted(kwargs)}")

    @property
    def trap(self):
        record("sprung", "property")
        return self.parse

    @functools.cached_property
    def connection(self):
        record("sprung", "cached_property")
        return self.parse

    @classmethod
    def of_class(cls, *args, **kwargs):
        record("sprung", "classmethod")

    @staticmethod
    def static(*args, **kwargs):
        record("sprung", "staticmethod")

    def _of_the_users(self, response):
        record("private", response.url)

    def __enter__(self, *args, **kwargs):
        record("sprung", "__enter__")

    def __getattr__(self, name):
        if name == "late":  # Scrapy asks for many a name that a spider may lack
            record("sprung", "__getattr__")
        raise AttributeError(name)


class CopySpider(TargetSpider):
    """Does what many spiders do: it hands on the meta of a response."""

    name = "copy"

    def parse(self, response):
        super().parse(response)
        if response.url.endswith("/0"):
            yield scrapy.Request(response.urljoin("/1"), meta=response.meta)


class HomeSpider(TargetSpider):
    """Is meant to stay on one site."""

    name = "home"
    allowed_domains = ["home.test"]
