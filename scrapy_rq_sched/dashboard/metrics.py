"""The metrics for Prometheus at ``/metrics``: behind the dashboard's login, unless they are open to all."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Executor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .. import connection
from ..errors import InspectionError
from ..inspect import View, find_frontiers
from ..metrics.exposition import as_openmetrics, require_library
from ..metrics.snapshots import Snapshots

logger = logging.getLogger(__name__)

#: The path below the dashboard's own path.
PATH = "/metrics"
MEDIA_TYPE = "application/openmetrics-text; version=1.0.0"
#: Seconds to wait for Redis.
PATIENCE = 2.0


class MetricsPage:
    """Answers with the metrics of all frontiers, or of one spider. All clients of one second get the same.

    :param settings: Scrapy's settings.
    :param spider: the only spider to show; by default, all spiders are shown.
    :param executor: provides the threads that wait for Redis.
    """

    def __init__(self, settings: Any, spider: str | None, executor: Executor) -> None:
        self._settings = settings
        self._spider = spider
        self._executor = executor
        self._lock = threading.Lock()
        self._snapshots: Snapshots | None = None

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in the OpenMetrics format."""
        try:
            require_library()
        except InspectionError as error:
            raise HTTPException(501, str(error)) from error
        text = await asyncio.get_running_loop().run_in_executor(self._executor, self._text)
        return Response(text, media_type=MEDIA_TYPE)

    def _text(self) -> str:
        with self._lock:
            if self._snapshots is None:
                # A separate client, since Snapshots closes connections that it no longer needs.
                server = connection.get_impatient_client(self._settings, PATIENCE)
                self._snapshots = Snapshots(
                    self._views, server, logger.warning, are_named=self._spider is not None
                )
        return as_openmetrics(self._snapshots.latest())

    def _views(self) -> list[View]:
        if self._spider is not None:
            return [View.from_settings(self._settings, self._spider)]
        return list(find_frontiers(self._settings))
