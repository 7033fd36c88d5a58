"""A consumer of a stream of items: ``python -m tests.chaos.item_consumer REDIS_URL STREAM DATABASE``.

It stores a batch, commits, and acknowledges only then; the identity of an item is its unique key.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time

import redis

GROUP, NAME, WAIT = "database", "one", 1000
TABLE = "CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, title TEXT)"
INSERT = "INSERT INTO items (id, title) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"


def main(url: str, stream: str, path: str) -> None:
    """Store the items of *stream* until this process is killed."""
    database = sqlite3.connect(path, timeout=30)
    database.execute(TABLE)
    client = redis.Redis.from_url(url, socket_timeout=10, decode_responses=True)
    first = "0"
    while True:
        try:
            found = client.xreadgroup(GROUP, NAME, {stream: first}, count=50, block=WAIT)
            entries = found[0][1] if found else []
            if not entries:
                first = ">"
                continue
            # An entry that was acknowledged, and is pending again in older data, has no fields.
            rows = [(fields["id"], json.loads(fields["item"])["title"]) for _, fields in entries if fields]
            with database:
                database.executemany(INSERT, rows)
            numbers = [number for number, _ in entries]
            with client.pipeline() as both:
                both.xack(stream, GROUP, *numbers).xdel(stream, *numbers).execute()
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                time.sleep(0.1)  # it is being replaced
                continue
            client.xgroup_create(stream, GROUP, id="0", mkstream=True)
        except redis.RedisError:
            first = "0"
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
