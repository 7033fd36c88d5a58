"""Make clients from addresses, and run private servers."""
