"""The private server of a host's workers: the first starts it, it is gone with the last, its data stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_rq_sched import connection
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.servers import shared as local_server
from scrapy_rq_sched.servers import watchdog as server_watch

from ..support.crawl import is_alive, wait_until

pytestmark = pytest.mark.single("a server of its own")

#: A process that uses the server until its standard input ends; it says what it counts to.
USER = """
import sys
from scrapy_rq_sched.connection import get_redis
client = get_redis(url="embedded://" + sys.argv[1])
print(client.incr("count"), client.info("server")["process_id"], flush=True)
for line in sys.stdin:
    print(client.incr("count"), client.info("server")["process_id"], flush=True)
"""


class Users:
    """Processes that use the server in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(user)
        return user

    def stop(self, user: subprocess.Popen[str], sent: signal.Signals | None = None) -> None:
        if sent is not None:
            user.send_signal(sent)
        assert user.stdin
        user.stdin.close()
        user.wait(10)

    def wait_until_it_is_gone(self, server: int) -> None:
        wait_until(lambda: not is_alive(server), message="the server ends")


def said(user: subprocess.Popen[str]) -> tuple[int, int]:
    """Return what the user has counted to, and the server's process."""
    assert user.stdout
    count, server = user.stdout.readline().split()
    return int(count), int(server)


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    users = Users(tmp_path / "data")
    yield users
    for user in users.processes:
        if user.poll() is None:
            users.stop(user, signal.SIGKILL)
    wait_until(lambda: not server_watch.is_held(str(users.folder), server_watch.WATCH), message="all is gone")


def test_the_first_starts_it_the_others_join_and_it_is_gone_with_the_last(users: Users) -> None:
    first, second = users.start(), users.start()
    (one, server), (two, same) = sorted([said(first), said(second)])
    assert (one, two, server) == (1, 2, same)
    users.stop(first)
    assert is_alive(server)
    users.stop(second)
    users.wait_until_it_is_gone(server)


def test_of_many_that_start_at_once_one_starts_it(users: Users) -> None:
    said_by_all = [said(user) for user in [users.start() for _ in range(6)]]
    assert sorted(count for count, _ in said_by_all) == [1, 2, 3, 4, 5, 6]
    assert len({server for _, server in said_by_all}) == 1


def test_it_is_gone_with_the_last_also_if_that_was_killed(users: Users) -> None:
    user = users.start()
    _, server = said(user)
    users.stop(user, signal.SIGKILL)
    users.wait_until_it_is_gone(server)


def test_its_data_stay(users: Users) -> None:
    user = users.start()
    count, server = said(user)
    users.stop(user)
    # It may be about to end: who comes now waits for that, and starts another.
    assert said(users.start()) > (count, 0)
    users.wait_until_it_is_gone(server)


def test_a_server_that_was_killed_is_started_again(users: Users) -> None:
    user = users.start()
    _, server = said(user)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not is_alive(server))
    assert said(users.start())[1] != server


@pytest.mark.long
def test_a_server_with_a_killed_watch_ends_with_its_last_user_all_the_same(users: Users) -> None:
    user = users.start()
    _, server = said(user)
    stat = Path(f"/proc/{server}/stat").read_text()
    watch = int(stat.split(")")[-1].split()[1])
    os.kill(watch, signal.SIGKILL)
    wait_until(lambda: not is_alive(watch))
    another = users.start()
    assert said(another)[1] == server
    users.stop(user)
    users.stop(another)
    users.wait_until_it_is_gone(server)


@pytest.mark.long
def test_a_server_that_is_busy_is_not_taken_for_one_that_is_gone(users: Users) -> None:
    first = users.start()
    _, server = said(first)
    watch = int(Path(f"/proc/{server}/stat").read_text().split(")")[-1].split()[1])
    os.kill(watch, signal.SIGKILL)
    second = users.start()  # its watch has not started the server itself
    said(second)
    # Newer servers refuse DEBUG SLEEP.
    os.kill(server, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(server, signal.SIGCONT)
    assert said(users.start())[1] == server


def test_a_process_that_was_stopped_while_it_looked_keeps_no_other_from_its_work(users: Users) -> None:
    user = users.start()
    said(user)
    with server_watch.lock(str(users.folder), server_watch.START, 1):
        assert user.stdin
        user.stdin.write("\n")
        user.stdin.flush()
        assert said(user)[0] == 2


def test_a_lock_that_another_holds_for_too_long_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "START_TIMEOUT", 0.05)
    client = connection.get_redis(url=f"embedded://{tmp_path}/data")
    (tmp_path / "data").mkdir()
    held = server_watch.lock(f"{tmp_path}/data", server_watch.START, 1)
    with held, pytest.raises(connection.RedisError) as error:
        client.ping()
    assert "is locked by another process" in connection.describe_error(client, error.value)


def test_the_files_of_the_server_are_closed_to_other_users(users: Users) -> None:
    users.folder.mkdir(mode=0o755)
    said(users.start())
    assert {path.stat().st_mode & 0o077 for path in users.folder.iterdir()} == {0}


def test_the_folder_of_the_server_is_closed_to_other_users(users: Users) -> None:
    said(users.start())
    assert users.folder.stat().st_mode & 0o077 == 0


def test_a_folder_with_too_long_a_path_is_refused_with_one_line() -> None:
    with pytest.raises(SettingError, match=r"too long for a socket.*at most 9\d bytes"):
        connection.get_redis(url="embedded:///" + "x" * 100)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    client = connection.get_redis(url=f"embedded://{tmp_path}/file/data")
    with pytest.raises(connection.RedisError) as error:
        client.ping()
    assert "Not a directory" in connection.describe_error(client, error.value)
    assert str(tmp_path) in connection.describe_error(client, error.value)


@pytest.mark.parametrize("url", ["embedded://", "embedded:///data?db=1"])
def test_an_address_without_a_folder_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="it must name a folder"):
        connection.get_redis(url=url)


def test_a_folder_that_is_not_absolute_is_refused_with_one_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as refusal:
        connection.get_redis(url="embedded://redis")
    assert str(refusal.value).startswith(
        "REDIS_URL 'embedded://redis' is not valid: the folder must be an absolute path, such as "
        f"embedded://{tmp_path}/redis. "
    )
    assert list(tmp_path.iterdir()) == []


def test_a_child_does_not_wait_for_the_lock_of_its_parent() -> None:
    with local_server._one_at_a_time:
        child = os.fork()
        if child == 0:
            os._exit(0 if local_server._one_at_a_time.acquire(timeout=1) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
