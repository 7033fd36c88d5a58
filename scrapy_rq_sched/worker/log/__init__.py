"""What a worker says in its log."""
