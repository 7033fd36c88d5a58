"""A project on scrapy-redis, as one finds them: three spiders, a pipeline, a dupefilter, statistics."""
