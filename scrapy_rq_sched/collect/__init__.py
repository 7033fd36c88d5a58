"""The transport of items and statistics to Redis."""
