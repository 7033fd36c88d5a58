"""From an address to a client, and the private servers."""
