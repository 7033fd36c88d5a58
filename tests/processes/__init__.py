"""What needs real processes, most of them workers, on a real Redis."""
