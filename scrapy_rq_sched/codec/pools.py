"""Pools (``FRONTIER_POOLS``): named sets of items, each of which is for one user at a time.

Such as accounts, proxies and keys of an API.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import SettingError, one_line
from .names import LONGEST, quoted
from .slot_rules import slot_rule

#: The fields of ``meta``: the pool of which a request needs an item, and the item that it is given; and
#: the other fields and headers that it was given with it, which its retries must not keep.
POOL, POOL_ITEM, GIVEN = "pool", "pool_item", "pool_given"
#: How an item reaches a request, besides ``meta["pool_item"]``.
KINDS = ("proxy", "cookiejar", "key")
USERS = ("request", "worker")
#: In ``rest``: the site says for how long; and in place of a status, that a download fails.
RETRY_AFTER, ERROR = "retry-after", "error"
#: The longest rest, in seconds: a year.
LONGEST_REST = 366 * 86_400.0
#: The fields of a pool in the setting; and the fields of an item that can be its name.
_LIMITS = ("delay", "rate", "concurrency")
_FIELDS = (
    *("items", "file", "key", "for", "kind", *_LIMITS),
    *("rest", "retire_after", "cookies", "headers", "meta"),
)
_NAMES = ("name", "user", "username", "login", "email")
#: A host and its port.
_ADDRESS = re.compile(r"(?P<host>\[[^\]]*\]|[^:/?#\[\]]+)(:[0-9]{1,5}(?![0-9]))?")
#: How many digits of a hash stand for a secret.
_DIGITS = 8


class PoolItem(str):
    """An item that a request or a worker has. As text, it is the item's name, which is no secret.

    :ivar value: what the settings, the file or ``scrapy frontier pool add`` say of it: a text or a dict.
    :ivar pool: the name of its pool.
    :ivar delay: seconds between two requests with it.
    :ivar concurrency: how many users it may have at a time.
    """

    value: Any
    pool: str
    delay: float = 0.0
    concurrency: int = 1
    _rest: Callable[[PoolItem, float, str], None]
    _retire: Callable[[PoolItem, str], None]

    @classmethod
    def make(
        cls,
        pool: str,
        name: str,
        value: Any,
        rest: Callable[[PoolItem, float, str], None] = lambda item, seconds, reason: None,
        retire: Callable[[PoolItem, str], None] = lambda item, reason: None,
    ) -> PoolItem:
        """Return the item *name* of *pool*, which stands for *value*.

        :param rest: called with the item, seconds, and a reason; :param retire: with the item and a reason.
        """
        made = cls(name)
        made.pool, made.value, made._rest, made._retire = pool, value, rest, retire
        return made

    def rest(self, seconds: float, reason: str = "code of the spider says so") -> None:
        """Let no request have this item for so many *seconds*, from now on; the present ones go on.

        :param reason: shown in the log and by the commands, so it must contain no secret.
        """
        # Not a number is no time.
        self._rest(self, min(seconds, LONGEST_REST) if seconds > 0 else 0.0, reason)

    def retire(self, reason: str = "code of the spider says so") -> None:
        """Take this item out of use, until an operator adds it again.

        :param reason: shown in the log and by the commands, so it must contain no secret.
        """
        self._retire(self, reason or "code of the spider says so")

    def __copy__(self) -> PoolItem:
        return self

    def __deepcopy__(self, memo: object) -> PoolItem:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # no secret is stored with a request


@dataclass(frozen=True)
class Pool:
    """A pool as the settings have it.

    :param name: its name, as in ``meta["pool"]``.
    :param is_for_worker: whether a worker has one item for its life, and not a request while it is in flight.
    :param kind: how a request is given it: ``proxy``, ``cookiejar``, ``key``, or empty.
    :param delay: seconds between two requests with an item, counted from the answer.
    :param concurrency: how many users an item may have at a time.
    :param rest: for how many seconds an item rests, by the status of an answer, or ``error``; or
        ``retry-after``.
    :param retire_after: how many answers for which it rests, one after the other, retire an item; 0: any
        number does not.
    :param keeps_cookies: whether the cookies of answers belong to the item.
    :param headers: headers of requests: templates, in which ``{item}`` stands for an item that is a text, and
        ``{field}`` for a field of one that is a dict.
    :param meta: fields of their ``meta``: templates, too.
    :param items: the items in the setting.
    :param file: the path of a file with more of them, a line each.
    :param key: a list or set in Redis with more of them.
    """

    name: str
    is_for_worker: bool = False
    kind: str = ""
    delay: float = 0.0
    concurrency: int = 1
    rest: Mapping[int | str, float | str] = field(default_factory=dict)
    retire_after: int = 0
    keeps_cookies: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    meta: Mapping[str, str] = field(default_factory=dict, repr=False)
    items: tuple[Any, ...] = field(default=(), repr=False)
    file: str = ""
    key: str = ""

    @property
    def wire_name(self) -> str:
        """The name as it stands in Redis."""
        return quoted_pool(self.name)

    @property
    def limits(self) -> str:
        """The limits as they stand in Redis: see ``lua/store/pool_items.lua``."""
        return f"{1000 * self.delay:.17g} {self.concurrency} {self.retire_after}"

    def entry(self, value: Any) -> tuple[str, str, str]:
        """Return the item *value* as it stands in Redis: its name, its value, its own limits.

        :raises ValueError: if it is not valid. The message shows nothing of it.
        """
        name = quoted(name_of(value, self.kind))
        if len(name) > LONGEST:
            raise ValueError(f"the name of an item must have at most {LONGEST} characters")
        if self.kind == "proxy":
            proxy_of(value)
        item = PoolItem.make(self.name, unquote(name), value)
        for template in (*self.headers.values(), *self.meta.values()):
            self.filled(template, item)
        try:
            delay, concurrency = self.limits_of(value)
            text = json.dumps(value, allow_nan=False)
        except SettingError:
            raise ValueError("the delay, the rate and the concurrency of an item must be valid") from None
        except (TypeError, ValueError):
            raise ValueError("an item must have only texts, numbers, lists and dicts") from None
        own = value if isinstance(value, dict) else {}
        its_delay = f"{1000 * delay:.17g}" if own.keys() & {"delay", "rate"} else "-"
        return name, text, f"{its_delay} {concurrency if 'concurrency' in own else '-'}"

    def limits_of(self, value: Any) -> tuple[float, int]:
        """Return the delay, in seconds, and the concurrency of the item *value*.

        :raises SettingError: if a limit is not valid.
        """
        own = {limit: value[limit] for limit in _LIMITS if limit in value} if isinstance(value, dict) else {}
        rule = slot_rule("an item", self.name, own)
        if rule.concurrency == 0:
            raise SettingError("concurrency must be at least 1")
        delay = self.delay if rule.delay is None else rule.delay
        concurrency = rule.concurrency or self.concurrency
        if self.is_for_worker and delay and concurrency > 1:
            raise SettingError("an item that several workers have for their lives can have no delay")
        return delay, concurrency

    def filled(self, template: str, item: PoolItem) -> str:
        """Return *template* with the values of *item*.

        :raises ValueError: if the item lacks a field.
        """
        fields = item.value if isinstance(item.value, dict) else {"item": item.value}
        try:
            return template.format_map({"name": str(item), **fields})
        except (KeyError, IndexError, AttributeError, TypeError, ValueError):
            raise ValueError(
                f"item {str(item)!r} of pool {self.name!r} lacks a field of the template {template!r}"
            ) from None


def name_of(value: Any, kind: str = "") -> str:
    """Return the name of an item, which people see: nothing secret of it.

    :raises ValueError: if it has none.
    """
    if isinstance(value, dict):
        for name in _NAMES:
            if isinstance(value.get(name), str) and value[name].strip():
                return str(value[name]).strip()
        raise ValueError(f"an item that is a dict must have a name: one of the fields {', '.join(_NAMES)}")
    if not isinstance(value, str) or not value.strip():
        raise ValueError("an item must be a text, or a dict with a name")
    text = value.strip()
    if kind == "key":
        return f"key-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
    if "://" not in text and "@" in text.partition(":")[0]:  # an address of e-mail, perhaps with a password
        return text.partition(":")[0]
    # A URL may have a login, with a password.
    login, _, host = text.rpartition("://")[2].rpartition("@")
    user = login.partition(":")[0]
    if "://" in text or login or ":" in text:
        host = _address(host, is_host=kind == "proxy" or "://" in text or bool(login))
    return f"{user}@{host}" if user else host


def _address(text: str, is_host: bool) -> str:
    """Return the host and the port with which *text* begins, and nothing after it.

    :param is_host: whether it must be a host; else it can also be ``name:password``.
    """
    found = _ADDRESS.match(text)
    if found is None or not (is_host or found["host"].startswith("[") or "." in found["host"]):
        return re.split("[:/?#]", text)[0]
    return found[0]


def proxy_of(value: Any) -> str:
    """Return the URL of a proxy.

    :raises ValueError: if *value* has none. The message shows nothing of it.
    """
    url = value.get("url", value.get("proxy")) if isinstance(value, dict) else value
    if not isinstance(url, str) or not url:
        raise ValueError("a proxy must be a URL, or a dict with a URL in the field url")
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        # Reading the port refuses host:port:user:password, of which the password would be in the name.
        is_url = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError("a proxy must be a URL such as http://user:password@host:port")
    return full


def quoted_pool(name: str) -> str:
    """Return the name of a pool as it stands in Redis. A slash after it in a key is not part of it."""
    return quoted(name).replace("/", "%2F")


def lane_of(needs: str, pool: str) -> str:
    """Return the lane of requests with the joined *needs* that need an item of *pool*."""
    lane = f"~{quoted_pool(pool)}"
    return f"{needs}|{lane}" if needs else lane


def pool_of(lane: str) -> str:
    """Return the name of the pool of *lane*; empty if it has none."""
    return unquote(lane.rpartition("~")[2]) if "~" in lane else ""


def shown_place(place: str) -> str:
    """Return *place* as people see it: an item of a pool that its requests need is ``pool <name>``."""
    slot, bar, lane = place.partition("|")
    parts = (f"pool {unquote(part[1:])}" if part.startswith("~") else part for part in lane.split("|"))
    return slot + bar + "|".join(parts)


def typed_place(text: str) -> str:
    """Return the place of which :func:`shown_place` has made *text*."""
    slot, bar, lane = text.partition("|")
    pool = "pool "
    parts = (
        f"~{quoted_pool(part.removeprefix(pool))}" if part.startswith(pool) else part
        for part in lane.split("|")
    )
    return slot + bar + "|".join(parts)


def entries(pool: Pool, listed: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the items of *pool* as they stand in Redis: those of the setting, of its file, and *listed* ones.

    :raises SettingError: if one is not valid, or if two have the same name.
    """
    seen: dict[str, str] = {}
    for source, value in (
        *(("items", item) for item in pool.items),
        *_lines(pool),
        *(("key", item) for item in listed),
    ):
        try:
            name, text, own = pool.entry(value)
        except ValueError as error:
            raise SettingError(f"FRONTIER_POOLS[{pool.name!r}]: {source}: {error}") from None
        if seen.setdefault(name, text) != text:
            raise SettingError(
                f"FRONTIER_POOLS[{pool.name!r}]: {source}: two items are named {unquote(name)!r}. "
                "Write them as dicts, and give each a name of its own in the field name"
            )
        yield name, text, own


