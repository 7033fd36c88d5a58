"""Run several ``scrapy crawl`` on one machine: the implementation of ``scrapy frontier crawl``."""
