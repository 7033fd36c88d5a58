"""The groups of a request, ``meta["group"]``, and those for which it waits, ``meta["after"]``."""

from __future__ import annotations

from typing import Any

from scrapy import Request

from .names import names_of

#: The fields of ``meta``.
GROUP, AFTER = "group", "after"


def groups_of(request: Request) -> frozenset[str]:
    """Return the names of the groups of *request*.

    :raises ValueError: if ``meta["group"]`` is neither a name nor a list of names.
    """
    return names_of(request.meta, GROUP)


def followed_by(request: Request) -> frozenset[str]:
    """Return the names of the groups that must finish before *request*.

    :raises ValueError: if ``meta["after"]`` is neither a name nor a list of names.
    """
    return names_of(request.meta, AFTER)


def inherit(child: Request, parent: dict[str, Any]) -> None:
    """Put *child*, which a callback has yielded, into the groups of its page, whose ``meta`` is *parent*.

    It stays out of the groups for which it waits. ``meta["group"] = None`` keeps it out of all.

    :raises ValueError: if the groups of one of them are not valid.
    """
    if GROUP in child.meta and child.meta[GROUP] is None:
        return
    inherited = names_of(parent, GROUP) - followed_by(child)
    groups = inherited | groups_of(child)
    if inherited:
        child.meta[GROUP] = sorted(groups) if len(groups) > 1 else min(groups)
