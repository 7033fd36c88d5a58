"""Select URLs by a pattern, or by a host."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..errors import InspectionError

#: Characters that no host name contains. A text with one of them is a URL, or a pattern.
_NOT_OF_A_HOST = frozenset("/?#@*% \t\r\n\\")


class Pattern:
    """A pattern for whole URLs, in which ``*`` stands for any text.

    It is not a regular expression, which could take very long with many ``*``.

    :param text: the pattern.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._first, *rest = text.split("*")
        self._last = rest.pop() if rest else None
        self._middle = [part for part in rest if part]

    def matches(self, url: str) -> bool:
        """Return whether *url* matches the pattern."""
        if self._last is None:
            return url == self._first
        position, end = len(self._first), len(url) - len(self._last)
        if not (url.startswith(self._first) and url.endswith(self._last) and position <= end):
            return False
        for part in self._middle:
            # The first match leaves the longest text for the remaining parts.
            found = url.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return True


class Host:
    """A host and all its subdomains.

    :param name: the host's name, such as ``example.com``, in upper or lower case.
    :raises InspectionError: if *name* is not a valid host name.
    """

    def __init__(self, name: str) -> None:
        # An IPv6 address has more than one colon; a single colon comes before a port.
        if not name.strip(".[]") or name.count(":") == 1 or _NOT_OF_A_HOST.intersection(name):
            raise InspectionError(f"{name!r} is not a valid host name. Use a name such as example.com")
        self.name = _normal(name.strip("[]"))

    def matches(self, url: str) -> bool:
        """Return whether *url* is a URL of this host or of a subdomain."""
        return self.name in domains_of(url)


def domains_of(url: str) -> list[str]:
    """Return the host of *url*, and all domains that it belongs to, as :class:`Host` names them."""
    try:
        host = _normal(urlsplit(url).hostname or "")
    except ValueError:
        return []
    domains = [host]
    while "." in host:
        host = host.partition(".")[2]
        domains.append(host)
    return domains


def matcher(text: str) -> Host | Pattern:
    """Return the host, or the pattern of whole URLs, that *text* stands for.

    :raises InspectionError: if *text* is neither.
    """
    return Pattern(text) if _NOT_OF_A_HOST.intersection(text) else Host(text)


def _normal(host: str) -> str:
    host = host.strip(".").lower()
    try:
        # Bücher.example and xn--bcher-kva.example are the same host.
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host
