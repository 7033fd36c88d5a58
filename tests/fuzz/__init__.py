"""Fuzzing of every entry: what others write to Redis, to files and to the page's API.

``python -m tests.fuzz`` fuzzes for an hour, ``tests/fuzz/test_smoke.py`` for some seconds.
"""
