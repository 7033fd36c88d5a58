"""The tests of Scrapy and of scrapy-redis themselves, run on this package."""
