"""Requests to the dashboard without a server, and what is wrong with an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .oracle import Complaint, crash, one_line_faults, printable_faults

#: Seconds until an answer, on a loaded machine.
PATIENCE = 60.0
HOST = ("host", "127.0.0.1:8000")


class Answer(NamedTuple):
    """The answer of an application; or the error that came out of it, and what was logged."""

    status: int
    kind: str
    body: bytes
    error: BaseException | None
    logged: list[str]


class _Logged(logging.Handler):
    """Keeps what is logged, as a line of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def answered(
    app: Any,
    path: str,
    query: str = "",
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (HOST,),
    body: bytes = b"",
) -> Answer:
    """Return what *app* answers.

    :param query: :param headers: as a server passes them on, in Latin-1.
    """
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": query.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("192.0.2.7", 5000),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[dict[str, Any]] = []
    # A server passes on a body in parts.
    parts = [body[:10], body[10:]]
    brought = [{"type": "http.request", "body": part, "more_body": n == 0} for n, part in enumerate(parts)]

    async def receive() -> dict[str, Any]:
        if brought:
            return brought.pop(0)
        await asyncio.sleep(PATIENCE)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    handler, root = _Logged(), logging.getLogger("scrapy_rq_sched")
    root.addHandler(handler)
    error: BaseException | None = None
    try:
        await asyncio.wait_for(app(scope, receive, send), PATIENCE)
    except Exception as raised:
        error = raised
    finally:
        root.removeHandler(handler)
    begins = [message for message in sent if message["type"] == "http.response.start"]
    kinds = [value.decode() for one in begins for name, value in one["headers"] if name == b"content-type"]
    status = begins[0]["status"] if begins else 0
    whole = b"".join(message.get("body", b"") for message in sent)
    return Answer(status, "".join(kinds), whole, error, handler.lines)


def answer_faults(answer: Answer, path: str) -> Iterator[Complaint]:
    """Yield what is wrong with *answer*."""
    place = f"answer of {path}"
    if answer.error is not None:
        yield crash(answer.error, path)
        return
    for line in answer.logged:
        first, _, rest = line.partition("\nTraceback")
        if rest:
            where = [row for row in rest.split("\n") if "scrapy_rq_sched" in row][-1:]
            yield Complaint(
                f"a traceback of {path}: {rest.rstrip().rpartition(chr(10))[2][:60]} {where}", line[-2000:]
            )
        yield from one_line_faults(first, "log of the page")
    if answer.status >= 500 and answer.status != 503:
        yield Complaint(f"status {answer.status} of {path}", answer.body[:1000].decode(errors="replace"))
    if "json" not in answer.kind:
        return
    try:
        said = json.loads(answer.body, parse_constant=_refuse)
    except ValueError as error:
        yield Complaint(f"no JSON in the {place}", f"{error}: {answer.body[:500]!r}")
        return
    yield from printable_faults(answer.body.decode(), place)
    if answer.status >= 400:
        text = said.get("error") if isinstance(said, dict) else None
        if not isinstance(text, str):
            yield Complaint(f"no error in the {place}", answer.body[:500].decode())
        elif "\n" in text:
            yield Complaint(f"more than one line in the error of {path}", text[:500])
        elif "bug in scrapy-rq-sched" in text:
            yield Complaint(f"an unexpected error of {path}", text)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
