"""Interface between a producer and its wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.route import Route, RouteQueue
from aiorocketmq._core.settings import ServerSettings
from aiorocketmq._core.transactions import Resolution
from aiorocketmq._session.client import Client
from aiorocketmq.errors import RocketMQError, ServerError
from aiorocketmq.message import Message, MessageType, ReceivedMessage, SendReceipt

EndCall: TypeAlias = Callable[[Resolution, bool], Awaitable[None]]
"""Ends one transaction at the server that stored it; the flag is true for the answer to a check."""
CheckHandler: TypeAlias = Callable[[str, ReceivedMessage, str, EndCall], Awaitable[None]]
"""Resolves a server's check: the server's address, the half message, its transaction id, and the call that ends it."""


class Half:
    """What a half message needs in addition to its message, and the call that ends its transaction."""

    __slots__ = ("check_after", "end", "message_id")

    def __init__(self, message_id: str, check_after: float | None) -> None:
        self.message_id = message_id
        self.check_after = check_after
        """Seconds until the server's first check; None for the server's default."""
        self.end: EndCall | None = None
        """Set when it is stored: only the server that stored it knows the transaction (R9.4)."""


class Outgoing:
    """A message to send, with its id and type."""

    # No dataclass: one is created for every message, and a frozen one costs three times as much.
    __slots__ = ("due_us", "half", "kind", "message", "message_id", "packed")

    def __init__(
        self,
        message: Message,
        message_id: str,
        *,
        kind: MessageType = MessageType.NORMAL,
        packed: bytes | None = None,
        half: Half | None = None,
        due_us: int | None = None,
    ) -> None:
        self.message = message
        self.message_id = message_id
        self.kind = kind
        self.packed = packed
        """Its compressed body, None if it is sent uncompressed."""
        self.half = half
        self.due_us = due_us
        """Delivery time in microseconds since 1970; None unless it is delayed."""


class SendCalls(Protocol):
    """The requests of one producer, and its routes."""

    isolated: set[Endpoint]
    """Servers that sends avoid, because a request failed there and none has been answered since."""
    packs_batches: bool
    """Whether the messages of a batch may be compressed."""
    on_check: CheckHandler
    """Called when a server checks a transaction."""

    @property
    def client(self) -> Client:
        """The client that makes the requests."""

    @property
    def routes(self) -> Mapping[str, Route]:
        """The cached routes by topic."""

    @property
    def settings(self) -> ServerSettings:
        """The current settings."""

    def is_unknown(self, topic: str) -> bool:
        """Whether a server has recently reported that `topic` does not exist."""

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`."""

    async def declare(self, topic: str) -> None:
        """Register this producer with the servers of `topic`, which has a cached route."""

    async def store(self, outgoing: Outgoing, chosen: RouteQueue, attempts: int) -> SendReceipt:
        """Request to store a message in `chosen`, as attempt number `attempts`; sets the end of its `half`."""

    async def store_batch(
        self, batch: Sequence[Outgoing], chosen: RouteQueue, attempts: int
    ) -> Sequence[SendReceipt | RocketMQError]:
        """Request to store plain messages of one topic consecutively; outcomes of single messages may be errors."""

    async def recall(self, receipt: SendReceipt) -> None:
        """Request to recall a delayed message."""


def miscounted(results: int, wanted: int, chosen: RouteQueue, topic: str) -> ServerError:
    """The error for an answer with another number of results."""
    return ServerError(
        f"{chosen.endpoint} answered a send to topic {topic!r} with {results} results instead of {wanted}; "
        "look at the server's log",
        endpoint=str(chosen.endpoint),
        topic=topic,
    )
