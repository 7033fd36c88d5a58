"""Several ``scrapy crawl`` of one machine, watched: what ``scrapy frontier crawl`` is made of."""
