"""One line in ``ADDONS`` sets everything."""

from __future__ import annotations

from scrapy.settings import BaseSettings

from .feeds import URI_PARAMS

FAILED_DOWNLOADS = "scrapy_rq_sched.failures.FailedDownloads"


class Addon:
    """``ADDONS = {"scrapy_rq_sched.Addon": 500}`` sets the scheduler and the dupefilter.

    What the project or the spider sets itself has precedence.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Set what is needed in *settings*, with the priority of add-ons."""
        settings.set("SCHEDULER", "scrapy_rq_sched.Scheduler", "addon")
        settings.set("DUPEFILTER_CLASS", "scrapy_rq_sched.RFPDupeFilter", "addon")
        # So that %(worker)s may be in the URI of a feed.
        settings.set("FEED_URI_PARAMS", URI_PARAMS, "addon")
        # Switched off unless FRONTIER_SET_ASIDE has "download".
        settings["DOWNLOADER_MIDDLEWARES"].set(FAILED_DOWNLOADS, 10, "addon")
