"""``scrapy frontier pause``, ``resume``, ``drain`` and ``stop``: what all workers are told."""

from __future__ import annotations

import argparse

from ..inspect import Control
from .action import Action, Context


class _Tell(Action):
    said: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the spider is all."""

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Tell the workers."""
        view = context.view(opts.spider)
        control = Control(view)
        alive: int = getattr(control, self.name)()
        context.output.say(self.said.format(spider=opts.spider, workers=_workers(alive)))
        if self.name == "stop" and view.meta.get("state"):
            context.output.say(
                f"It stays {view.meta['state']}, for workers that start later, too. Go on: scrapy frontier "
                f"resume {opts.spider}"
            )


class Pause(_Tell):
    """``scrapy frontier pause SPIDER``."""

    name = "pause"
    summary = "Begin no page until told to resume"
    description = (
        "Have all workers begin no page, within two seconds. What they are at they finish, with all that is "
        "in Scrapy's downloader, where a DOWNLOAD_DELAY holds; what they have not begun goes back to the "
        "queue, and they stay. Those that start later begin nothing, either. Go on with resume."
    )
    said = "Spider {spider} is paused: {workers} will begin no page. Go on: scrapy frontier resume {spider}"


class Resume(_Tell):
    """``scrapy frontier resume SPIDER``."""

    name = "resume"
    summary = "Go on after pause or drain"
    said = "Spider {spider} goes on: {workers} will begin pages again"


class Drain(_Tell):
    """``scrapy frontier drain SPIDER``."""

    name = "drain"
    summary = "Finish what is in hand, take no more"
    description = (
        "Have all workers do what they have in hand, with what is only in their memory, and take no more. "
        "They stay; after that, stop loses and repeats nothing. Go on with resume."
    )
    said = (
        "Spider {spider} is drained: {workers} will do what is in hand, and take no more. Go on: "
        "scrapy frontier resume {spider}"
    )


class Stop(_Tell):
    """``scrapy frontier stop SPIDER``."""

    name = "stop"
    summary = "Have every worker close cleanly"
    description = (
        "Have every worker that is alive now close, within two seconds and as after one Ctrl-C: it finishes "
        "its downloads and puts back the rest. Nothing is cleared, and workers that start later crawl on."
    )
    said = "Spider {spider}: {workers} will close. To resume the crawl, start workers again"


def _workers(count: int) -> str:
    if not count:
        return "no worker that is alive, but whoever starts,"
    return f"{count} worker" if count == 1 else f"{count} workers"
