"""An address is shown without its secrets, however it is written."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.codec.setting_reader import SettingReader
from scrapy_rq_sched.errors import FrontierError, SettingError
from scrapy_rq_sched.feeds import remarks
from scrapy_rq_sched.inspect.doctor import examine
from scrapy_rq_sched.servers import addresses, topology

SECRET = "s3cret-w0rd"

#: Addresses with a mistake, or in an unusual form, as they occur in a shell, in an env file, or in settings.
ODD = [
    # Space, quotation marks and line breaks, as env files and copying give them
    f" redis://:{SECRET}@h:1/0",
    f"redis://:{SECRET}@h:1/0 ",
    f"\tredis://user:{SECRET}@h:1/0",
    f"\nredis://user:{SECRET}@h:1/0",
    f"redis://user:{SECRET}@h:1/0\n",
    f"\r\nredis://user:{SECRET}@h:1/0",
    f'"redis://user:{SECRET}@h:1/0"',
    f"'redis://user:{SECRET}@h:1/0'",
    f'"redis://user:{SECRET}@h:1/0',
    f"`redis://user:{SECRET}@h:1/0`",
    f"\u201credis://user:{SECRET}@h:1/0\u201d",
    f"redis://user:{SECRET}@h:1/0;",
    f"<redis://user:{SECRET}@h:1/0>",
    f"REDIS_URL=redis://user:{SECRET}@h:1/0",
    f"export REDIS_URL='redis://user:{SECRET}@h:1/0'",
    f"redis ://user:{SECRET}@h:1/0",
    f"redis: //user:{SECRET}@h:1/0",
    f"redis://user: {SECRET}@h:1/0",
    f"redis://us er:{SECRET}@h:1/0",
    f"redis://user:a {SECRET}@h:1/0",
    f"redis://user:'{SECRET}'@h:1/0",
    f'redis://user:"{SECRET}"@h:port/0',
    f"redis://user:a\n{SECRET}@h:1/0",
    f"redis://user:a\x00{SECRET}@h:1/0",
    f"redis://user:a\x1b[31m{SECRET}@h:1/0",
    f"\ufeffredis://user:{SECRET}@h:1/0",
    f"\u200bredis://user:{SECRET}@h:1/0",
    f"\u00a0redis://user:{SECRET}@h:1/0",
    f"redis\uff1a//user:{SECRET}@h:1/0",
    # Scheme
    f"//user:{SECRET}@h:1/0",
    f"://user:{SECRET}@h:1/0",
    f"user:{SECRET}@h:1/0",
    f":{SECRET}@h:1/0",
    f"{SECRET}@h:1",
    f"{SECRET}://h:1",
    f"redis:/user:{SECRET}@h:1/0",
    f"redis:user:{SECRET}@h:1/0",
    f"redis:///user:{SECRET}@h:1/0",
    f"redis:////user:{SECRET}@h:1/0",
    f"redis:\\\\user:{SECRET}@h:1/0",
    f"REDIS://user:{SECRET}@h:1/0",
    f"Redis://user:{SECRET}@h:1/0",
    f"redis+tls://user:{SECRET}@h:1/0",
    f"valkey://user:{SECRET}@h:1/0",
    f"http://user:{SECRET}@h",
    f"mysql://user:{SECRET}@h",
    f"redis://redis://user:{SECRET}@h:1/0",
    f"tcp://{SECRET}@h:1",
    # Login
    f"redis://{SECRET}@h:1/0",
    f"redis://{SECRET}:@h:1/0",
    f"redis://user%3A{SECRET}@h:1/0",
    f"redis://user%3A{SECRET}:b@h:port/0",
    f"redis://user%3A{SECRET}%40h:1/0@h:port",
    f"redis://user:a@{SECRET}@h:port/0",
    f"redis://user:a/{SECRET}@h:1/0",
    f"redis://user:{SECRET}/b@h:1/0",
    f"redis://user:{SECRET}?b@h:1/0",
    f"redis://user:{SECRET}#b@h:1/0",
    f"redis://user:{SECRET}]b@h:1/0",
    f"redis://user:{SECRET}[b@h:1/0",
    f"redis://user:b\\{SECRET}@h:1/0",
    f"redis://user:caf\u00e9{SECRET}@h:port/0",
    f"redis://user:{SECRET}",
    f"redis://user:{SECRET}/0",
    f"redis://:{SECRET}",
    # Host and port
    f"redis://user:{SECRET}@[::1",
    f"redis://user:{SECRET}@::1]:1/0",
    f"redis://user:{SECRET}@[::1]:port/0",
    f"redis://user:{SECRET}@h:99999999/0",
    f"redis://h:{SECRET}/0",
    f"redis://h:1:{SECRET}/0",
    f"redis://a:b@h1,user:{SECRET}@h2:port",
    f"redis://h1:1,user:{SECRET}@h2:port",
    # Options
    f"redis://h:port/0?password={SECRET}",
    f"redis://h:port/0?PASSWORD={SECRET}",
    f"redis://h:port/0?passwort={SECRET}",
    f"redis://h:port/0?auth={SECRET}",
    f"redis://h:port/0?{SECRET}",
    f"redis://h:port/0?db={SECRET}",
    f"redis://h:port/0?db=1&password={SECRET}&ssl=1",
    f"redis://h:port/0?a=1?password={SECRET}",
    f"redis://h:1/0?socket_timeout={SECRET}",
    f"redis://h:1/0?db=1;password={SECRET}&socket_timeout=long",
    f"redis://h:port/0#password={SECRET}",
    f"redis://h:port/0&password={SECRET}",
    # Other kinds of servers
    f"unix:///run/redis.sock&password={SECRET}",
    f"unix:///user:{SECRET}@run/redis.sock",
    f"unix:///run/redis.sock?db=x&password={SECRET}&socket_timeout=x",
    f"embedded://user:{SECRET}@h",
    f"embedded:///user:{SECRET}@h",
    f"embedded:///tmp/a?password={SECRET}",
    f"embedded:///tmp/password={SECRET}",
    f"redis+sentinel://:{SECRET}@h1,h2",
    f"redis+sentinel://:{SECRET}/x@h1,h2/name",
    f"redis+sentinel://h1,h2/name/x?sentinel_password={SECRET}",
    f"redis+sentinel://h1:26379,h2:{SECRET}/name",
    f"redis+sentinel://h1/user:{SECRET}@name",
    f"redis+sentinal://user:{SECRET}@h1,h2/name",
    f"redis+cluster://user:{SECRET}@h1:1,h2:2/3",
    f"redis+cluster://user:a@h1:1,user:{SECRET}@h2:99999999",
    f"rediss+cluster://user:{SECRET} @h1:1/3",
]
FORMS = pytest.mark.parametrize("url", ODD, ids=[ascii(url.replace(SECRET, "X")) for url in ODD])


def outputs(settings: dict[str, Any]) -> str:
    """Return all that is said of a Redis that these settings name, and that cannot be reached."""
    params = {"retry": connection.no_retry(), **settings.get("REDIS_PARAMS", {})}
    try:
        client = connection.get_redis_from_settings(Settings({**settings, "REDIS_PARAMS": params}))
    except SettingError as error:
        return str(error)
    shown = [connection.address(client), repr(client), str(vars(client).keys())]
    password = next(iter(topology.secrets(client)), "")
    errors = (f"Error 111 connecting to {vars(client).get('given_nodes')}", f"refused {password!r}")
    shown += [connection.describe_error(client, RedisConnectionError(text)) for text in errors]
    try:
        client.ping()
    except redis.RedisError as error:
        shown.append(connection.describe_error(client, error))
    except FrontierError as error:
        shown.append(str(error))
    return "\n".join(shown)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host is found. The error repeats its name, as that of a resolver may."""

    def refuse(host: str, *_: Any, **__: Any) -> None:
        raise OSError(-2, f"Name or service not known: {host}")

    monkeypatch.setattr("socket.getaddrinfo", refuse)


