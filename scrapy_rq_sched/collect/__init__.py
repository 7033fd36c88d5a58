"""Items and statistics on their way to Redis."""
