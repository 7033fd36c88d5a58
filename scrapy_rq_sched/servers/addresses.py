"""Show addresses without their secrets. Every message that contains an address gets it from this module.

A mistake in an address can move its password to any place. So a part is shown only if it is plainly not a
secret; of a text that is not plainly a URL, nothing after the scheme is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

#: The text that stands for a secret, and the one that stands for all parts that are not shown.
SECRET, HIDDEN = "***", "…"

#: The schemes of this package's servers, and those of feeds and webhooks.
_KINDS = ("sentinel", "cluster")
_OF_REDIS = (
    *("redis", "rediss", "unix", "embedded"),
    *(f"{scheme}+{kind}" for scheme in ("redis", "rediss") for kind in _KINDS),
)
_OTHERS = ("http", "https", "ftp", "ftps", "sftp", "file", "s3", "gs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20})://")
#: Other schemes that are shown, because somebody meant a Redis.
_ALIKE = re.compile(r"(?:rediss?|valkeys?)(?:\+[a-z]{1,12})?")
#: The characters of a URL. Quotation marks are not among them: they come from files of environment variables.
_PLAIN = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&()*+,;=%-]*")
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?|[A-Za-z0-9._-]*(?::[0-9]{1,5})?")
#: The host of a feed may have a placeholder.
_FEEDS_HOST = re.compile(r"[A-Za-z0-9._%()-]*(?::[0-9]{1,5})?")
#: A part of a path that may be a login, or an option with a secret.
_IN_PATH = re.compile(r"[:=].*@|(?:pass|pw|secret|token|auth|cred)\w{0,20}[=:]", re.IGNORECASE)
#: The options with a secret; and other options of redis-py, with values that cannot be a password.
_WITH_SECRET = ("username", "password", "sentinel_username", "sentinel_password", "ssl_password")
_OPTION = re.compile(
    r"(?:db|protocol|ssl|socket_\w{1,20}|max_connections|health_check_interval|decode_responses|timeout"
    r"|retry_on_timeout|ssl_check_hostname|ssl_cert_reqs)"
    r"=(?:[0-9]{1,5}(?:\.[0-9]{1,4})?|true|false|yes|no|none|optional|required)",
    re.IGNORECASE,
)
#: The part of Redis's error that repeats the arguments of a command, up to 128 characters of each.
_ARGUMENTS = re.compile(r",? with args beginning with:.*", re.DOTALL)
_QUOTES = "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb"


def show_address(text: object) -> str:
    """Return *text*, an address that somebody gave, without its secrets.

    If it is not plainly a URL, the result has nothing after the scheme.
    """
    text = str(text)
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if found and scheme in (*_OF_REDIS, *_OTHERS):
        rest = text[found.end() :]
        return found[0] + (_shown_rest(scheme, rest) or HIDDEN if rest else "")
    # The text before "://" may be a password, too.
    return f"{found[0]}{HIDDEN}" if found and _ALIKE.fullmatch(scheme) else HIDDEN


def _shown_rest(scheme: str, rest: str) -> str:
    """Return the part after *scheme* without its secrets; empty if it is not plainly that of a URL."""
    if not _PLAIN.fullmatch(rest):
        return ""
    before, has_query, query = rest.partition("?")
    netloc, slash, path = before.partition("/")
    login, at, hosts = netloc.rpartition("@")
    host = _HOST if scheme in _OF_REDIS else _FEEDS_HOST
    # An @ behind the host is probably that of a login whose password is not escaped.
    is_plain = all(map(host.fullmatch, hosts.split(","))) and "@" not in path + query and "?" not in query
    if not is_plain or _IN_PATH.search(path):
        return ""
    shown = f"{_shown_login(login)}@{hosts}" if at else hosts
    return shown + slash + path + ("?" + "&".join(map(_shown_option, query.split("&"))) if has_query else "")


def _shown_login(login: str) -> str:
    user, _, password = login.partition(":")
    return show_login(user, password).rstrip("@") or SECRET


def _shown_option(option: str) -> str:
    name = option.partition("=")[0]
    if not option or _OPTION.fullmatch(option):
        return option
    return f"{name}={SECRET}" if name in _WITH_SECRET else SECRET


def oddity(text: str) -> str:
    """Return the first character of *text* that a URL cannot have, in words; empty if all are allowed."""
    odd = next((c for c in text if not ("!" <= c <= "~") or c in _QUOTES), "")
    if not odd:
        return ""
    place = "at its beginning" if text[0] == odd else "at its end" if text[-1] == odd else "in it"
    if odd in _QUOTES:
        return f"it has a quotation mark {place}"
    if odd in "\r\n\u2028\u2029":
        return f"it has a line break {place}"
    if odd.isspace():
        return f"it has a space {place}"
    kind = "a control character" if odd <= "~" else "a character outside ASCII"
    return f"it has {kind} {place}"


def show_feed(uri: str) -> str:
    """Return *uri*, the URI or the path of a feed, without its secrets."""
    if "://" in uri or "@" in uri or _IN_PATH.search(uri):
        return show_address(uri)
    return uri


def show_webhook(url: str) -> str:
    """Return only the scheme of *url*: the path of a webhook is often a secret, too."""
    found = _SCHEME.match(url)
    return found[0] + HIDDEN if found and found[1].lower() in _OTHERS else HIDDEN


def show_login(user: object, password: object) -> str:
    """Return the part of an address for *user* and *password*, with the ``@``; empty if there is neither."""
    name = str(user or "")
    if not password:
        # A user without a password is probably a password for which the colon was forgotten.
        return f"{SECRET}@" if name else ""
    return f"{name}:{SECRET}@" if not name or _USER.fullmatch(name) else f"{SECRET}@"


def show_host(host: object) -> str:
    """Return *host*, unless it may be more than the name of a host."""
    text = str(host)
    is_name = len(text) <= 253 and re.fullmatch(r"[\w.-]*|[0-9A-Fa-f:.]+(?:%\w+)?", text)
    return text if is_name and text.isprintable() else HIDDEN


def show_port(port: object) -> str:
    """Return *port*, unless it is no number."""
    text = str(port)
    return text if re.fullmatch(r"[0-9]{1,5}", text) else HIDDEN


def show_path(path: object) -> str:
    """Return *path*, unless it may contain a login or an option with a secret."""
    text = str(path)
    return text if text.isprintable() and not _IN_PATH.search(text) else HIDDEN


def show_class(path: object) -> str:
    """Return *path*, the import path of a class, or the class, unless it is an address."""
    text = str(path)
    return text if re.fullmatch(r"[\w.:<>' -]*", text) and not _IN_PATH.search(text) else HIDDEN


#: A function for each option of a client that is a part of its address, and the names of these parts.
_SHOWS: Mapping[str, Callable[[object], str]] = {
    "host": show_host,
    "port": show_port,
    "db": show_port,
    "path": show_path,
    "folder": show_path,
    "name of the service": show_path,
    "redis_cls": show_class,
}
PARTS = tuple(name for name in _SHOWS if name != "redis_cls")


def secrets_in(options: Mapping[str, Any]) -> list[str]:
    """Return the values among *options* of a client that nothing must show: passwords, and misplaced ones."""
    found = [options.get(name) for name in ("password", "ssl_password", "sentinel_password")]
    if not options.get("password"):
        found.append(options.get("username"))
    found += [options[name] for name in _SHOWS if is_odd(name, options.get(name))]
    return [text for value in found if value for text in _texts(value)]


def is_odd(name: str, value: object) -> bool:
    """Return whether *value*, the option *name* of a client, is not plainly such an option."""
    return value is not None and _SHOWS[name](value) == HIDDEN


def _texts(value: Any) -> Iterable[str]:
    # The client decodes bytes, an error may repeat their repr().
    return (value.decode("utf-8", "replace"), repr(value)) if isinstance(value, bytes) else (str(value),)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return *text*, an error's, without *secrets*, in whatever notation it repeats them."""
    text = _ARGUMENTS.sub("", text)
    forms = {form for secret in secrets if secret for form in _notations(secret)}
    # A long form first: it may contain a short one.
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, SECRET)
    return text


def _notations(secret: str) -> tuple[str, ...]:
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    return (
        *(secret, escaped, repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1]),
        quote(secret.encode("utf-8", "replace"), safe=""),
    )
