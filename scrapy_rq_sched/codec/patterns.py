"""Which URLs are meant: those that a pattern matches, or those of a host."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..errors import InspectionError

#: What is in no host's name: whoever writes it means a URL, or a pattern.
_NOT_OF_A_HOST = frozenset("/?#@*% \t\r\n\\")


class Pattern:
    """A pattern of whole URLs: ``*`` stands for anything, all else for itself.

    No regular expression: with many a ``*`` that could take for ever.

    :param text: the pattern.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._first, *rest = text.split("*")
        self._last = rest.pop() if rest else None
        self._middle = [part for part in rest if part]

    def matches(self, url: str) -> bool:
        """Return whether *url* is one of those."""
        if self._last is None:
            return url == self._first
        position, end = len(self._first), len(url) - len(self._last)
        if not (url.startswith(self._first) and url.endswith(self._last) and position <= end):
            return False
        for part in self._middle:
            # The first place that is right leaves the most for the others.
            found = url.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return True


class Host:
    """A host and all its subdomains.

    :param name: such as ``example.com``; upper and lower case are the same.
    :raises InspectionError: if it cannot be a host's name.
    """

    def __init__(self, name: str) -> None:
        # More than one colon is an address of IPv6; one is a port.
        if not name.strip(".[]") or name.count(":") == 1 or _NOT_OF_A_HOST.intersection(name):
            raise InspectionError(f"{name!r} is not a valid host name. Use a name such as example.com")
        self.name = _normal(name.strip("[]"))

    def matches(self, url: str) -> bool:
        """Return whether *url* is of this host; what is no URL is of none."""
        try:
            host = _normal(urlsplit(url).hostname or "")
        except ValueError:
            return False
        return host == self.name or host.endswith(f".{self.name}")


def _normal(host: str) -> str:
    host = host.strip(".").lower()
    try:
        # Bücher.example is the same as xn--bcher-kva.example.
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host
