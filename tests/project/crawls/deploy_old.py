"""The spider of a rolling deployment, as it was before it."""

from __future__ import annotations

from .spiders import GraphSpider


class DeploySpider(GraphSpider):
    """Follows every link of the graph."""

    name = "deploy"
