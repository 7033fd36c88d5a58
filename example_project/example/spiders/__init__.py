"""The project's spiders; Scrapy finds them through SPIDER_MODULES."""
