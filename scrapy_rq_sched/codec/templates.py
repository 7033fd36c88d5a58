"""Check the templates of keys in settings, which may contain the names of the spider and the job."""

from __future__ import annotations

import re
from typing import Any

from ..errors import SettingError
from .lists import as_list

_TEMPLATE = re.compile(r"(?:[^%]|%%|%\((?:spider|name|job)\)s)+")


def is_template(value: Any) -> bool:
    """Return whether *value* is a valid template: text in which ``%`` is only for the spider or the job."""
    return isinstance(value, str) and bool(value.strip() and _TEMPLATE.fullmatch(value))


def templates_of_seeds(name: str, value: Any, job: str) -> tuple[str, ...]:
    """Return the templates of one or several keys of seeds.

    :param name: the setting's name, for the error.
    :raises SettingError: if a template is not valid.
    """
    several: tuple[Any, ...] = ()
    if isinstance(value, (str, list, tuple)):  # a set has no order
        several = tuple(as_list(value))
    if not several or not all(map(is_template, several)) or len(set(several)) < len(several):
        raise SettingError(
            f"{name} must be a key such as '%(name)s:start_urls', or a list of different keys, not {value!r}"
        )
    for template in several:
        check_job(name, template, job)
    return several


def check_job(name: str, template: str, job: str) -> None:
    """Check that a job is set, if *template* contains it.

    :param name: the setting's name, for the error.
    :raises SettingError: if no job is set.
    """
    if "%(job)s" in template and not job:
        raise SettingError(
            f"{name} is {template!r}, but this crawl has no job. Set FRONTIER_JOB, or the environment "
            "variable SCRAPY_JOB, to the same name for all workers"
        )
