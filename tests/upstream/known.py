"""The upstream tests that fail, each with the reason."""

_DEFAULTS = "It compares Scrapy's default settings with a list, and this run has changed them."
_QUEUES = "It looks into the queues of Scrapy's own scheduler, which this one does not have."
_MOCKS = "It gives a Mock for the settings or the server, and expects the calls of scrapy-redis's own code."
_BASE = "It makes an instance of Base, which is abstract here."
_LENIENT = "setup_redis() does not check these values."

_START_QUEUES = "It sets a queue class for start requests, which only Scrapy's own scheduler has."
#: Of Scrapy's own tests, with this package's scheduler as the default.
SCRAPY = {
    "test_addons.TestAddonManager.test_fallback_workflow": _DEFAULTS,
    "test_settings.__init__.test_default_settings_all": _DEFAULTS,
    "test_engine_close_spider.test_exception_scheduler": _QUEUES,
    "test_scheduler.test_unserializable_requests": (
        "It expects the words with which Scrapy warns of a request that cannot be written to JOBDIR."
    ),
    "test_engine_loop.TestRequestSendOrder.test_lifo_start": _START_QUEUES,
    "test_engine_loop.TestRequestSendOrder.test_shared_queues": _START_QUEUES,
}
#: Of scrapy-redis's own tests, with its name replaced by this package's.
SCRAPY_REDIS = {
    "test_connection.TestGetRedis.test_custom_class": _MOCKS,
    "test_connection.TestGetRedis.test_from_url": _MOCKS,
    "test_connection.TestFromSettings.test_redis_cls_custom_path": _MOCKS,
    "test_connection.TestFromSettings.test_default_params": _MOCKS,
    "test_connection.TestFromSettings.test_override_default_params": _MOCKS,
    "test_dupefilter.TestRFPDupeFilter.test_clear_deletes": "It expects DEL, and UNLINK does the same.",
    "test_dupefilter.TestRFPDupeFilter.test_close_calls_clear": (
        "A worker that closes must not delete the fingerprints of the others."
    ),
    "test_dupefilter.TestFromMethods.test_from_settings": _MOCKS,
    "test_dupefilter.TestFromMethods.test_from_crawler": _MOCKS,
    "test_package_import.test_package_metadata": "It expects __author__ in the package.",
    "test_queue.TestBaseQueue.test_encode_decode_requests": _BASE,
    "test_queue.TestBaseQueue.test_custom_serializer": _BASE,
    "test_scrapy_redis.SchedulerTest.test_scheduler_persistent": (
        "It expects a line in the spider's log. The line of this package has its own logger and words."
    ),
    "test_spiders.TestRedisMixin_setup_redis.test_requires_redis_key": _LENIENT,
    "test_spiders.TestRedisMixin_setup_redis.test_invalid_batch_size": _LENIENT,
    "test_spiders.TestRedisMixin_setup_redis.test_invalid_idle_time": _LENIENT,
    "test_spiders.TestRedisMixin_setup_redis.test_via_from_crawler": _MOCKS,
    "test_spiders.test_consume_urls_from_redis": (
        "It calls start_requests(), which Scrapy 2.13 replaced by start(). The scheduler reads the seeds."
    ),
}
