"""The log messages of a worker."""
