"""What happens to a fleet: how it is read, followed, and sent to a webhook."""
