"""``scrapy frontier pause``, ``resume``, ``drain`` and ``stop``: commands for all workers of a fleet."""

from __future__ import annotations

import argparse

from ..errors import frontier_command
from ..inspect import Control
from ..inspect.wording import counted
from .action import Action, Context


class _Tell(Action):
    #: The answer, if workers are alive, and if none is.
    said: str
    said_to_nobody: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the spider is the only argument."""

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Send the command to the workers."""
        view = context.view(opts.spider)
        control = Control(view)
        alive: int = getattr(control, self.name)()
        resume = frontier_command("resume", opts.spider)
        said = self.said if alive else self.said_to_nobody
        workers = counted(alive, "worker")
        context.output.say(said.format(spider=opts.spider, workers=workers, resume=resume))
        if self.name == "stop" and view.meta.get("state"):
            context.output.say(
                f"The crawl stays {view.meta['state']}, also for workers that start later. To resume it: "
                f"{resume}"
            )


class Pause(_Tell):
    """``scrapy frontier pause SPIDER``."""

    name = "pause"
    summary = "Pause the crawl: the workers begin no page until resume"
    description = (
        "Pause a crawl: within two seconds, its workers begin no more pages. They finish the pages they have "
        "begun, including the requests in Scrapy's downloader, where a DOWNLOAD_DELAY still holds. They put "
        "the other requests back into the queue, and stay. Workers that start later wait as well."
    )
    examples = ("scrapy frontier pause quotes", "scrapy frontier resume quotes")
    said = "Spider {spider} is paused: {workers} will begin no page. To resume: {resume}"
    said_to_nobody = (
        "Spider {spider} is paused. No worker is alive; a worker that starts will begin no page. To resume: "
        "{resume}"
    )


class Resume(_Tell):
    """``scrapy frontier resume SPIDER``."""

    name = "resume"
    summary = "Resume the crawl after pause or drain"
    examples = ("scrapy frontier resume quotes", "scrapy frontier status quotes --watch")
    said = "Spider {spider} is resumed: {workers} will begin pages again"
    said_to_nobody = "Spider {spider} is resumed. No worker is alive; a worker that starts will begin pages"


class Drain(_Tell):
    """``scrapy frontier drain SPIDER``."""

    name = "drain"
    summary = "Finish the requests in hand, and take no more"
    description = (
        "Have all workers finish the requests they hold, including those only in their memory, and "
        "take no more. The workers stay. After that, stop loses and repeats nothing."
    )
    examples = ("scrapy frontier drain quotes", "scrapy frontier resume quotes")
    said = (
        "Spider {spider} is draining: {workers} will finish the requests in hand, and take no more. To "
        "resume: {resume}"
    )
    said_to_nobody = (
        "Spider {spider} is draining. No worker is alive; a worker that starts will take no request. To "
        "resume: {resume}"
    )


class Stop(_Tell):
    """``scrapy frontier stop SPIDER``."""

    name = "stop"
    summary = "Close all workers cleanly"
    description = (
        "Close all workers that are alive now, within two seconds and as after one Ctrl-C: each finishes its "
        "downloads and puts the other requests back. Nothing is removed: workers that start later continue "
        "the crawl."
    )
    examples = ("scrapy frontier stop quotes", "scrapy frontier status quotes --watch")
    said = "Spider {spider}: {workers} will close. To continue the crawl, start workers again"
    said_to_nobody = "Spider {spider}: no worker is alive. To continue the crawl, start workers"
