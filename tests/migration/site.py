"""The shop that both crawl: categories, products, reviews; every link has another session number."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CATEGORIES, PRODUCTS = 6, 30


def page(path: str, session: int) -> str:
    """Return the page at *path*, or nothing."""
    found = re.fullmatch(r"/(?:(category|product|reviews)/(\d+))?(?:\?.*)?", path)
    if not found:
        return ""
    kind, number = found[1], int(found[2] or 0)

    def links(kind: str, numbers: Iterable[int]) -> str:
        return "".join(f'<a href="/{kind}/{n}?sid={session}">{kind} {n}</a>' for n in numbers)

    if kind is None:
        return f"<h1>The shop</h1>{links('category', range(CATEGORIES))}"
    if kind == "category":
        others = links("category", (n % CATEGORIES for n in range(number + 1, number + 3)))
        return f"<h1>Category {number}</h1>{others}{links('product', range(number, PRODUCTS, CATEGORIES))}"
    if kind == "product":
        return (
            f"<h1> Product {number} </h1><span class=price>{number + 0.5}</span>"
            f"{links('category', [number % CATEGORIES])}"
        )
    return f"<h1>Reviews</h1>{''.join(f'<li>review {n} of {number}</li>' for n in range(number % 4))}"


@contextmanager
def shop() -> Iterator[str]:
    """Serve the shop; yield its address."""
    sessions = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(self.path, next(sessions)).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
