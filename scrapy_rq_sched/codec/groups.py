"""The groups of a request, ``meta["group"]``, and those for which it waits, ``meta["after"]``."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from typing import Any

from scrapy import Request

from .names import LONGEST_GROUP, names_of

#: The fields of ``meta``: the groups of a request; those that it has from the page that led to it; those for
#: which it waits; and those for which it has waited. Other code may use ``group`` and ``after`` for something
#: else, and must find them unchanged. So the other two have fields of their own.
GROUP, INHERITED, AFTER, WAITED = "group", "in_groups", "after", "waited_after"


def is_grouped(meta: dict[str, Any]) -> bool:
    """Return whether *meta* has anything to do with groups."""
    return GROUP in meta or INHERITED in meta or AFTER in meta


def groups_of(request: Request) -> frozenset[str]:
    """Return the names of the groups of *request*: its own; or if it names none, those of its page.

    :raises ValueError: if ``meta["group"]`` is neither a name, an int, None nor a list of these.
    """
    return _names(request.meta, GROUP if GROUP in request.meta else INHERITED)


def inherited_by(request: Request) -> frozenset[str]:
    """Return the groups that *request* has from the page that led to it; none if they are not valid."""
    try:
        return _names(request.meta, INHERITED)
    except ValueError:  # other code has changed them
        return frozenset()


def followed_by(request: Request) -> frozenset[str]:
    """Return the names of the groups that must finish before *request*; none if it has waited for them.

    :raises ValueError: if ``meta["after"]`` is neither a name, an int, None nor a list of these.
    """
    after = named_after(request)
    return frozenset() if after and request.meta.get(WAITED) == request.meta[AFTER] else after


def named_after(request: Request) -> frozenset[str]:
    """Return the names in ``meta["after"]``, also if *request* has waited for these groups.

    :raises ValueError: if it is neither a name, an int, None nor a list of these.
    """
    return _names(request.meta, AFTER)


def note_waited(request: Request) -> None:
    """Note that *request* has waited, so that its retries and redirects do not wait again."""
    if AFTER in request.meta:
        request.meta[WAITED] = copy(request.meta[AFTER])


def inherit(child: Request, parent: Request) -> None:
    """Put *child*, which a callback has yielded, into the groups of its page's request, *parent*.

    It stays out of the groups for which it waits. If it names its own groups, or None, it is in these only.
    """
    if child is parent:
        return
    # Of a copy of the page's meta.
    child.meta.pop(INHERITED, None)
    child.meta.pop(WAITED, None)
    if _has_own(child):
        return
    groups = groups_of(parent) if _has_own(parent) else inherited_by(parent)
    with suppress(ValueError):  # of a field that other code uses: the child waits for none
        groups -= named_after(child)
    if groups:
        child.meta[INHERITED] = sorted(groups)


def _has_own(request: Request) -> bool:
    """Return whether *request* names its own groups, or None."""
    try:
        _names(request.meta, GROUP)
    except ValueError:
        return False
    return GROUP in request.meta


def _is_number(value: Any) -> bool:
    """Return whether *value* is an integer, such as the number of an order."""
    return isinstance(value, int) and not isinstance(value, bool)


def _names(meta: dict[str, Any], field: str) -> frozenset[str]:
    value = meta.get(field)
    if value == "":
        return frozenset()
    values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    if any(map(_is_number, values)):
        values = [str(one) if _is_number(one) else one for one in values]
        return names_of({field: values}, field, LONGEST_GROUP)
    return names_of(meta, field, LONGEST_GROUP)
