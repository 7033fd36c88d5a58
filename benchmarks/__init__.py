"""Programs that measure; nothing here is run by the tests."""
