"""What needs a real Redis."""
