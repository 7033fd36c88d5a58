"""A Scrapy project whose spiders share one frontier in Redis."""
