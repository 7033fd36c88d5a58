"""What the fleet shares: the frontier in Redis, and the messages that go there and back."""
