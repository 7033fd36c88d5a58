"""What needs neither Redis nor a process."""
