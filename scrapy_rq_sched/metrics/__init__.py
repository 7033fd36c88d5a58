"""Metrics of whole fleets, read from Redis, for ``scrapy frontier metrics``.

One exporter serves all workers, because their common state is in Redis. Only ``exposition.py`` uses
``prometheus_client``.
"""
