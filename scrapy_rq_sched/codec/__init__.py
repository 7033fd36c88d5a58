"""Convert requests, seeds and settings from and to the form in which they are stored."""
