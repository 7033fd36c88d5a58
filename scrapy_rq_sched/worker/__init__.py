"""One worker's state and timing, without Redis and without Scrapy's private names."""
