"""A module that is imported, and makes what it is asked for."""

from .record import record


def __getattr__(name):
    if not name.startswith("__"):
        record("sprung", f"__getattr__ of a module: {name}")
    raise AttributeError(name)
