"""The frontier in Redis, which the fleet shares, and the messages between it and a worker."""
