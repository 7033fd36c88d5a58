"""The kind of an error: the reason without the parts that differ between requests."""

from __future__ import annotations

import re

#: Characters of a reason that are looked at.
LOOKED_AT = 500
#: A second part of a reason that belongs to the kind: the class of an exception, or a status.
_OF_KIND = re.compile(r"(\w+\.)*[A-Z]\w*|status \d{3}")
#: What differs: quoted text, which may have colons, and URLs; and numbers.
_QUOTED, _NUMBER = re.compile(r"(?<!\w)(['\"]).*\1(?!\w)|\w+://\S+"), re.compile(r"\b\d+(\.\d+)?\b")


def error_of(reason: str) -> str:
    """Return the kind of error of *reason*, the reason of an entry of the failed list.

    ``its download failed: DNSLookupError: …`` is of the kind ``its download failed: DNSLookupError``.
    """
    first, *others = _QUOTED.sub("…", reason[:LOOKED_AT]).split(": ", 2)
    kind = _NUMBER.sub("…", first)
    if others and _OF_KIND.fullmatch(others[0]):
        return f"{kind}: {others[0]}"
    return kind.removesuffix(":").strip()
