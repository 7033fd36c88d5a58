"""The Lua scripts: one file for each atomic step of the frontier, and the modules that they use."""
