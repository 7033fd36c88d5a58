"""The events of a fleet: read them, follow them, and send them to a webhook."""
