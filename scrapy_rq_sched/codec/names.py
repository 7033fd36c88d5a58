"""Names that users give to things of theirs in ``meta``, and as they stand in Redis."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import unquote

from .slots import slot_name


def as_names(value: Any) -> frozenset[str]:
    """Return the names in *value*: a name, or a list, tuple or set of names.

    :raises ValueError: if it is anything else, or if a name is too long for a key.
    """
    names = [value] if isinstance(value, str) else value
    is_valid = isinstance(names, (list, tuple, set, frozenset)) and all(
        isinstance(name, str) and name.strip() and "~" not in slot_name(name) for name in names
    )
    if not is_valid:
        raise ValueError(f"must be a name or a list of names, not {value!r}")
    return frozenset(name.strip() for name in names)


def names_of(meta: dict[str, Any], field: str) -> frozenset[str]:
    """Return the names in *field* of ``meta``; none if it lacks the field.

    :raises ValueError: if it is neither a name nor a list of names.
    """
    value = meta.get(field)
    try:
        return as_names(value) if value is not None else frozenset()
    except ValueError as error:
        raise ValueError(f'meta["{field}"] {error}') from None


def joined(names: Collection[str]) -> str:
    """Return *names* as one name in Redis, in alphabetical order with ``|`` between them."""
    return "|".join(sorted(map(slot_name, names)))


def names_in(name: str) -> frozenset[str]:
    """Return the names in what :func:`joined` returns, as the user gave them."""
    return frozenset(map(unquote, filter(None, name.split("|"))))


def shown(names: Iterable[str]) -> str:
    """Return *names* as text for a message, such as ``'browser' and 'gpu'``."""
    texts = sorted(map(repr, names))
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 2 else texts)
