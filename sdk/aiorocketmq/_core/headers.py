"""The headers of every call and their signature (client-behaviour.md, section 4)."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

Headers: TypeAlias = tuple[tuple[str, str], ...]

_PROTOCOL = "v2"
_LANGUAGE = "PYTHON"
"""One of the languages that servers know; others end the settings stream (live-broker-session.md, 1.2)."""


def date_text(now: float) -> str:
    """`now` (Unix time) as the signed header writes it, in UTC."""
    return _second_text(int(now))


@lru_cache(maxsize=4)
def _second_text(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


def authorization(access_key: str, secret_key: str, date: str) -> str:
    """The value of the `authorization` header: only the date is signed."""
    signature = hmac.new(secret_key.encode(), date.encode(), hashlib.sha1).hexdigest().upper()
    return f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time, Signature={signature}"


class HeaderSource:
    """Creates the headers of one client's calls; all but the request id are reused within a second."""

    def __init__(self, *, client_id: str, version: str, namespace: str, request_prefix: str) -> None:
        fixed = [
            ("x-mq-client-id", client_id),
            ("x-mq-language", _LANGUAGE),
            ("x-mq-protocol", _PROTOCOL),
            ("x-mq-client-version", version),
        ]
        if namespace:
            fixed.append(("x-mq-namespace", namespace))
        self._fixed: Headers = tuple(fixed)
        self._prefix = request_prefix
        self._count = 0
        self._second = -1
        self._current: Headers = ()
        self._access_key = ""
        self._secret_key = ""
        self._session_token: str | None = None

    def sign_with(self, access_key: str, secret_key: str, session_token: str | None) -> None:
        """Sign all calls from now on; replaces earlier credentials."""
        self._access_key, self._secret_key, self._session_token = access_key, secret_key, session_token
        self._second = -1

    def next(self, now: float) -> tuple[Headers, str]:
        """The headers of a new call at `now` (Unix time), and its request id."""
        second = int(now)
        if second != self._second:
            self._current = self._for_second(second)
            self._second = second
        self._count += 1
        request_id = f"{self._prefix}-{self._count:x}"
        return (*self._current, ("x-mq-request-id", request_id)), request_id

    def _for_second(self, second: int) -> Headers:
        date = date_text(second)
        headers: Headers = (*self._fixed, ("x-mq-date-time", date))
        if self._session_token is not None:
            headers += (("x-mq-session-token", self._session_token),)
        if self._access_key:
            headers += (("authorization", authorization(self._access_key, self._secret_key, date)),)
        return headers
