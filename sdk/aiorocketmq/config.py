"""Settings of connections and clients: frozen values that are validated when they are created."""

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
    """Access key and secret key; temporary ones also have a session token and an expiry.

    All are printable ASCII; secret and token are not part of the repr. Raises ValueError for blank or other text, and
    for an expiry without time zone."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    """When they expire; a provider is called for new ones 90 seconds earlier. None: they do not expire."""

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
"""A coroutine function that returns credentials which may expire. It is called at the start, then before `expires_at`
(every minute if that is None), and after a server has refused the current ones. All clients of a connection share the
result. An exception at the start propagates from there; later the current credentials stay in use, the call is retried,
and `health()` reports it."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings: trusted roots, client certificate, name of the server.

    Raises ValueError if a file does not exist, for a certificate without a key or the reverse, and for `ca` together
    with `insecure`."""

    ca: str | Path | bytes | None = None
    """A PEM file of trusted roots, or its content; None: the system's roots."""
    certificate: str | Path | bytes | None = None
    """The client's certificate chain, PEM file or its content."""
    key: str | Path | bytes | None = field(default=None, repr=False)
    """The client's private key, PEM file or its content."""
    server_name: str | None = None
    """Replaces the name that the server's certificate is checked for; None: the host of the endpoint."""
    insecure: bool = False
    """Accept any certificate at the first connection (trust on first use) and check nothing else. For Apache's built-in
    certificate, which is self-signed for `localhost` without a subject alternative name."""

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
    """Timeouts of a client in seconds, all above 0; ValueError otherwise."""

    start: float = 10.0
    """From entering `async with` until the client is usable."""
    request: float = 3.0
    """One call that does not wait for messages; a receive adds its waiting time."""
    stop: float = 5.0
    """Ending the session with the servers on leaving `async with`, in addition to a consumer's `shutdown_timeout`."""
    not_found_grace: float = 300.0
    """How long a consumer that has received keeps polling if its topic or group becomes unknown, which servers also
    report for a while after a restart; then its `run()` or iteration raises. For one that has never received:
    `start`."""

    def __post_init__(self) -> None:
        for name in ("start", "request", "stop", "not_found_grace"):
            check_seconds(f"Timeouts.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Retry:
    """How long a producer retries a send before the error reaches the caller.

    Attempts are repeated, with the same message id, after transient failures: the server is unavailable
    (UnreachableError), throttles (BusyError), fails (ServerError), or does not know the topic or this client at the
    moment (TopicUnavailableError, SessionLostError). All other refusals are final. The half message of a transaction is
    sent again only if no earlier attempt can have stored it.

    `budget` covers the whole send: waiting for its turn in its message group, for a slot (`max_in_flight`) and for the
    route of its topic, all attempts, and the pauses between them. After it, no further attempt begins; one in progress
    still has `Timeouts.request`. A topic that the server has never known is retried for `Timeouts.start` instead.
    `send(timeout=...)` additionally bounds the call, and ends an attempt in progress. While no connection to a server
    can be made, its sends wait without a slot, and one of them at a time probes it for all.

        Producer(endpoint, retry=Retry(budget=60))     # survive outages of a minute
        Producer(endpoint, retry=Retry(attempts=1))    # leave all retries to the caller"""

    budget: float = 15.0
    """Seconds, above 0, from the call of `send` until no further attempt begins."""
    attempts: int | None = None
    """Attempts of one message, 1 to 1000; None: bounded by the budget only, while the client's settings declare 3."""
    initial: float = 0.1
    """Seconds, above 0, to pause after the first failed attempt; doubles with each one, minus up to 25 % jitter. After
    BusyError, the back-off of the server's settings is used instead."""
    maximum: float = 2.0
    """The longest pause between two attempts in seconds, at least `initial`."""

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
    """Compression of bodies by a producer (zlib), if that makes them smaller.

    The server's size limit applies to the compressed body. Apache's clients decompress as this one does; check those of
    other projects. Raises ValueError for values out of range."""

    threshold: int = 4096
    """Bodies of at least this many bytes (from 1) are compressed."""
    level: int = 5
    """Level of zlib: 1 is fastest, 9 is smallest."""

    def __post_init__(self) -> None:
        check_count("Compression.threshold", self.threshold)
        if type(self.level) is not int or not 1 <= self.level <= 9:
            raise ValueError(f"Compression.level must be an integer from 1 to 9, not {self.level!r}")


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Bounds of the messages that a PushConsumer has received and not settled; ValueError below 1."""

    messages: int = 4096
    """Number of messages, at least 1."""
    bytes: int = 64 * 1024 * 1024
    """Total size of their bodies in bytes, at least 1. A soft limit: the size of a message is known on arrival only."""

    def __post_init__(self) -> None:
        check_count("CacheLimits.messages", self.messages)
        check_count("CacheLimits.bytes", self.bytes)


_PROPERTY_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}")


def check_client_properties(properties: dict[str, str]) -> None:
    """Raise ValueError unless `properties` may travel in the client's settings."""
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
