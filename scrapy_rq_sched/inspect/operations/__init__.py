"""Change a frontier: each change is an :class:`.operation.Operation`, for the commands and for the page.

A module has the operations of one subject. A function prepares one: it checks the arguments, and changes
nothing. Then the operation's ``plan()`` tells what it would do, and its ``do()`` does it.
"""
