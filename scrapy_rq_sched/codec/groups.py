"""The groups of a request, ``meta["group"]``, and those for which it waits, ``meta["after"]``."""

from __future__ import annotations

from typing import Any

from scrapy import Request

from .names import names_of

#: The fields of ``meta``. The groups that a request has from the page that led to it have their own field:
#: other code may use ``group`` for something else, and must find it unchanged.
GROUP, INHERITED, AFTER = "group", "in_groups", "after"


def groups_of(request: Request) -> frozenset[str]:
    """Return the names of the groups of *request*.

    :raises ValueError: if ``meta["group"]`` is neither a name, an int nor a list of these.
    """
    return _names(request.meta, GROUP) | inherited_by(request)


def inherited_by(request: Request) -> frozenset[str]:
    """Return the groups that *request* has from the page that led to it.

    :raises ValueError: if other code has changed them.
    """
    return _names(request.meta, INHERITED)


def followed_by(request: Request) -> frozenset[str]:
    """Return the names of the groups that must finish before *request*.

    :raises ValueError: if ``meta["after"]`` is neither a name, an int nor a list of these.
    """
    return _names(request.meta, AFTER)


def inherit(child: Request, parent: Request) -> None:
    """Put *child*, which a callback has yielded, into the groups of its page's request, *parent*, too.

    It stays out of the groups for which it waits. ``meta["group"] = None`` keeps it out of all.

    :raises ValueError: if the groups of one of them are not valid.
    """
    if GROUP in child.meta and child.meta[GROUP] is None:
        child.meta.pop(INHERITED, None)  # of a copy of the page's meta
        return
    if groups := groups_of(parent) - followed_by(child):
        child.meta[INHERITED] = sorted(groups)
    else:
        child.meta.pop(INHERITED, None)


def _names(meta: dict[str, Any], field: str) -> frozenset[str]:
    value = meta.get(field)
    values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    if any(isinstance(one, int) and not isinstance(one, bool) for one in values):
        # Such as the number of an order.
        values = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in values]
        return names_of({field: values}, field)
    return names_of(meta, field)
