"""``scrapy frontier dashboard``: a web page to watch and to control crawls."""

from __future__ import annotations

import argparse
import ipaddress
import os
import secrets
import socket
from typing import Any
from urllib.parse import quote

from ..errors import InspectionError
from .action import Action, Context

HOST, PORT = "127.0.0.1", 8000
#: Seconds that open streams have to end after Ctrl-C.
FAREWELL = 2


class Dashboard(Action):
    """``scrapy frontier dashboard [SPIDER]``."""

    name = "dashboard"
    summary = "Serve a web page to watch crawls, and to control them"
    description = (
        "Serve a web page, and its JSON API, that shows how crawls stand: all of them, or that of one "
        "spider. With --actions, the page can also control them, after a login: with "
        "FRONTIER_DASHBOARD_PASSWORD, or else by the printed link. Only this machine can reach it, unless "
        "--host is given and FRONTIER_DASHBOARD_PASSWORD is set. Ctrl-C ends it."
    )
    examples = (
        "scrapy frontier dashboard",
        "scrapy frontier dashboard quotes --port 8080 --actions",
    )
    spider = "optional"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the address it listens on, and its rights."""
        parser.add_argument("--host", default=HOST, help=f"the address to listen on (default: {HOST})")
        parser.add_argument(
            "--port", type=_port, default=PORT, help=f"the port to listen on (default: {PORT}; 0: any)"
        )
        parser.add_argument("--actions", action="store_true", help="let the page control crawls, too")
        parser.add_argument(
            "--allowed-host",
            action="append",
            default=[],
            metavar="NAME",
            help="a host name by which browsers may open it (may be repeated); needed behind a proxy",
        )
        parser.add_argument(
            "--open-metrics", action="store_true", help="serve /metrics, for Prometheus, without a login"
        )
        parser.add_argument(
            "--logs",
            metavar="FOLDER",
            help="show the last lines of the workers' logs on this machine that are below FOLDER",
        )
        parser.add_argument(
            "--root-path", default="", metavar="PATH", help="the path at which a proxy serves it"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Serve it until Ctrl-C.

        :raises InspectionError: if that would be unsafe, or is impossible.
        """
        try:
            import uvicorn

            from ..dashboard import create_app
            from ..dashboard.app import below, password_of
            from ..dashboard.connections import ACCEPTED_AT_ONCE, Connections, Server, most_connections
            from ..dashboard.guard import LOOPBACK
            from ..dashboard.login import weakness
            from ..dashboard.stream import MOST as MOST_STREAMS
        except ImportError as error:
            raise InspectionError(
                "The dashboard needs starlette and uvicorn, which are not installed. Install them: "
                "pip install 'scrapy-rq-sched[dashboard]'"
            ) from error
        if opts.logs and not os.path.isdir(opts.logs):
            context.output.warn(f"--logs: there is no folder {opts.logs!r} yet, so no log is shown")
        password = password_of(context.settings)
        if not is_loopback(opts.host) and not password:
            raise InspectionError(
                f"Other machines can reach {opts.host}, and the dashboard has no password. Set "
                f"FRONTIER_DASHBOARD_PASSWORD, or leave --host at {HOST}"
            )
        # Any program on this machine can send requests, also a worker with a hostile seed.
        token = secrets.token_urlsafe(32) if opts.actions and not password else ""
        most = most_connections()
        connections: Any = Connections(most)  # which makes protocols, as a class does
        app = create_app(
            context.settings,
            spider=opts.spider,
            redis_key=context.redis_key,
            actions=opts.actions,
            token=token,
            allowed_hosts=[*LOOPBACK, _in_a_url(opts.host), *opts.allowed_host],
            open_metrics=opts.open_metrics,
            is_closing=lambda: server.should_exit,
            # The others are for requests.
            max_streams=min(MOST_STREAMS, most // 2),
            logs=opts.logs,
        )
        config: Any = uvicorn.Config(
            below(app, opts.root_path),
            # Any client could fill the log with the warnings, of invalid requests.
            log_level="error",
            access_log=False,
            server_header=False,
            # Without a proxy, any program on this machine could choose its address in the audit list.
            proxy_headers=bool(opts.allowed_host or opts.root_path),
            # As newer versions of uvicorn do by themselves: the address on which it listens may be ::1.
            forwarded_allow_ips=os.environ.get("FORWARDED_ALLOW_IPS") or ["127.0.0.1", "::1"],
            timeout_graceful_shutdown=FAREWELL,
            # The bound on connections is for these implementations.
            loop="asyncio",
            http=connections,
            ws="none",
            backlog=ACCEPTED_AT_ONCE,
        )
        server = Server(config)
        context.warn_of_broken_files()
        with _listen(opts.host, opts.port) as listening:
            port = listening.getsockname()[1]
            # A proxy opens it to other machines, too.
            behind = opts.allowed_host or ([opts.root_path] if opts.root_path.strip("/") else [])
            public = behind if is_loopback(opts.host) else [opts.host]
            if public and password and (weak := weakness(password)):
                context.output.warn(
                    f"Other machines can reach {public[0]}, and FRONTIER_DASHBOARD_PASSWORD {weak}. Choose a "
                    "better one, such as 20 random characters"
                )
            # With the path of the proxy: cookies belong to it.
            path = opts.root_path.strip("/")
            url = f"http://{_in_a_url(opts.host)}:{port}/{quote(f'{path}/') if path else ''}"
            if token:
                how = "actions are allowed; the link is the login, until the end, so keep it secret"
            elif opts.actions:
                how = "actions are allowed"
            else:
                how = "read-only; --actions lets it control crawls"
            link = f"{url}?token={token}" if token else url
            try:
                context.output.say(f"The dashboard is at {link} ({how}). Ctrl-C ends it")
                server.run(sockets=[listening])
            except KeyboardInterrupt:
                return


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach *host*."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _in_a_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError, TypeError) as error:  # the latter two: not a host name
        number = getattr(error, "errno", None) or 0
        why = os.strerror(number) if number > 0 else str(error)
        raise InspectionError(
            f"The dashboard cannot listen on {host}, port {port}: {why}. Choose another with --host or --port"
        ) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer from 0 to 65535")
    return int(text)
