"""``scrapy frontier dashboard``: where it listens, and when it refuses to."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.commands.dashboard import is_loopback

from ..support.crawl import PROJECT, run_python, wait_until
from .filled import push, worker

pytestmark = pytest.mark.single("the workers here have the keys of a single server")


class Served:
    """A dashboard that is served by a process of its own."""

    def __init__(
        self, log: Path, redis_url: str, *arguments: str, descriptors: int = 0, **environment: str
    ) -> None:
        self.log = log
        limited = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"] if descriptors else []
        command = [*limited, sys.executable, "-m", "scrapy", "frontier", "dashboard", "--port", "0"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *arguments],
                cwd=PROJECT,
                env={**os.environ, "REDIS_URL": redis_url, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        wait_until(lambda: "Ctrl-C" in self.said() or self.process.poll() is not None, 30)
        (url,) = re.findall(r"http://\S+/", self.said())
        return str(url)

    @property
    def link(self) -> str:
        """The address with the token."""
        assert self.url
        (link,) = re.findall(r"http://\S+/\?token=\S+", self.said())
        return str(link)

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10)


@pytest.fixture
def served(tmp_path: Path, redis_url: str) -> Iterator[list[Served]]:
    """Those that a test has started: none outlives it."""
    started: list[Served] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.wait()


def refused(redis_url: str, *arguments: str, **environment: str) -> str:
    done = run_python("-m", "scrapy", "frontier", "dashboard", *arguments, redis_url=redis_url, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_one_command_serves_the_page_and_ctrl_c_ends_it(
    tmp_path: Path, redis_url: str, server: redis.Redis, served: list[Served]
) -> None:
    push(worker(server, "graph"), {"a.example": 5})
    one = Served(tmp_path / "log", redis_url)
    served.append(one)
    assert one.url.startswith("http://127.0.0.1:")
    assert "read-only" in one.said()
    assert one.get("")[0] == 200
    status, body = one.get("api/v1/status?spider=graph")
    assert (status, json.loads(body)["frontier"]["status"]["waiting"]) == (200, 5)
    with socket.create_connection(("127.0.0.1", int(one.url.split(":")[2][:-1]))) as following:
        # Who follows does not keep it from ending.
        following.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert following.recv(100).startswith(b"HTTP/1.1 200")
        assert one.stop() == 0
    assert one.said().count("\n") == 1, one.said()


def test_a_password_is_asked_for_if_there_is_one(
    tmp_path: Path, redis_url: str, served: list[Served]
) -> None:
    one = Served(tmp_path / "log", redis_url, "--host", "0.0.0.0", FRONTIER_DASHBOARD_PASSWORD="secret-words")
    served.append(one)
    local = one.url.replace("0.0.0.0", "127.0.0.1")
    port = local.rsplit(":", 1)[1]
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(local, timeout=10)
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer secret-words"}
    )
    assert urllib.request.urlopen(request, timeout=10).status == 200
    assert "secret-words" not in one.said()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "crawls.example"])
def test_without_a_password_no_other_machine_may_reach_it(redis_url: str, host: str) -> None:
    said = refused(redis_url, "--host", host)
    assert f"Other machines can reach {host}" in said
    assert "Set FRONTIER_DASHBOARD_PASSWORD, or leave --host at 127.0.0.1" in said


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_a_loopback_address_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_port_that_is_taken_is_said(redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(redis_url, "--port", str(port))
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use. Choose another" in said


@pytest.mark.parametrize("host", ["x" * 70 + ".example", "a..b"])
def test_a_host_that_is_none_is_said(redis_url: str, host: str) -> None:
    said = refused(redis_url, "--host", host, FRONTIER_DASHBOARD_PASSWORD="secret-word")
    assert f"cannot listen on {host}, port 8000: " in said


def test_a_missing_package_is_one_line(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError('no', name='starlette')")
    said = refused(redis_url, PYTHONPATH=str(tmp_path))
    assert "pip install 'scrapy-rq-sched[dashboard]'" in said


def test_an_import_without_the_extra_is_an_import_error(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError('no', name='starlette')")
    code = "import scrapy_rq_sched.dashboard"
    done = run_python("-c", code, redis_url="redis://127.0.0.1:1", PYTHONPATH=str(tmp_path))
    assert "ImportError: The dashboard needs starlette and uvicorn" in done.stderr
