"""Send the events of a fleet to a URL. One worker at a time sends; when it dies, another takes over.

Headers and signature follow Standard Webhooks (https://www.standardwebhooks.com), so that its libraries can
verify the requests.
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

#: Seconds between two polls of the sender, between two of a standby, and until the receiver must answer.
INTERVAL, STANDBY, PATIENCE = 0.5, 2.0, 5.0
#: Seconds of the sender's lease, longer than PATIENCE: then another worker takes over. And the seconds that a
#: closing worker goes on sending: long enough to take over from a worker that was killed.
LEASE, LAST_PATIENCE = 8.0, 10.0
#: Seconds between two attempts, at most.
LONGEST_PAUSE = 20.0
#: Attempts after which an event that the receiver refuses (status 3xx or 4xx) is dropped.
REFUSALS = 5
#: The statuses of a busy receiver. They are no refusal: the event is sent until it is accepted.
_BUSY = (408, 425, 429)


class Webhook:
    """Sends the events of a frontier.

    :param settings: Scrapy's settings; they contain the address of Redis.
    :param keys: the frontier's keys.
    :param worker: the id of this worker.
    :param own: this package's settings: the URL, the secret and the types of events.
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
        """Start sending, in a separate thread."""
        self._ended: Deferred[None] = Deferred()
        thread = BackgroundThread("frontier-webhook", EventLoop())
        thread.call(self._run, self._has_ended)
        thread.stop()

    def end(self) -> Deferred[None]:
        """Send the remaining events, for a few seconds at most; the ``Deferred`` fires at the end."""
        self._end_by = time.monotonic() + LAST_PATIENCE
        self._ends.set()
        # Do not wait longer for the thread: the receiver may answer byte by byte.
        cancel = EventLoop().call_later(LAST_PATIENCE + PATIENCE, self._give_up)
        return self._ended.addCallback(lambda _: cancel())

    def _has_ended(self, _: Any, error: Exception | None) -> None:
        if error is not None:
            logger.error(
                "Unexpected error in the webhook: this worker sends no more events. This is a bug in "
                "scrapy-rq-sched; please report it",
                exc_info=error,
            )
        if not self._ended.called:
            self._ended.callback(None)

    def _give_up(self) -> None:
        if not self._ended.called:
            where = self._post.where
            logger.warning("The receiver at %s answers too slowly: this worker closes without waiting", where)
            self._ended.callback(None)

    def _run(self) -> None:
        server = get_impatient_client(self._settings, REDIS_PATIENCE)
        script = register(server, "webhook")

        def say(lease: float, sent: str) -> tuple[bool, str]:
            is_ours, last = script(self._keys.all(), [self._worker, int(1000 * lease), sent])
            return bool(is_ours), last.decode()

        while True:
            # Read before the step: an event after this point may be missed.
            is_last = self._ends.is_set()
            is_through = False
            try:
                is_through = self._step(server, say)
            except RedisError as error:
                if not self._is_away:
                    logger.warning(
                        "%s. The webhook resumes when Redis answers", describe_error(server, error)
                    )
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
                "This worker closes before all events were sent to the webhook (%d left). Another worker "
                "or the next crawl sends them",
                len(self._waiting),
            )
        self._resign(say)
        close(server)

    @property
    def _is_late(self) -> bool:
        return self._ends.is_set() and time.monotonic() > self._end_by

    def _step(self, server: Any, say: Any) -> bool:
        """Send the new events; return whether this worker or another has sent every event."""
        is_ours, sent = say(LEASE, "")
        if not is_ours:
            # The worker that holds the lease sends the rest.
            self._stop_following()
            return order_of(sent) >= order_of(self._stream.newest(server))
        if self._follower is not None and order_of(sent) > order_of(self._sent):
            # This worker had lost the lease, and another one has sent events.
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
            # Of unwanted events, noting the last is enough.
            if self._is_wanted(event) or not self._waiting:
                is_ours, self._sent = say(LEASE, event.id)
                if not is_ours:
                    self._stop_following()
                    return False
        return not self._waiting

    def _send(self, event: Event) -> bool:
        """Post *event* unless a pause is on; return whether it is settled: accepted or dropped."""
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
                "The receiver at %s did not accept event %s (%s) in %d attempts, so it is dropped: %s. Check "
                "FRONTIER_WEBHOOK_URL and the receiver",
                *(self._post.where, event.id, event.type, self._failures, problem.text),
            )
            return True
        if self._failures == 1:
            logger.warning(
                "The receiver at %s did not accept event %s (%s), so it is sent again: %s",
                *(self._post.where, event.id, event.type, problem.text),
            )
        return False

    def _resign(self, say: Any) -> None:
        try:
            if self._follower is not None:
                say(0, "")
        except RedisError:
            logger.info("Redis does not answer: another worker takes over the webhook in %g s", LEASE)
        self._stop_following()

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.close()
        self._follower = None
        self._waiting.clear()
        self._failures, self._next_attempt = 0, 0.0


class Problem:
    """The reason why an event was not accepted.

    :param text: the reason, in one line.
    :param is_final: whether the receiver refused the event.
    """

    def __init__(self, text: str, is_final: bool = False) -> None:
        self.text = text
        self.is_final = is_final


class Post:
    """Posts events to a URL.

    :param url: the receiver's URL.
    :param secret: the secret that signs the events; empty for no signature.
    :param source: the key of the stream, in which an event's id is unique.
    """

    def __init__(self, url: str, secret: str, source: str) -> None:
        self._source = source
        self._url = url
        self._secret = secret
        parts = urlsplit(url)
        #: The URL without its secret parts.
        self.where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        # A receiver that redirects has not accepted the event.
        self._opener = urllib.request.build_opener(_NoRedirect())

    def __call__(self, event: Event) -> Problem | None:
        """Post *event*; return the problem, or None if the receiver accepted it."""
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
                return Problem(f"it answered with status {error.code}", is_final)
        except (http.client.HTTPException, ValueError) as error:
            # The text of these errors may contain the URL.
            return Problem(f"its answer is not valid HTTP ({type(error).__name__})")
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
    """Return the key in *secret*. After ``whsec_`` it is base64, as in the standard."""
    encoded = secret.removeprefix("whsec_")
    return base64.b64decode(encoded) if encoded != secret else secret.encode()
