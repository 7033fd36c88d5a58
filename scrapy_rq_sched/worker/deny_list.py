"""The deny-list: hosts and patterns of URLs of which no worker begins a request, by an operator's command."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..codec.patterns import Host, Pattern, domains_of, matcher
from ..errors import InspectionError, one_line
from ..frontier.messages import Batch
from ..frontier.replies import Part, Reply

logger = logging.getLogger(__name__)


class DenyList(Part):
    """The deny-list that the frontier has told this worker.

    :param stats: Scrapy's statistics collector; ``frontier/denied`` counts the refused requests.
    :ivar changed: called when the list has changed.
    """

    def __init__(self, stats: Any) -> None:
        self._stats = stats
        self._version = ""
        self._matchers: dict[str, Host | Pattern] = {}
        self._hosts: frozenset[str] = frozenset()
        self._patterns: tuple[Pattern, ...] = ()
        self.changed: Callable[[], None] = lambda: None

    def refuses(self, url: str) -> bool:
        """Return whether no request of *url* may begin, and count it if so."""
        is_of_host = bool(self._hosts) and not self._hosts.isdisjoint(domains_of(url))
        is_denied = is_of_host or any(pattern.matches(url) for pattern in self._patterns)
        if is_denied:
            self._stats.inc_value("frontier/denied")
        return is_denied

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.denied = self._version

    def applied(self, reply: Reply) -> None:
        """Note a new list."""
        if reply.denied is None:
            return
        self._version, texts = reply.denied
        before, self._matchers = self._matchers, {}
        for text in texts:
            try:
                self._matchers[text] = matcher(text)
            except InspectionError as error:  # another program may have written it
                logger.error("An entry of the deny-list is ignored: %s", one_line(error))
        entries = self._matchers.values()
        self._hosts = frozenset(one.name for one in entries if isinstance(one, Host))
        self._patterns = tuple(one for one in entries if isinstance(one, Pattern))
        for text in self._matchers.keys() - before.keys():
            logger.info("Denied by an operator: this worker begins no request of %s", one_line(text))
        for text in before.keys() - self._matchers.keys():
            logger.info("Allowed by an operator again: %s", one_line(text))
        self.changed()
