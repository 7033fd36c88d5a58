"""Stands for the packages on PyPI that build on scrapy-redis, such as scrapy-redis-bloomfilter."""
