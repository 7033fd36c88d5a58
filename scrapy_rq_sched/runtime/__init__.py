"""The environment of a worker: background threads, its name, its retries when Redis does not answer."""
