"""Programs that the Makefile runs, and no tests."""
