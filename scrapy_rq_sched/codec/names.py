"""Names that users give to things of theirs in ``meta``, and as they stand in Redis."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import quote, unquote

from .slots import SAFE

#: The longest name of a need, and of a group, in characters as they stand in Redis: names of needs are in
#: keys. And how many names a list may have.
LONGEST, LONGEST_GROUP, MOST = 200, 1000, 50


def quoted(name: str) -> str:
    """Return *name* as it stands in Redis: printable ASCII, without a space, a bar or a ``#``."""
    return quote(name, safe=SAFE, errors="surrogatepass").replace("~", "%7E")


def as_names(value: Any, longest: int = LONGEST) -> frozenset[str]:
    """Return the names in *value*: a name, or a list, tuple or set of names.

    :param longest: how many characters a name may have in Redis.
    :raises ValueError: if it is anything else; or if a name is too long, or if there are too many.
    """
    names = [value] if isinstance(value, str) else value
    is_valid = isinstance(names, (list, tuple, set, frozenset)) and all(
        isinstance(name, str) and name.strip() for name in names
    )
    if not is_valid:
        raise ValueError(f"must be a name or a list of names, not {reprlib.repr(value)}")
    if len(names) > MOST:
        raise ValueError(f"must have at most {MOST} names, not {len(names)}")
    if any(len(quoted(name)) > longest for name in names):
        raise ValueError(
            f"must have names of at most {longest} characters, of which one that is not ASCII counts as "
            f"several, not {reprlib.repr(value)}"
        )
    return frozenset(name.strip() for name in names)


def names_of(meta: dict[str, Any], field: str, longest: int = LONGEST) -> frozenset[str]:
    """Return the names in *field* of ``meta``; none if it lacks the field.

    :param longest: how many characters a name may have in Redis.
    :raises ValueError: if it is neither a name nor a list of names.
    """
    value = meta.get(field)
    try:
        return as_names(value, longest) if value is not None else frozenset()
    except ValueError as error:
        raise ValueError(f'meta["{field}"] {error}') from None


def joined(names: Collection[str]) -> str:
    """Return *names* as one name in Redis, in alphabetical order with ``|`` between them."""
    return "|".join(sorted(map(quoted, names)))


def names_in(name: str) -> frozenset[str]:
    """Return the names in what :func:`joined` returns, as the user gave them."""
    # The name of a lane may end with that of a pool: see pools.py.
    return frozenset(
        f"pool {unquote(one[1:])}" if one.startswith("~") else unquote(one) for one in name.split("|") if one
    )


def shown(names: Iterable[str]) -> str:
    """Return *names* as text for a message, such as ``'browser' and 'gpu'``."""
    texts = sorted(map(repr, names))
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 2 else texts)
