"""Metrics of whole fleets, read from Redis: what is behind ``scrapy frontier metrics``.

One exporter serves all workers, since what they have in common is in Redis. Only ``exposition.py`` knows the
library that writes the text.
"""
