"""Post an event to a URL.

Headers and signature follow Standard Webhooks (https://www.standardwebhooks.com), so that its libraries can
verify the requests.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from .event import Event
from .exchange import build_opener

#: Seconds of an exchange, from the look-up of the receiver's name to the head of its answer.
PATIENCE = 5.0
#: The statuses of a busy receiver. They are no refusal.
_BUSY = (408, 425, 429)


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
        self._opener = build_opener(_NoRedirect())

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
