"""Which URLs are meant: by a pattern, or by a host."""

from __future__ import annotations

import re
from urllib.parse import urlsplit


class Pattern:
    """URLs like *text*, in which ``*`` stands for anything, and all else for itself."""

    def __init__(self, text: str) -> None:
        self._match = re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL).fullmatch

    def matches(self, url: str) -> bool:
        """Return whether *url* is meant."""
        return self._match(url) is not None


class Host:
    """URLs of the host called *name*, and of its subdomains."""

    def __init__(self, name: str) -> None:
        self._name = name.lower().strip(".")

    def matches(self, url: str) -> bool:
        """Return whether *url* is meant."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:  # no host can be read from it
            return False
        return host == self._name or host.endswith(f".{self._name}")
