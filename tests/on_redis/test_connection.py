"""From settings to a client; passwords that stay hidden; servers that will not do."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.errors import FrontierError, RedisUnreachableError, RedisUnsuitableError, SettingError
from scrapy_rq_sched.frontier import health
from scrapy_rq_sched.frontier.scripts import Script
from scrapy_rq_sched.runtime.outage import Outage
from scrapy_rq_sched.servers.addresses import show_address

from ..support.topologies import with_login

pytestmark = pytest.mark.single("its address")

SECRET = "s3cret"

each_setting_of_an_address = pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "redis://localhost:6379/0"),
        ({"REDIS_URL": "redis://example.com:6380/2"}, "redis://example.com:6380/2"),
        ({"REDIS_URL": "redis://example.com"}, "redis://example.com:6379/0"),
        ({"REDIS_URL": "rediss://example.com:6380/2"}, "rediss://example.com:6380/2"),
        ({"REDIS_URL": "unix:///run/redis.sock"}, "unix:///run/redis.sock"),
        ({"REDIS_URL": "redis://[::1]:6380/2"}, "redis://[::1]:6380/2"),
        ({"REDIS_HOST": "example.com"}, "redis://example.com:6379/0"),
        ({"REDIS_HOST": "example.com", "REDIS_PORT": 6380}, "redis://example.com:6380/0"),
        ({"REDIS_PORT": "6380", "REDIS_DB": "3"}, "redis://localhost:6380/3"),
        ({"REDIS_PARAMS": {"host": "example.com", "db": 1}}, "redis://example.com:6379/1"),
        ({"REDIS_PARAMS": '{"host": "example.com"}'}, "redis://example.com:6379/0"),
        ({"REDIS_PARAMS": {"host": "a"}, "REDIS_HOST": "b"}, "redis://b:6379/0"),
        ({"REDIS_URL": "redis://a/1", "REDIS_HOST": "b", "REDIS_DB": 2}, "redis://a:6379/1"),
    ],
)


def client_of(**settings: Any) -> redis.Redis:
    """Return a client as the scheduler makes it: what repeats a command is its loop."""
    return connection.get_client(Settings(settings), retry=connection.no_retry())


# -- which server ------------------------------------------------------------------------------------


@each_setting_of_an_address
def test_the_settings_say_where_redis_is(settings: dict[str, Any], expected: str) -> None:
    assert connection.address(client_of(**settings)) == expected


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({}, "socket_timeout", 5.0),
        ({}, "socket_connect_timeout", 3.0),
        ({"REDIS_URL": "redis://a"}, "socket_timeout", 5.0),
        ({"REDIS_PARAMS": {"socket_timeout": 1}}, "socket_timeout", 1),
        ({"REDIS_URL": "redis://a", "REDIS_PARAMS": {"socket_timeout": 1}}, "socket_timeout", 1),
        ({"REDIS_PARAMS": {"password": "p"}}, "password", "p"),
    ],
)
def test_parameters_have_defaults_that_the_user_can_change(
    settings: dict[str, Any], name: str, expected: Any
) -> None:
    assert client_of(**settings).connection_pool.connection_kwargs[name] == expected


ASKS_FOR_TEXT = {
    "url": lambda url: {"REDIS_URL": f"{url}?decode_responses=true"},
    "params": lambda url: {"REDIS_URL": url, "REDIS_PARAMS": {"decode_responses": True}},
    "setting": lambda url: {"REDIS_URL": url, "REDIS_DECODE_RESPONSES": "True"},
}


@pytest.mark.parametrize("how", ASKS_FOR_TEXT)
def test_the_replies_to_this_package_are_bytes_though_the_user_asks_for_text(
    redis_url: str, how: str
) -> None:
    client = client_of(**ASKS_FOR_TEXT[how](redis_url))
    assert client.echo("a") == b"a"


@pytest.mark.parametrize("how", ["params", "setting"])
def test_a_client_for_the_users_own_use_gives_text_if_asked_to(redis_url: str, how: str) -> None:
    client = connection.get_redis_from_settings(Settings(ASKS_FOR_TEXT[how](redis_url)))
    assert client.echo("a") == "a"


def test_a_decode_responses_that_is_no_switch_is_refused() -> None:
    with pytest.raises(SettingError, match="REDIS_DECODE_RESPONSES must be True or False, not 'perhaps'"):
        connection.get_redis_from_settings(Settings({"REDIS_DECODE_RESPONSES": "perhaps"}))


class OwnClient(redis.Redis):
    pass


@pytest.mark.parametrize("redis_cls", [OwnClient, f"{__name__}.OwnClient"], ids=["class", "path"])
@pytest.mark.parametrize("settings", [{}, {"REDIS_URL": "redis://a"}], ids=["host", "url"])
def test_the_class_of_the_client_may_be_the_users(settings: dict[str, Any], redis_cls: Any) -> None:
    assert type(client_of(**settings, REDIS_PARAMS={"redis_cls": redis_cls})) is OwnClient


def test_a_redis_behind_a_unix_socket_will_do(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        assert server.url.startswith("unix:///")
        assert health.check_server(client_of(REDIS_URL=server.url), "s:requests") == []


# -- bad settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@example.com",
        f"user:{SECRET}@example.com",
        f"redis:user:{SECRET}@example.com",
        f"redis://:{SECRET}@example.com:port/0",
        f"redis://:{SECRET}@example.com:99999999/0",
        f"redis://:{SECRET}@[::1",
        f"redis://:a/{SECRET}@example.com:6379/0",
        f"redis://:{SECRET}/b@example.com:6379/0",
        f"redis://:{SECRET}#b@example.com:6379/0",
        f"redis+sentinel://:{SECRET}@h1,h2",
        f"redis+sentinel://:{SECRET}@h1,h2/name/x",
        f"redis+sentinel://h1,h2/name/x?sentinel_password={SECRET}",
        f"redis+cluster://:{SECRET}@h1:7000,h2:7001/3",
        f"redis+cluster://:{SECRET}@h1:99999999",
        f"redis+sentinal://user:{SECRET}@h1,h2/name",
        f"redis://user:{SECRET}?b@example.com:6379/0",
        f"redis://user:{SECRET}]b@example.com:6379/0",
        f"redis://example.com:port/0?password={SECRET}",
        f"redis://example.com/0?socket_timeout=long&password={SECRET}",
    ],
)
def test_a_bad_url_is_refused_without_the_password_in_the_message(url: str) -> None:
    with pytest.raises(SettingError, match=r"REDIS_URL .* is not valid") as refusal:
        client_of(REDIS_URL=url)
    assert SECRET not in str(refusal.value)


def test_a_bad_url_is_refused_with_how_one_looks() -> None:
    with pytest.raises(SettingError, match=r"'http://example\.com'.*redis://host:6379/0"):
        client_of(REDIS_URL="http://example.com")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"REDIS_PARAMS": {"no_such_option": 1}}, "REDIS_PARAMS"),
        ({"REDIS_PARAMS": {"no_such_option": 1}, "REDIS_URL": "redis://127.0.0.1:1"}, "REDIS_PARAMS"),
        ({"REDIS_PARAMS": "not JSON"}, "REDIS_PARAMS"),
        ({"REDIS_PARAMS": "[1]"}, "REDIS_PARAMS"),
        ({"REDIS_PARAMS": {"redis_cls": "no.such.Class"}}, "redis_cls"),
        ({"REDIS_PORT": "port", "REDIS_HOST": "127.0.0.1"}, "REDIS_PORT"),
        ({"REDIS_URL": 5}, "REDIS_URL"),
    ],
    ids=["option", "option and url", "text", "list", "class", "port", "number"],
)
def test_a_bad_setting_is_refused_before_the_crawl_starts(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        health.check_server(client_of(**settings), "s:requests")


# -- passwords ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"redis://:{SECRET}@example.com:6380/2", "redis://:***@example.com:6380/2"),
        (f"redis://user:{SECRET}@example.com:6380/2", "redis://user:***@example.com:6380/2"),
        (f"rediss://user:{SECRET}@example.com:6380/2", "rediss://user:***@example.com:6380/2"),
        (f"redis://user:p@{SECRET}@example.com/2", "redis://user:***@example.com:6379/2"),
        (f"redis://user:p%2F{SECRET}@example.com/2", "redis://user:***@example.com:6379/2"),
        (f"redis://example.com/2?password={SECRET}", "redis://:***@example.com:6379/2"),
        (f"unix://user:{SECRET}@/run/redis.sock", "unix:///run/redis.sock"),
        (f"unix:///run/redis.sock?db=1&password={SECRET}", "unix:///run/redis.sock"),
        ("redis://user@example.com/2", "redis://***@example.com:6379/2"),
    ],
)
def test_an_address_has_no_password_in_it(url: str, expected: str) -> None:
    assert connection.address(connection.get_redis(url=url)) == expected


def test_the_address_of_a_client_hides_a_password_that_is_a_parameter() -> None:
    client = client_of(REDIS_PARAMS={"password": SECRET})
    assert connection.address(client) == "redis://:***@localhost:6379/0"


ERRORS: list[tuple[RedisError, str]] = [
    (RedisConnectionError("refused"), "cannot be reached"),
    (BusyLoadingError("loading"), "cannot be reached"),
    (RedisTimeoutError("slow"), "does not answer in time"),
    (AuthenticationError("WRONGPASS"), "refuses this user"),
    (NoPermissionError("NOPERM"), "refuses this user"),
    (ResponseError("WRONGTYPE"), "answers with an error"),
]


@pytest.mark.parametrize(("error", "said"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
@pytest.mark.parametrize(
    ("url", "where"),
    [
        (f"redis://:{SECRET}@example.com:1/0", "redis://:***@example.com:1/0"),
        (f"rediss://user:{SECRET}@example.com:1/0", "rediss://user:***@example.com:1/0"),
        (f"unix://user:{SECRET}@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_an_error_is_one_line_with_the_server_and_the_failure_and_no_password(
    url: str, where: str, error: RedisError, said: str
) -> None:
    line = connection.describe_error(connection.get_redis(url=url), error)
    assert line.startswith(f"Redis at {where} {said}")
    assert str(error) in line
    assert SECRET not in line
    assert "\n" not in line


SHA = "0f02c92508abd1d4d5d200b723db5f291b128d14"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            f"READONLY You can't write against a read only replica. script: {SHA}, on @user_script:12.",
            "READONLY You can't write against a read only replica",
        ),
        (f"WRONGTYPE Key 'a' is a list script: {SHA}, on @user_script:3.", "WRONGTYPE Key 'a' is a list"),
        ("WRONGTYPE Key 'a' is a list script: on @user_script:3.", "WRONGTYPE Key 'a' is a list"),
        (
            f"ERR user_script:1: attempt to call nil script: {SHA}, on @user_script:1.",
            "ERR user_script:1: attempt to call nil",
        ),
    ],
)
def test_the_addition_of_newer_servers_to_an_error_of_a_script_is_left_out(text: str, shown: str) -> None:
    line = connection.describe_error(connection.get_redis(), ResponseError(text))
    assert line == f"Redis at redis://localhost:6379/0 answers with an error: {shown}"


def test_an_error_of_a_script_shows_neither_its_hash_nor_two_full_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with PrivateRedis(tmp_path) as server:
        client = client_of(REDIS_URL=server.url)
        script = Script(client, b"return redis.call('SET', KEYS[1], 1)")
        script(["a"], [])
        client.replicaof("127.0.0.1", free_port())
        with pytest.raises(ResponseError) as error:
            script(["a"], [])
        Outage(client).failed(error.value, "it is tried again")
    (line,) = caplog.messages
    # Newer servers begin the error with its code, which redis-py then leaves out.
    assert line.replace("READONLY ", "") == (
        f"Redis at {server.url} answers with an error: You can't write against a read only replica. "
        "This has just begun; it is tried again"
    )


def test_a_password_that_was_set_meanwhile_is_said_to_be_missing(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        client = client_of(REDIS_URL=server.url, REDIS_PARAMS={"lib_name": None, "lib_version": None})
        script = Script(client, b"return redis.call('SET', KEYS[1], 1)")
        script(["a"], [])
        client.config_set("requirepass", SECRET)
        # As by a restart, or a break of the network.
        client.connection_pool.disconnect()
        with pytest.raises(RedisError) as error:
            script(["a"], list(range(20)))
    line = connection.describe_error(client, error.value)
    assert "unauthenticated multibulk length" in line
    assert line.startswith(f"Redis at {server.url} refuses this user: a password is required (")


# -- check_server ------------------------------------------------------------------------------------


def test_a_new_server_gets_no_warning(redis_url: str) -> None:
    assert health.check_server(client_of(REDIS_URL=redis_url), "s:requests") == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-ttl"])
def test_a_server_that_deletes_keys_gets_a_warning_with_its_policy(
    server: redis.Redis, redis_url: str, policy: str
) -> None:
    server.config_set("maxmemory-policy", policy)
    try:
        (warning,) = health.check_server(client_of(REDIS_URL=redis_url), "s:requests")
    finally:
        server.config_set("maxmemory-policy", "noeviction")
    assert f"Redis at {show_address(redis_url)} has maxmemory-policy {policy}:" in warning
    assert "noeviction" in warning


def test_a_redis_user_without_the_right_to_info_gets_a_warning(server: redis.Redis, redis_url: str) -> None:
    server.execute_command("ACL", "SETUSER", "limited", "on", f">{SECRET}", "~*", "+@all", "-info")
    try:
        url = with_login(redis_url, "limited", SECRET)
        (warning,) = health.check_server(client_of(REDIS_URL=url), "s:requests")
    finally:
        server.execute_command("ACL", "DELUSER", "limited")
    assert "INFO" in warning


def test_a_wrong_password_is_unreachable_and_not_shown(redis_url: str) -> None:
    url = with_login(redis_url, "somebody", SECRET)
    with pytest.raises(RedisUnreachableError, match="refuses this user") as refusal:
        health.check_server(client_of(REDIS_URL=url), "s:requests")
    assert SECRET not in str(refusal.value)


def test_a_port_without_a_server_is_unreachable_and_named() -> None:
    port = free_port()
    with pytest.raises(RedisUnreachableError) as refusal:
        health.check_server(client_of(REDIS_URL=f"redis://user:{SECRET}@127.0.0.1:{port}/3"), "s:requests")
    assert f"redis://user:***@127.0.0.1:{port}/3 cannot be reached" in str(refusal.value)


def test_a_socket_that_is_not_there_is_unreachable_and_named(tmp_path: Path) -> None:
    path = tmp_path / "no.sock"
    with pytest.raises(RedisUnreachableError, match=f"unix://{path} cannot be reached"):
        health.check_server(client_of(REDIS_URL=f"unix://{path}"), "s:requests")


Answer = Callable[[bytes], bytes]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve what *answer* says to each command, named by its first word; yield the URL."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while header := self.rfile.readline():
                words = []
                for _ in range(int(header[1:]) if header.startswith(b"*") else 0):
                    size = int(self.rfile.readline()[1:])
                    words.append(self.rfile.read(size + 2)[:-2])
                self.wfile.write(answer(words[0].upper() if words else b""))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join()


def redis_of(version: str) -> Answer:
    """Answer as a Redis of *version* does, from before HELLO if it is old enough."""

    def answer(command: bytes) -> bytes:
        if command == b"INFO":
            text = f"# Server\r\nredis_version:{version}\r\nmaxmemory_policy:noeviction\r\n".encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return {b"PING": b"+PONG\r\n", b"HELLO": b"-ERR unknown command 'HELLO'\r\n"}.get(command, b"+OK\r\n")

    return answer


@pytest.mark.parametrize("version", ["2.8.24", "5.0.14", "6.0.16", "6.1.240"])
def test_a_server_that_is_too_old_is_refused_with_its_version(version: str) -> None:
    with answering(redis_of(version)) as url, pytest.raises(RedisUnsuitableError) as refusal:
        health.check_server(client_of(REDIS_URL=url, REDIS_PARAMS={"protocol": 2}), "s:requests")
    assert (
        str(refusal.value) == f"Redis at {url} is version {version}, but 6.2 or newer is needed. Update Redis"
    )


@pytest.mark.parametrize("version", ["6.2.0", "6.10.1", "7.4.2", "10.0.0", "255.255.255"])
def test_a_server_that_is_new_enough_will_do(version: str) -> None:
    with answering(redis_of(version)) as url:
        assert health.check_server(client_of(REDIS_URL=url, REDIS_PARAMS={"protocol": 2}), "s:requests") == []


@pytest.mark.parametrize("version", ["5.0.14", "6.0.16"])
def test_a_server_that_is_too_old_for_the_clients_first_words_is_refused(version: str) -> None:
    # redis-py says HELLO first, which came with Redis 6.0: the error must still be one of ours.
    with answering(redis_of(version)) as url, pytest.raises(FrontierError, match=url):
        health.check_server(client_of(REDIS_URL=url), "s:requests")


@pytest.mark.parametrize(
    "reply",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail.example.com ESMTP\r\n", b"-ERR no\r\n", b"-LOADING\r\n"],
    ids=["a web server", "a mail server", "an error", "a server that is loading"],
)
def test_a_server_with_a_foreign_reply_is_unreachable_and_named(reply: bytes) -> None:
    with answering(lambda command: reply) as url, pytest.raises(RedisUnreachableError, match=url):
        health.check_server(client_of(REDIS_URL=url), "s:requests")


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"<!DOCTYPE HTML>\r\n"], ids=["HTTP", "HTML"]
)
def test_a_web_server_is_named_as_not_a_redis_server(reply: bytes) -> None:
    with answering(lambda command: reply) as url, pytest.raises(RedisUnreachableError) as refusal:
        health.check_server(client_of(REDIS_URL=url), "s:requests")
    assert str(refusal.value).startswith(f"Another program than Redis answers at {url} (")
    assert str(refusal.value).endswith("Check the host and port in REDIS_URL")


# -- repeating ---------------------------------------------------------------------------------------


def test_a_client_of_the_scheduler_does_not_repeat_a_command_by_itself() -> None:
    asked: list[bytes] = []

    def answer(command: bytes) -> bytes:
        asked.append(command)
        return b"+OK\r\n" if command != b"PING" else b"-LOADING not yet\r\n"

    with answering(answer) as url:
        client = client_of(REDIS_URL=url, REDIS_PARAMS={"protocol": 2})
        with pytest.raises(BusyLoadingError):
            client.ping()
    assert asked.count(b"PING") == 1


@pytest.mark.parametrize("failures", [1, 2, 5, 20, 2000])
def test_a_wait_between_attempts_is_never_longer_than_the_longest(failures: int) -> None:
    waits = [connection.backoff(2.0).compute(failures) for _ in range(50)]
    assert all(0 < wait <= 2.0 for wait in waits)


def test_waits_grow_and_differ_from_worker_to_worker() -> None:
    backoff = connection.backoff(60.0)
    first, later = ([backoff.compute(failures) for _ in range(20)] for failures in (1, 8))
    assert max(first) < min(later)
    assert len(set(later)) > 1


# -- several servers -------------------------------------------------------------------------------


def test_no_sentinel_is_one_line_without_its_password() -> None:
    port = free_port()
    client = client_of(REDIS_URL=f"redis+sentinel://127.0.0.1:{port}/name?sentinel_password={SECRET}")
    with pytest.raises(RedisUnreachableError) as error:
        health.check_server(client, "s:requests")
    assert str(error.value) == (
        f"Redis at redis+sentinel://127.0.0.1:{port}/name/0 is not known to any Sentinel, or no "
        "Sentinel answers. Check REDIS_URL"
    )


def test_no_node_of_a_cluster_is_one_line() -> None:
    port = free_port()
    client = client_of(REDIS_URL=f"redis+cluster://user:{SECRET}@127.0.0.1:{port}")
    with pytest.raises(RedisUnreachableError) as error:
        health.check_server(client, "s:requests")
    assert str(error.value).startswith(
        f"Redis at redis+cluster://user:***@127.0.0.1:{port} cannot be reached"
    )
    assert "\n" not in str(error.value)


def test_options_of_a_clusters_client_may_be_given() -> None:
    client = client_of(
        REDIS_URL="redis+cluster://127.0.0.1:7000",
        REDIS_HOST="elsewhere",
        REDIS_PARAMS={"max_connections": 5, "require_full_coverage": False},
    )
    assert connection.address(client) == "redis+cluster://127.0.0.1:7000"
    assert "host" not in client.given


def test_a_failed_command_is_not_logged_by_redis_py_as_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RedisConnectionError):
        client_of(REDIS_URL=f"redis://127.0.0.1:{free_port()}").ping()
    assert not [record for record in caplog.records if record.name.startswith("redis")]


@pytest.mark.single("a database of the number 0 is the only one of a Cluster")
def test_a_database_that_the_server_lacks_is_named_with_the_usual_ones(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as server:
        client = client_of(REDIS_URL=server.url.removesuffix("0") + "99")
        with pytest.raises(ResponseError) as error:
            client.ping()
        text = connection.describe_error(client, error.value)
    assert (
        "/99 has no database 99 (DB index is out of range). Choose a lower number in REDIS_URL or REDIS_DB: "
        in text
    )
    assert "a server has the databases 0 to 15" in text


def test_a_closed_connection_may_be_that_of_another_program() -> None:
    error = RedisConnectionError("Connection closed by server.")
    text = connection.describe_error(client_of(REDIS_URL="redis://127.0.0.1:6379"), error)
    assert text.endswith("that Redis is running, and that no other program answers there")
