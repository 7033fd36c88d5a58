"""What runs under a worker: its thread, its name, its patience with Redis."""