def test_the_table_has_many_forms() -> None:
    assert len(set(ODD)) == len(ODD) >= 60


@FORMS
def test_an_odd_address_is_shown_without_its_password(url: str) -> None:
    assert SECRET not in addresses.show_address(url)


@FORMS
def test_an_odd_address_in_the_settings_is_in_no_message(url: str) -> None:
    assert SECRET not in outputs({"REDIS_URL": url})


@FORMS
def test_an_odd_address_as_the_name_of_a_host_is_in_no_message(url: str) -> None:
    assert SECRET not in outputs({"REDIS_HOST": url})


@FORMS
def test_an_odd_address_as_a_port_is_in_no_message(url: str) -> None:
    assert SECRET not in outputs({"REDIS_HOST": "h", "REDIS_PORT": url})


@FORMS
def test_an_odd_address_as_a_database_is_in_no_message(url: str) -> None:
    assert SECRET not in outputs({"REDIS_HOST": "h", "REDIS_DB": url})


@FORMS
def test_an_odd_address_among_the_parameters_is_in_no_message(url: str) -> None:
    for name in ("url", "host", "path", "redis_cls"):
        assert SECRET not in outputs({"REDIS_PARAMS": {name: url}})


@FORMS
def test_the_doctor_does_not_show_the_password_in_an_odd_address(url: str) -> None:
    findings = examine(
        Settings({"REDIS_URL": url, "REDIS_PARAMS": {"retry": connection.no_retry()}}), list, "a"
    )
    assert SECRET not in "\n".join(f"{one.text} {one.advice}" for one in findings)


