"""A folder of HTML pages, served over HTTP on loopback: with a sitemap, a feed, and a gate."""

from __future__ import annotations

import posixpath
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

#: Where all of them begin.
INDEX = "index.html"


class Site:
    """Serves the ``*.html`` of *folder*, and counts how often each path is asked for.

    :param folder: may have folders in it.
    :param latency: seconds until an answer.
    """

    def __init__(self, folder: Path, latency: float) -> None:
        self.folder = folder
        self.latency = latency
        #: The path of each page.
        self.paths = sorted(f"/{page.relative_to(folder).as_posix()}" for page in folder.rglob("*.html"))
        #: No request is answered while this is closed.
        self.gate = threading.Event()
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.url = ""

    def reset(self) -> None:
        """Close the gate, and forget what was asked for."""
        self.gate.clear()
        self.asked = Counter()

    def answer(self, path: str) -> tuple[str, bytes]:
        """Return the type and the body of what is at *path*; no type if nothing is."""
        with self._lock:
            self.asked[path] += 1
        self.gate.wait()
        time.sleep(self.latency)
        if path == "/sitemap.xml":
            return "application/xml", self._sitemap()
        if path == "/feed.xml":
            return "application/xml", self._feed()
        file = self.folder / (INDEX if path == "/" else path[1:])
        inside = posixpath.normpath(path) == path
        return (
            ("text/html", file.read_bytes())
            if inside and file.suffix == ".html" and file.exists()
            else ("", b"")
        )

    def _sitemap(self) -> bytes:
        urls = "".join(f"<url><loc>{escape(self.url + path)}</loc></url>" for path in self.paths)
        return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'.encode()

    def _feed(self) -> bytes:
        pages = "".join(
            f"<item><title>{escape(path)}</title><link>{escape(self.url + path)}</link></item>"
            for path in self.paths
        )
        return f'<rss version="2.0"><channel><title>pages</title>{pages}</channel></rss>'.encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # As many may connect at the same moment: who is not let in tries again a second later.
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a worker was killed while it was answered


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], address: str = "127.0.0.1") -> Iterator[str]:
    """Give the URL of a server with this handler, which listens at *address*."""
    with _Server((address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def served(folder: Path, latency: float) -> Iterator[Site]:
    """Serve *folder*, with the gate closed."""
    site = Site(folder, latency)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, body = site.answer(urllib.parse.unquote(self.path.partition("?")[0]))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", f"{kind or 'text/plain'}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as site.url:
        try:
            yield site
        finally:
            site.gate.set()
