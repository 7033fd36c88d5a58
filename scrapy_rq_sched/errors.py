"""One root, one class a cause. Each message says what happened, to what, and what to do."""

from __future__ import annotations

import shlex
import traceback

#: Characters of a reason that are logged and kept.
LONGEST_REASON = 1000


def one_line(text: object) -> str:
    """Return *text* in one line of bounded length that can be sent: it may quote what somebody wrote."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text)[:LONGEST_REASON])
    # Half a character is not printable, so it is written as an escape by now.
    return line if len(str(text)) <= LONGEST_REASON else f"{line}…"


def shown(value: object) -> str:
    """Return *value* as one line that can be sent, whatever its ``repr()`` does."""
    try:
        return one_line(repr(value))
    except Exception as error:  # of an int with too many digits, or of an object of the user's
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"


def named(error: BaseException | None) -> str:
    """Return the class of *error* and its message."""
    return f"{type(error).__name__}: {error}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* and its noun: "1 worker", "2 workers"; *plural* if that is not *noun* with an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def frontier_command(action: str, spider: str, *more: str) -> str:
    """Return the command that does *action* to the frontier of *spider*, as a shell takes it.

    :param more: further arguments, as they are: whoever gives them has quoted them.
    """
    return " ".join(("scrapy frontier", action, shlex.quote(spider), *more))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of *error*, and of what caused it, as text."""
    return "".join(traceback.format_exception(error))


def described(error: BaseException) -> tuple[str, str]:
    """Return the class of *error* and its message, and its traceback."""
    return named(error), traceback_of(error)


class FrontierError(Exception):
    """The root of every error that this package raises on purpose."""


class SettingError(FrontierError):
    """A setting has a value that it may not have."""


class FleetFullError(FrontierError):
    """As many workers are at it as may be, and this one is not to wait."""


class FleetFinishedError(FrontierError):
    """The crawl was finished while this worker waited for a place in it."""


class FleetStoppedError(FrontierError):
    """The fleet was told to stop while this worker waited for a place in it."""


class InterruptedInLineError(FrontierError):
    """This worker was told to end while it waited for a place in its fleet."""


class RedisUnreachableError(FrontierError):
    """Redis does not answer, or does not let us in."""


class RedisUnsuitableError(FrontierError):
    """Redis answers, but this frontier cannot be kept in it."""


class FrontierMismatchError(FrontierError):
    """This worker is set up differently from the frontier that it was to join."""


class UnserializableRequestError(FrontierError):
    """A request holds something that the serializer cannot give back unchanged."""


class UnserializableItemError(FrontierError):
    """An item cannot be written by the serializer of items."""


class ItemNotStoredError(FrontierError):
    """An item is not in Redis, because the spider had to close while Redis did not answer."""


class PayloadError(FrontierError):
    """An entry of the queue cannot be turned back into a request."""


class UnknownCodeError(FrontierError):
    """A request or a seed needs code that this worker does not have; another one may."""


class UnknownCallbackError(UnknownCodeError):
    """A request or a seed names a callback that this worker's spider does not have."""


class UnknownClassError(UnknownCodeError):
    """A request is of a class that this worker has not imported, or that is none of a request."""


class SeedError(FrontierError):
    """A seed cannot be turned into a request."""


class InspectionError(FrontierError):
    """What was asked for from outside cannot be done to this frontier."""


class ScrapyInternalsError(FrontierError):
    """This Scrapy lacks a private name that the scheduler needs."""
