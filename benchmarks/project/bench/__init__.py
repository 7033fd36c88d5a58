"""The Scrapy project that is crawled by all contenders: a site, spiders that follow links, a meter."""
