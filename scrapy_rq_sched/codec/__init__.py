"""Requests, seeds and values, as they are stored."""
