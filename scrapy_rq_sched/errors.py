"""The exceptions of this package: a base class, and one class for each cause.

Each message names the problem, the object that it affects, and the remedy.
"""

from __future__ import annotations

import shlex
import traceback

#: The longest reason that is logged and stored, in characters.
LONGEST_REASON = 1000
#: The longest name from Redis that a message repeats, in characters.
LONGEST_NAME = 100


#: Characters that look like nothing or like a space, though ``str.isprintable()`` is true for them.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"


def escaped(text: str, kept: str = "") -> str:
    """Return *text* with invisible and control characters escaped, except *kept*.

    Names and texts from Redis may contain some. So two names that differ also look different.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in kept or (c.isprintable() and c not in _BLANK) else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode() if character in _BLANK else repr(character)[1:-1]


def one_line(text: object) -> str:
    """Return *text* as one printable line of limited length: *text* may quote untrusted data."""
    if isinstance(text, str) and len(text) <= LONGEST_REASON and text.isascii() and text.isprintable():
        return text  # as each fingerprint
    line = escaped(str(text)[:LONGEST_REASON])
    return line if len(str(text)) <= LONGEST_REASON else f"{line}…"


def bounded(name: str) -> str:
    """Return *name*, which Redis has, as one printable line for a message that also names other things."""
    return one_line(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")


def shown(value: object) -> str:
    """Return the ``repr()`` of *value* as one printable line, even if ``repr()`` raises."""
    try:
        return one_line(repr(value))
    except Exception as error:  # an int with too many digits, or an object of the user's
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"


def a_type(*types: type) -> str:
    """Return the names of *types* with their articles, such as ``a dict or a list``."""
    return " or ".join(_with_article(one.__name__) for one in types)


def _with_article(name: str) -> str:
    if name in ("NoneType", "bytes"):
        return name.removesuffix("Type")
    # An acronym such as UUID begins with the sound of a consonant.
    has_vowel = name[0] in "aeioAEIO" or (name[0] in "uU" and not name[:2].isupper())
    return f"{'an' if has_vowel else 'a'} {name}"


def named(error: BaseException | None) -> str:
    """Return the class and the message of *error*."""
    return f"{type(error).__name__}: {error}"


def counted(count: int, noun: str, plural: str = "", form: str = "") -> str:
    """Return *count* and its noun for the log: "1 worker", "2000 workers".

    :param plural: of the noun; by default, with an s.
    :param form: the format of the number.
    """
    return f"{count:{form}} {noun if count == 1 else plural or f'{noun}s'}"


def frontier_command(action: str, spider: str, *more: str) -> str:
    """Return the ``scrapy frontier`` command for *action* on *spider*, quoted for a shell.

    :param more: further arguments, which the caller has quoted.
    """
    return " ".join(("scrapy frontier", action, shlex.quote(spider), *more))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of *error* and of its causes, as text."""
    return "".join(traceback.format_exception(error))


def described(error: BaseException) -> tuple[str, str]:
    """Return a description of *error* (its class and message), and its traceback."""
    return named(error), traceback_of(error)


class FrontierError(Exception):
    """The base class of all exceptions that this package raises on purpose."""


class SettingError(FrontierError):
    """A setting has a value that is not valid."""


class FleetFullError(FrontierError):
    """The fleet has the maximum number of workers, and this worker must not wait for a place."""


class FleetFinishedError(FrontierError):
    """The crawl finished while this worker waited for a place in the fleet."""


class FleetStoppedError(FrontierError):
    """The fleet was told to stop while this worker waited for a place."""


class InterruptedInLineError(FrontierError):
    """This worker was told to end while it waited for a place in the fleet."""


class NotSentError(FrontierError):
    """A request that does not come from the frontier, as for a file, was not sent.

    Its site cannot be reached, or does not want to be asked for a while.
    """


class RedisUnreachableError(FrontierError):
    """Redis does not answer, or refuses this user."""


class RedisUnsuitableError(FrontierError):
    """Redis answers, but cannot hold this frontier."""


class FrontierMismatchError(FrontierError):
    """The settings of this worker do not match the frontier that it tried to join."""


class UnserializableRequestError(FrontierError):
    """A request contains a value that the serializer cannot store and restore unchanged."""


class UnserializableItemError(FrontierError):
    """The serializer of items cannot store an item."""


class ItemNotStoredError(FrontierError):
    """An item was not stored, because the spider had to close while Redis did not answer."""


class PayloadError(FrontierError):
    """An entry of the queue cannot be turned into a request."""


class UnknownCodeError(FrontierError):
    """A request or a seed needs code that this worker does not have. Another worker may have it."""


class UnknownCallbackError(UnknownCodeError):
    """A request or a seed names a callback that this worker's spider does not have."""


class UnknownClassError(UnknownCodeError):
    """A request has a class that this worker has not imported, or that is not a ``Request`` class."""


class SeedError(FrontierError):
    """A seed cannot be turned into a request."""


class InspectionError(FrontierError):
    """A command, or a call from a script, cannot be carried out on this frontier."""


class ScrapyInternalsError(FrontierError):
    """This version of Scrapy lacks a private name that the scheduler needs."""
