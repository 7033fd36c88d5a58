"""Send the events of a fleet to a URL: one worker at a time does it, and another when that one dies.

The names of the headers, and how they are signed, are those of Standard Webhooks
(https://www.standardwebhooks.com): their libraries verify what comes from here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred

from ..connection import RedisError, backoff, close, describe_error, get_impatient_client
from ..engine.event_loop import EventLoop
from ..frontier.scripts import register
from ..keys import Keys
from ..runtime.background import BackgroundThread
from ..settings import FrontierSettings
from .event import Event
from .follower import PATIENCE as REDIS_PATIENCE
from .follower import Follower
from .stream import Stream, order_of

logger = logging.getLogger(__name__)

#: Seconds between two looks for events, between two looks whether this worker is to send, and that the
#: receiver may take for an answer.
INTERVAL, STANDBY, PATIENCE = 0.5, 2.0, 5.0
#: Seconds after which another worker sends, if this one is not heard: more than an answer may take. And those
#: that a worker that closes waits until all is sent: then it may still take over from one that was killed.
LEASE, LAST_PATIENCE = 8.0, 10.0
#: Seconds between two attempts, at the most.
LONGEST_PAUSE = 20.0
#: So often an event is sent that the receiver does not want (status 4xx), before it is left out.
REFUSALS = 5
#: What a receiver answers that is busy, and not refusing: the event is sent again until it is taken.
_BUSY = (408, 425, 429)


class Webhook:
    """Sends the events of a frontier.

    :param settings: Scrapy's: they say where Redis is.
    :param keys: the frontier's.
    :param worker: who sends.
    :param own: this package's: where to, what signs it, and which events.
    """

    def __init__(self, settings: Any, keys: Keys, worker: str, own: FrontierSettings) -> None:
        self._settings = settings
        self._keys = keys
        self._stream = Stream(keys.events, keys.spider)
        self._worker = worker
        self._post = Post(own.webhook_url, own.webhook_secret, keys.events)
        self._types = own.webhook_types
        self._ends = threading.Event()
        self._end_by = 0.0
        self._sent = ""
        self._follower: Follower | None = None
        self._waiting: deque[Event] = deque()
        self._failures = 0
        self._pauses = backoff(LONGEST_PAUSE)
        self._next_attempt = 0.0
        self._is_away = False

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._ended: Deferred[None] = Deferred()
        thread = BackgroundThread("frontier-webhook", EventLoop())
        thread.call(self._run, self._has_ended)
        thread.stop()

    def end(self) -> Deferred[None]:
        """Send what has happened, for some seconds at the most; return what fires when that is done."""
        self._end_by = time.monotonic() + LAST_PATIENCE
        self._ends.set()
        # Whatever the thread waits for, such as a receiver that answers byte by byte: nobody waits for it.
        cancel = EventLoop().call_later(LAST_PATIENCE + PATIENCE, self._give_up)
        return self._ended.addCallback(lambda _: cancel())

    def _has_ended(self, _: Any, error: Exception | None) -> None:
        if error is not None:
            logger.error("The webhook has ended, and sends nothing any more", exc_info=error)
        if not self._ended.called:
            self._ended.callback(None)

    def _give_up(self) -> None:
        if not self._ended.called:
            logger.warning("The webhook at %s answers too slowly to wait for it any longer", self._post.where)
            self._ended.callback(None)

    def _run(self) -> None:
        server = get_impatient_client(self._settings, REDIS_PATIENCE)
        script = register(server, "webhook")

        def say(lease: float, sent: str) -> tuple[bool, str]:
            is_ours, last = script(self._keys.all(), [self._worker, int(1000 * lease), sent])
            return bool(is_ours), last.decode()

        while True:
            # Before it is looked: what happens after that may be missed.
            is_last = self._ends.is_set()
            is_through = False
            try:
                is_through = self._step(server, say)
            except RedisError as error:
                if not self._is_away:
                    logger.warning("The webhook waits for Redis: %s", describe_error(server, error))
                self._is_away = True
                if self._follower is not None:
                    self._follower.was_away()
            else:
                self._is_away = False
            if is_last and (is_through or self._is_late):
                break
            if is_last:
                time.sleep(INTERVAL)
            else:
                self._ends.wait(STANDBY if self._follower is None else INTERVAL)
        if self._waiting:
            logger.warning(
                "The webhook has not sent %d events yet: another worker sends them, or the next crawl",
                len(self._waiting),
            )
        self._resign(say)
        close(server)

    @property
    def _is_late(self) -> bool:
        return self._ends.is_set() and time.monotonic() > self._end_by

    def _step(self, server: Any, say: Any) -> bool:
        """Send what there is; return whether all that has happened is sent, by whichever worker."""
        is_ours, sent = say(LEASE, "")
        if not is_ours:
            # What this one had not sent, the other does.
            self._stop_following()
            return order_of(sent) >= order_of(self._stream.newest(server))
        if self._follower is not None and order_of(sent) > order_of(self._sent):
            # While this one was not heard, another has sent.
            self._stop_following()
        if self._follower is None:
            self._sent = sent
            self._follower = Follower(
                self._settings, [self._stream], {self._stream.key: sent}, logger.warning
            )
        self._waiting.extend(self._follower.new())
        while self._waiting and not self._is_late:
            event = self._waiting[0]
            if self._is_wanted(event) and not self._send(event):
                return False
            self._waiting.popleft()
            # Of those that nobody wants, the last is enough.
            if self._is_wanted(event) or not self._waiting:
                is_ours, self._sent = say(LEASE, event.id)
                if not is_ours:
                    self._stop_following()
                    return False
        return not self._waiting

    def _send(self, event: Event) -> bool:
        """Post *event*, if it is time for that; return whether it is dealt with."""
        if time.monotonic() < self._next_attempt:
            return False
        problem = self._post(event)
        if problem is not None and not self._gives_up(event, problem):
            self._next_attempt = time.monotonic() + self._pauses.compute(self._failures)
            return False
        self._failures = 0
        return True

    def _is_wanted(self, event: Event) -> bool:
        return not self._types or event.type in self._types

    def _gives_up(self, event: Event, problem: Problem) -> bool:
        self._failures += 1
        if problem.is_final and self._failures >= REFUSALS:
            logger.error(
                "The webhook at %s does not take event %s (%s), and it is left out: %s",
                *(self._post.where, event.id, event.type, problem.text),
            )
            return True
        if self._failures == 1:
            logger.warning(
                "The webhook at %s has not taken event %s (%s), and it is sent again: %s",
                *(self._post.where, event.id, event.type, problem.text),
            )
        return False

    def _resign(self, say: Any) -> None:
        try:
            if self._follower is not None:
                say(0, "")
        except RedisError:
            logger.info("Another worker sends to the webhook in %g s", LEASE)
        self._stop_following()

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.close()
        self._follower = None
        self._waiting.clear()
        self._failures, self._next_attempt = 0, 0.0


class Problem:
    """Why an event was not taken.

    :param text: in one line; :param is_final: whether the receiver does not want it.
    """

    def __init__(self, text: str, is_final: bool = False) -> None:
        self.text = text
        self.is_final = is_final


class Post:
    """Posts events to a URL.

    :param url: where to, and :param secret: what signs them.
    :param source: what an id is unique in.
    """

    def __init__(self, url: str, secret: str, source: str) -> None:
        self._source = source
        self._url = url
        self._secret = secret
        parts = urlsplit(url)
        #: The URL without what may be secret in it.
        self.where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        # What answers with a redirect has not taken the event.
        self._opener = urllib.request.build_opener(_NoRedirect())

    def __call__(self, event: Event) -> Problem | None:
        """Post *event*; return what was wrong, or None if it was taken."""
        body = json.dumps(event.as_dict()).encode()
        request = urllib.request.Request(  # noqa: S310 - the settings' check allows http and https
            self._url, body, self._headers(f"{self._source}/{event.id}", body), method="POST"
        )
        try:
            with self._opener.open(request, timeout=PATIENCE):
                return None
        except urllib.error.HTTPError as error:
            with error:
                is_final = 300 <= error.code < 500 and error.code not in _BUSY
                return Problem(f"it has answered with status {error.code}", is_final)
        except (http.client.HTTPException, ValueError) as error:
            # Their text may have the URL in it.
            return Problem(f"no HTTP can be spoken with it ({type(error).__name__})")
        except OSError as error:
            reason = getattr(error, "reason", error)
            return Problem(f"{type(reason).__name__}: {reason}".replace(self._url, self.where))

    def _headers(self, name: str, body: bytes) -> dict[str, str]:
        moment = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "scrapy-rq-sched",
            "webhook-id": name,
            "webhook-timestamp": moment,
        }
        if self._secret:
            text = b".".join((name.encode(), moment.encode(), body))
            digest = hmac.new(key_of(self._secret), text, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def key_of(secret: str) -> bytes:
    """Return the key that *secret* stands for: after ``whsec_`` it is in base64, as the standard has it."""
    encoded = secret.removeprefix("whsec_")
    return base64.b64decode(encoded) if encoded != secret else secret.encode()
