"""Whole crawls under faults: each scenario does one thing to a fleet, and a referee counts what it cost.

``python -m tests.chaos`` plays them in their long form, ``tests/chaos/test_chaos.py`` in their short one.
"""
