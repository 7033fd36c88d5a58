"""A spider middleware that the scheduler adds by itself, once it crawls a request of a group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from scrapy import Request
from scrapy.http import Response

from ..codec.groups import inherit


class GroupInheritance:
    """Puts the requests that a callback yields into the groups of its page."""

    def process_spider_output(
        self, response: Response, result: Iterable[Any], spider: Any = None
    ) -> Iterator[Any]:
        """Yield what the callback of *response* has yielded."""
        for one in result:
            yield self._with_groups(response, one)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any], spider: Any = None
    ) -> AsyncIterator[Any]:
        """Yield what the callback of *response* has yielded."""
        async for one in result:
            yield self._with_groups(response, one)

    def _with_groups(self, response: Response, one: Any) -> Any:
        if isinstance(one, Request) and response.request is not None:
            inherit(one, response.request)
        return one
