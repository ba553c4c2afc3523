"""Interface between the client and the network: bytes, metadata and a deadline in; bytes or one error out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from aiorocketmq._core.endpoint import Endpoint

Metadata: TypeAlias = Sequence[tuple[str, str]]
Take: TypeAlias = Callable[[bytes], None]
"""Called with each answer of a stream; its exceptions end the call and propagate to the caller."""


class Failure(Enum):
    """Kind of a failure below the contract's status codes."""

    UNREACHABLE = "unreachable"
    """No connection, or it broke."""
    TIMEOUT = "timeout"
    """No answer within the deadline."""
    REFUSED = "refused"
    """The other side refuses the request as such (INVALID_ARGUMENT and the like)."""
    UNIMPLEMENTED = "unimplemented"
    UNAUTHENTICATED = "unauthenticated"
    EXHAUSTED = "exhausted"
    """The other side throttles."""
    CANCELLED = "cancelled"
    """Cancelled by the other side or by the transport, not by the caller."""
    INTERNAL = "internal"
    """Anything else."""


class TransportError(Exception):
    """A call without an answer of the contract."""

    def __init__(self, failure: Failure, text: str, *, was_sent: bool) -> None:
        super().__init__(text)
        self.failure = failure
        self.text = text
        self.was_sent = was_sent
        """Whether the request may have reached the server."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Diagnosis of an endpoint."""

    text: str
    """One clause, to follow the endpoint in an error text."""
    is_final: bool
    """Whether retries are useless: the peer uses another protocol."""


class DuplexStream(Protocol):
    """A stream open in both directions; one reader and one writer at a time."""

    async def write(self, payload: bytes) -> None:
        """Send one message; TransportError after the end of the stream."""

    async def read(self) -> bytes | None:
        """Return the next message, None after a regular end; TransportError after any other."""

    async def close(self) -> None:
        """End the stream from this side; calling it twice is harmless."""


class Transport(Protocol):
    """Connections to any number of endpoints, opened on first use; shared between clients."""

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        """Make a call with one answer, within `timeout` seconds."""

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        """Make a call with many answers, all within `timeout` seconds; each is passed to `take` when it arrives."""

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata) -> DuplexStream:
        """Open a stream without a deadline; errors of opening show at the first read or write."""

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        """Drop the connection to `endpoint`, so that the next call opens a new one (half-open TCP, server draining).

        Calls in flight have `grace` seconds to complete; this does not wait for them."""

    async def diagnose(self, endpoint: Endpoint, *, step: float) -> Diagnosis:
        """Diagnose why `endpoint` cannot be reached, in a few steps of at most `step` seconds."""

    async def close(self) -> None:
        """Close all connections; calls in flight raise TransportError."""
