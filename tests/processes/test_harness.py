"""What the tests stand on: servers that start and end, and processes that are forked."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched import embedded
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.errors import FrontierError

from ..support import reaper
from ..support.crawl import PROJECT, is_alive, run_python, wait_until
from ..support.forked import ForkedScrapy

#: A test that starts a server, says which process it is and where its socket is, and then waits for ever.
ENDLESS = """
import time
from pathlib import Path

def test_it(private_redis):
    text = f"{private_redis.process.pid} {private_redis.path.parent}\\n"
    Path(__file__).with_name("server").write_text(text)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_tests_that_are_stopped_leave_no_server_behind(tmp_path: Path, sent: signal.Signals) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    conftest = Path(__file__).parents[2]
    (tmp_path / "conftest.py").write_text(f"import sys; sys.path.insert(0, {str(conftest)!r})\n")
    unmarked = {name: value for name, value in os.environ.items() if name != reaper.MARK}
    command = ["-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, *command], cwd=tmp_path, env={**unmarked, "PYTHONPATH": str(conftest)}
    ) as tests:
        said = tmp_path / "server"
        wait_until(lambda: said.exists() and said.read_text().endswith("\n"), message="the server starts")
        server, folder = said.read_text().split()
        assert is_alive(int(server))
        tests.send_signal(sent)
    wait_until(lambda: not is_alive(int(server)), message="the server ends")
    shutil.rmtree(folder)


def test_a_server_takes_another_port_if_its_own_was_taken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with PrivateRedis(tmp_path, port=0) as server, redis.Redis.from_url(server.url) as client:
            assert server.port != taken.getsockname()[1]
            assert client.ping()


def test_a_server_is_not_taken_for_another_that_has_its_port(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as first:
        second = PrivateRedis(tmp_path, port=first.port)
        with pytest.raises(
            FrontierError, match=rf"on port {first.port} did not start: it ended with exit code \d+ "
        ):
            second.start()


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"no dump")
    with pytest.raises(
        FrontierError, match=r"it ended with exit code \d+ \(.*(?:RDB|format|signature|Fatal).*\)"
    ):
        PrivateRedis(tmp_path).start()


def test_a_server_keeps_its_port_once_its_url_was_read(tmp_path: Path) -> None:
    server = PrivateRedis(tmp_path, port=0)
    url = server.url
    with server, redis.Redis.from_url(url) as client:
        assert client.ping()


def test_a_forked_scrapy_is_as_one_that_starts_by_itself() -> None:
    code = "import os, sys; print(os.getcwd(), sys.argv[1:], os.environ['REDIS_URL'])"
    options = ("shell", "--nolog", "-c", f"exec({code!r})")
    forked = run_python("-m", "scrapy", *options, redis_url="redis://here:1/0")
    # A variable that Python reads as it starts keeps it from being forked.
    started = run_python("-m", "scrapy", *options, redis_url="redis://here:1/0", PYTHONDONTWRITEBYTECODE="1")
    assert (forked.returncode, forked.stdout, forked.stderr) == (0, started.stdout, started.stderr)
    assert str(PROJECT) in forked.stdout


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_forked_scrapy_is_ended_by_signals_as_others_are(tmp_path: Path, sent: signal.Signals) -> None:
    log = tmp_path / "log"
    log.touch()
    code = "import time; print('ready', flush=True); time.sleep(600)"
    process = ForkedScrapy(
        ("shell", "--nolog", "-c", f"exec({code!r})"), PROJECT, dict(os.environ), (os.devnull, log, log)
    )
    wait_until(lambda: "ready" in log.read_text())
    process.send_signal(sent)
    assert process.wait(10) == -sent
