"""The attributes of scrapy-redis's scheduler, under the same names: settings that can be read and set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scrapy.settings import Settings

from ..assembly.dupefilter import dupefilter_class
from ..serializers import load_serializer
from ..settings import FrontierSettings


class _Attribute:
    """An attribute for a field of the scheduler's settings.

    :param field: the name of the field.
    :param setting: a value must pass the check of this setting.
    """

    def __init__(self, field: str, setting: str) -> None:
        self._field = field
        self._setting = setting

    def __get__(self, scheduler: Any, owner: type) -> Any:
        return self if scheduler is None else getattr(scheduler.settings, self._field)

    def __set__(self, scheduler: Any, value: Any) -> None:
        given = {self._setting: value, "FRONTIER_JOB": scheduler.settings.job}
        checked = getattr(FrontierSettings.from_settings(Settings(given)), self._field)
        scheduler.settings = replace(scheduler.settings, **{self._field: checked})


class SchedulerAttributes:
    """The settings that scrapy-redis's scheduler has as attributes. Set them before ``open``.

    A value that is not valid for the setting raises :class:`~scrapy_rq_sched.errors.SettingError`.
    """

    crawler: Any
    settings: FrontierSettings
    _dupefilter_cls: Any = None

    #: ``SCHEDULER_PERSIST``
    persist = _Attribute("persist", "SCHEDULER_PERSIST")
    #: ``SCHEDULER_FLUSH_ON_START``
    flush_on_start = _Attribute("flush_on_start", "SCHEDULER_FLUSH_ON_START")
    #: ``SCHEDULER_IDLE_BEFORE_CLOSE``
    idle_before_close = _Attribute("idle_before_close", "SCHEDULER_IDLE_BEFORE_CLOSE")
    #: ``SCHEDULER_QUEUE_CLASS``
    queue_cls = _Attribute("queue_class", "SCHEDULER_QUEUE_CLASS")
    #: ``SCHEDULER_QUEUE_KEY``, a template
    queue_key = _Attribute("queue_key", "SCHEDULER_QUEUE_KEY")
    #: ``SCHEDULER_DUPEFILTER_KEY``, a template
    dupefilter_key = _Attribute("dupefilter_key", "SCHEDULER_DUPEFILTER_KEY")

    @property
    def dupefilter_cls(self) -> Any:
        """``DUPEFILTER_CLASS``, a class or its path; the shared filter if the project has not set it."""
        if self._dupefilter_cls is not None:
            return self._dupefilter_cls
        return dupefilter_class(self.crawler.settings)

    @dupefilter_cls.setter
    def dupefilter_cls(self, value: Any) -> None:
        self._dupefilter_cls = value

    @property
    def serializer(self) -> Any:
        """The object with ``dumps`` and ``loads`` of ``SCHEDULER_SERIALIZER``."""
        return load_serializer(self.settings.serializer)

    @serializer.setter
    def serializer(self, value: Any) -> None:
        self.settings = replace(self.settings, serializer=load_serializer(value))
