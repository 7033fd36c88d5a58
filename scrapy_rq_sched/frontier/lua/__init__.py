"""The atomic steps of the frontier, one a Lua file, and the queue disciplines they are built on."""