@FORMS
def test_the_url_of_a_webhook_that_is_refused_is_not_shown(url: str) -> None:
    if url.startswith("http://"):
        url += " "
    with pytest.raises(SettingError, match="FRONTIER_WEBHOOK_URL must be a URL") as refusal:
        SettingReader(Settings({"FRONTIER_WEBHOOK_URL": url})).url("FRONTIER_WEBHOOK_URL", "")
    assert "s3" not in str(refusal.value)


@FORMS
def test_a_remark_on_a_feed_does_not_show_a_password(url: str) -> None:
    found = list(remarks(Settings({"FEEDS": {url: {"format": "json"}}})))
    assert found
    assert SECRET not in str(found)


@pytest.mark.parametrize("value", [f"redis://user:{SECRET}@h".encode(), [f"redis://user:{SECRET}@h"], {}, 5])
def test_an_address_that_is_not_a_text_is_refused_without_being_shown(value: Any) -> None:
    shown = outputs({"REDIS_URL": value})
    assert SECRET not in shown
    assert not value or "REDIS_URL '…' is not valid" in shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://example.com:6380/2", "redis://example.com:6380/2"),
        ("redis://user@example.com", "redis://***@example.com"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        (f"redis://:{SECRET}@example.com:6380/2", "redis://:***@example.com:6380/2"),
        (f"redis://user:{SECRET}@example.com", "redis://user:***@example.com"),
        (f"rediss://user:{SECRET}@example.com/1", "rediss://user:***@example.com/1"),
        (f"redis://user:p@{SECRET}@[::1]:6380/2", "redis://user:***@[::1]:6380/2"),
        (f"redis://user:{SECRET}@example.com/1?ssl=1", "redis://user:***@example.com/1?ssl=1"),
        (f"redis://h/0?password={SECRET}&db=1", "redis://h/0?password=***&db=1"),
        (f"unix://user:{SECRET}@/run/redis.sock", "unix://user:***@/run/redis.sock"),
        (f"http://user:{SECRET}@example.com", "http://user:***@example.com"),
        ("redis+sentinel://h1:26379,h2/name/0", "redis+sentinel://h1:26379,h2/name/0"),
        (f"redis+sentinal://user:{SECRET}@h", "redis+sentinal://…"),
        (f"{SECRET}@h", "…"),
        ("embedded://", "embedded://"),
        ("", "…"),
    ],
)
def test_only_the_secret_part_of_a_plain_address_is_hidden(url: str, expected: str) -> None:
    assert addresses.show_address(url) == expected


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (" redis://h", "'…' is not valid: it has a space at its beginning. Use"),
        ("redis://h:a\t", "'redis://…' is not valid: it has a space at its end. Use"),
        ('"rediss://h"', "'…' is not valid: it has a quotation mark at its beginning. Use"),
        ("redis+cluster://h:1/\n3", "'redis+cluster://…' is not valid: it has a line break in it. Use"),
        ("redis://h:\x1b", "'redis://…' is not valid: it has a control character at its end. Use"),
        ("\ufeffredis://h", "'…' is not valid: it has a character outside ASCII at its beginning. Use"),
    ],
)
def test_an_address_that_is_not_shown_is_refused_with_its_odd_character(url: str, why: str) -> None:
    assert why in outputs({"REDIS_URL": url})


@pytest.mark.parametrize(
    "uri", ["items.json", "out/%(time)s.csv", "s3://bucket/%(name)s/items.json", "file:///tmp/items.json"]
)
def test_the_uri_of_a_feed_without_a_secret_is_shown(uri: str) -> None:
    assert addresses.show_feed(uri) == uri


def test_the_arguments_that_a_server_repeats_are_not_shown() -> None:
    long = SECRET * 20
    client = connection.get_redis(url=f"redis://:{long}@h")
    text = f"unknown command 'AUTH', with args beginning with: '{long[:128]}' "
    line = connection.describe_error(client, redis.ResponseError(text))
    assert line.endswith("answers with an error: unknown command 'AUTH'")


def test_a_password_with_quotation_marks_that_a_server_repeats_is_not_shown() -> None:
    client = connection.get_redis(password="a'b\"c\\d")
    line = connection.describe_error(
        client, redis.ResponseError(f"bad {client.connection_pool!r} 'a\\'b\"c\\\\d'")
    )
    assert 'b"c' not in line
