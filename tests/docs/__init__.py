"""What the documentation says, tried."""
