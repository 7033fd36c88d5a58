"""A Scrapy project whose site is a link graph: no network, every visit on record."""