def item_in(text: str) -> Any:
    """Return the item in a line of a file, an element of a key, or an argument: JSON of a dict, or a text.

    :raises ValueError: if it is neither.
    """
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("a line that begins with { must be a JSON object") from None


def _lines(pool: Pool) -> Iterator[tuple[str, Any]]:
    if not pool.file:
        return
    try:
        lines = Path(pool.file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"FRONTIER_POOLS[{pool.name!r}]: the file {pool.file!r} cannot be read: {one_line(error)}"
        ) from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield f"line {number} of {pool.file}", item_in(line)
            except ValueError as error:
                raise SettingError(
                    f"FRONTIER_POOLS[{pool.name!r}]: line {number} of {pool.file}: {error}"
                ) from None


def pools_in(name: str, value: Any) -> tuple[Pool, ...]:
    """Return the pools in the setting *name*.

    :param value: a mapping from names to mappings, or the JSON text of one; None for no pools.
    :raises SettingError: if a pool is not valid. The message shows no item.
    """
    if not value:
        return ()
    example = "a mapping such as {'accounts': {'items': ['alice', 'bob']}}"
    try:
        pools = json.loads(value) if isinstance(value, (str, bytes)) else value
    except ValueError:
        raise SettingError(
            f"{name} must be {example}, or such a mapping in JSON. Its value is not shown here"
        ) from None
    if not isinstance(pools, Mapping) or not all(isinstance(pool, str) and pool.strip() for pool in pools):
        raise SettingError(f"{name} must be {example}. Its value is not shown here")
    return tuple(_pool(f"{name}[{pool!r}]", pool.strip(), its) for pool, its in pools.items())


