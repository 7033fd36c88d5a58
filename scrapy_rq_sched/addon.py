"""The add-on: one line in ``ADDONS`` sets up the scheduler and the dupefilter."""

from __future__ import annotations

from scrapy.settings import BaseSettings

FAILED_DOWNLOADS = "scrapy_rq_sched.failures.FailedDownloads"


class Addon:
    """Sets the scheduler and the dupefilter: ``ADDONS = {"scrapy_rq_sched.Addon": 500}``.

    Settings of the project and of the spider have precedence.
    """

    def __repr__(self) -> str:
        # Scrapy logs the add-ons when a crawl starts.
        return f"scrapy_rq_sched.{type(self).__name__}"

    def update_settings(self, settings: BaseSettings) -> None:
        """Set the necessary *settings*, with the priority of add-ons."""
        settings.set("SCHEDULER", "scrapy_rq_sched.Scheduler", "addon")
        settings.set("DUPEFILTER_CLASS", "scrapy_rq_sched.RFPDupeFilter", "addon")
        # Disables itself unless FRONTIER_SET_ASIDE contains "download".
        settings["DOWNLOADER_MIDDLEWARES"].set(FAILED_DOWNLOADS, 10, "addon")
