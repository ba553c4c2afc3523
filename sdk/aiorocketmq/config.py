"""Settings of connections and clients: small frozen values, checked when made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

__all__ = ["CacheLimits", "Compression", "Credentials", "CredentialsProvider", "Retry", "Timeouts", "Tls"]


def check_seconds(name: str, value: float) -> None:
    """Raise ValueError unless `value` is a duration above 0."""
    if not value > 0 or value == float("inf"):
        raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")


def check_count(name: str, value: int) -> None:
    """Raise ValueError unless `value` is an integer from 1."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key with its secret, and token and end of temporary ones. Secret and token are never printed."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    """When they end; a provider is asked for new ones a minute and a half before."""

    def __post_init__(self) -> None:
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise ValueError("expires_at must be a datetime with a time zone")
        for name in ("access_key", "secret_key", "session_token"):
            value = getattr(self, name)
            if value is None and name == "session_token":
                continue
            if (
                not isinstance(value, str)
                or not value.strip()
                or not value.isascii()
                or not value.isprintable()
            ):
                raise ValueError(f"{name} must be printable ASCII text that is not blank")


CredentialsProvider: TypeAlias = Callable[[], Awaitable[Credentials]]
"""A coroutine function asked for credentials that may expire: at the start, then before `expires_at` (every minute
where that is not given), and when a server refuses those in use. One answer serves all clients of a connection."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to speak TLS: with the system's roots, an own CA, a client certificate.

    `server_name` replaces the name that the server's certificate is checked for. Apache's built-in
    certificate is self-signed for `localhost` without a subject alternative name: `insecure=True` takes
    whatever certificate the server shows at the first connection (trust on first use) and checks nothing
    else."""

    ca: str | Path | bytes | None = None
    """A PEM file of trusted roots, or its bytes; None is the system's roots."""
    certificate: str | Path | bytes | None = None
    """The client's certificate chain, PEM file or bytes."""
    key: str | Path | bytes | None = field(default=None, repr=False)
    """The client's private key, PEM file or bytes."""
    server_name: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("Tls needs certificate and key together, or neither")
        if self.insecure and self.ca is not None:
            raise ValueError("Tls takes either ca or insecure=True, not both")
        for name in ("ca", "certificate", "key"):
            value = getattr(self, name)
            if isinstance(value, str | Path) and not Path(value).is_file():
                raise ValueError(f"Tls {name} file {str(value)!r} does not exist")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long things may take, in seconds."""

    start: float = 10.0
    """Entering `async with` until the client is usable."""
    request: float = 3.0
    """One call that does not wait for messages; a receive adds its waiting time."""
    stop: float = 5.0
    """Telling the servers good-bye on leaving `async with`, beyond a consumer's own grace."""
    not_found_grace: float = 300.0
    """How long a consumer that has received goes on when its topic or group becomes unknown, which servers also report
    for a while after a restart; then its `run()` or iteration raises. One that has never received: `start`."""

    def __post_init__(self) -> None:
        for name in ("start", "request", "stop", "not_found_grace"):
            check_seconds(f"Timeouts.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Retry:
    """How long a producer keeps trying to store a message before the error reaches the caller.

    Attempts are repeated, with the same message id, after what may pass: a server that is unavailable
    (UnreachableError), throttles (BusyError), fails for the moment (ServerError), or does not know its topic or this
    client for the moment (TopicUnavailableError, SessionLostError). All other refusals are final at once. A half
    message of a transaction is repeated only if no earlier attempt can have stored it.

    `budget` is for one send, wherever its time goes: waiting for its turn in its message group, for a slot
    (`max_in_flight`) and for the route of its topic, all attempts, and the waits between them. When it is spent, no
    further attempt begins; one under way still has `Timeouts.request`. A topic that the server does not know yet is
    waited for `Timeouts.start` instead. `send(timeout=...)` bounds the call in addition, and ends an attempt
    under way. While no connection to a server can be made, its sends wait without a slot, and one of them at a time
    tries it for all.

        Producer(endpoint, retry=Retry(budget=60))     # survive outages of a minute
        Producer(endpoint, retry=Retry(attempts=1))    # leave all retries to the caller"""

    budget: float = 15.0
    """Seconds, above 0, from the call of `send` until no further attempt begins."""
    attempts: int | None = None
    """Attempts of one message, 1 to 1000; None lets only the budget bound them. The settings declare 3 then."""
    initial: float = 0.1
    """Seconds, above 0, to wait after the first failed attempt; doubles with each one, less a random part of up to a
    quarter. Throttling servers have the waits of their own settings instead."""
    maximum: float = 2.0
    """The longest wait between two attempts in seconds, at least `initial`."""

    def __post_init__(self) -> None:
        for name in ("budget", "initial", "maximum"):
            check_seconds(f"Retry.{name}", getattr(self, name))
        if self.maximum < self.initial:
            raise ValueError(
                f"Retry.maximum must be at least Retry.initial ({self.initial!r} s), not {self.maximum!r}"
            )
        if self.attempts is not None:
            check_count("Retry.attempts", self.attempts)
            if self.attempts > 1000:
                raise ValueError(f"Retry.attempts must be at most 1000, not {self.attempts!r}")


@dataclass(frozen=True, slots=True)
class Compression:
    """Which bodies a producer compresses (zlib): those of `threshold` bytes or more, where that makes them smaller.

    The server's limit of the body's size is for the compressed one. Clients of RocketMQ unpack by themselves, as ours
    do; check those that were written by others."""

    threshold: int = 4096
    level: int = 5
    """1 is fastest, 9 is smallest."""

    def __post_init__(self) -> None:
        check_count("Compression.threshold", self.threshold)
        if type(self.level) is not int or not 1 <= self.level <= 9:
            raise ValueError(f"Compression.level must be an integer from 1 to 9, not {self.level!r}")


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much a PushConsumer holds that its handlers have not finished."""

    messages: int = 4096
    bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        check_count("CacheLimits.messages", self.messages)
        check_count("CacheLimits.bytes", self.bytes)


_PROPERTY_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}")


def check_client_properties(properties: dict[str, str]) -> None:
    """Raise ValueError unless `properties` may travel in the client's settings (client-behaviour.md, 1.1)."""
    if len(properties) > 32:
        raise ValueError(f"at most 32 client properties are allowed, not {len(properties)}")
    for key, value in properties.items():
        if not _PROPERTY_KEY.fullmatch(key) or key.startswith("rocketmq."):
            raise ValueError(
                f"client property key {key!r} must be a letter and up to 63 of letters, digits, "
                "'_', '.', '-', and must not start with 'rocketmq.'"
            )
        if len(value) > 256:
            raise ValueError(f"client property {key!r} is longer than 256 characters")
    if sum(len(key.encode()) + len(value.encode()) for key, value in properties.items()) > 4096:
        raise ValueError("client properties are larger than 4096 bytes together")