def _pool(where: str, name: str, its: Any) -> Pool:
    if not isinstance(its, Mapping):
        raise SettingError(f"{where} must be a mapping such as {{'items': ['alice', 'bob']}}")
    if len(quoted(name)) > LONGEST:
        raise SettingError(f"{where}: the name of a pool must have at most {LONGEST} characters")
    if unknown := [str(one) for one in its if one not in _FIELDS]:
        raise SettingError(
            f"{where} has unknown fields: {', '.join(unknown)}. The known fields are {', '.join(_FIELDS)}"
        )
    items = its.get("items", ())
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise SettingError(f"{where}: items must be a list")
    user, kind = its.get("for", "request"), its.get("kind") or ""
    if user not in USERS:
        raise SettingError(f"{where}: for must be 'request' or 'worker', not {user!r}")
    if kind not in ("", *KINDS):
        raise SettingError(f"{where}: kind must be one of {', '.join(KINDS)}, not {kind!r}")
    rule = slot_rule(where, name, {limit: its[limit] for limit in _LIMITS if limit in its})
    if rule.concurrency == 0:
        raise SettingError(f"{where}: concurrency must be at least 1")
    if user == "worker" and rule.delay and (rule.concurrency or 1) > 1:
        raise SettingError(
            f"{where}: with a delay, concurrency must be 1 if for is 'worker': workers with the same item do "
            "not wait for each other"
        )
    return Pool(
        name,
        user == "worker",
        kind,
        rule.delay or 0.0,
        rule.concurrency or 1,
        dict(_rests(where, its.get("rest") or {})),
        _count(where, its.get("retire_after", 0)),
        bool(its.get("cookies", True)),
        _templates(where, "headers", its.get("headers") or {}),
        _templates(where, "meta", its.get("meta") or {}),
        tuple(items),
        str(its.get("file") or ""),
        str(its.get("key") or ""),
    )


def _rests(where: str, rests: Any) -> Iterator[tuple[int | str, float | str]]:
    expected = "a mapping such as {403: 3600, 429: 'retry-after', 'error': 60}"
    if not isinstance(rests, Mapping):
        raise SettingError(f"{where}: rest must be {expected}, not {rests!r}")
    for status, seconds in rests.items():
        # In JSON, keys are texts.
        code = int(status) if str(status).isdecimal() else status
        is_code = code == ERROR or (isinstance(code, int) and 100 <= code <= 599)
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not is_code or not (seconds == RETRY_AFTER or (is_number and 0 <= seconds <= LONGEST_REST)):
            raise SettingError(f"{where}: rest must be {expected}, not {rests!r}")
        yield code, seconds


def _count(where: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SettingError(f"{where}: retire_after must be an integer ≥ 0, not {value!r}")
    return value


def _templates(where: str, name: str, value: Any) -> dict[str, str]:
    is_one = isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )
    if not is_one:
        raise SettingError(
            f"{where}: {name} must be a mapping such as {{'Authorization': 'Bearer {{item}}'}}"
        )
    return dict(value)
