"""What a producer asks of servers, whichever wire carries it."""

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
"""Ends one transaction at the server that remembers it; the flag says whether that has asked."""
CheckHandler: TypeAlias = Callable[[str, ReceivedMessage, str, EndCall], Awaitable[None]]
"""Answers a server, named by its address, that asks about the transaction of a half message with this id."""


class Half:
    """What a half message needs beyond its message, and what ends its transaction."""

    __slots__ = ("check_after", "end", "message_id")

    def __init__(self, message_id: str, check_after: float | None) -> None:
        self.message_id = message_id
        self.check_after = check_after
        """Seconds after which the server may ask; None leaves it to the server."""
        self.end: EndCall | None = None
        """Set when it is stored: only who stored it remembers the transaction (R9.4)."""


class Outgoing:
    """One message as it travels."""

    # No dataclass: one is made for every message, and a frozen one costs three times as much.
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
        """Its body, if it travels compressed."""
        self.half = half
        self.due_us = due_us
        """When it is due, in microseconds since 1970, if it is a delayed one."""


class SendCalls(Protocol):
    """One producer's requests, and what it knows of its topics."""

    isolated: set[Endpoint]
    """Servers that sends avoid, because a request failed there and none has been answered since."""
    packs_batches: bool
    """Whether the messages of a batch may be compressed."""
    on_check: CheckHandler
    """Called when a server asks about a transaction."""

    @property
    def client(self) -> Client:
        """The client whose requests these are."""

    @property
    def routes(self) -> Mapping[str, Route]:
        """The routes that are known, by topic."""

    @property
    def settings(self) -> ServerSettings:
        """What servers want of a producer."""

    def is_unknown(self, topic: str) -> bool:
        """Whether a server has said lately that `topic` does not exist."""

    async def route(self, topic: str) -> Route:
        """Where the queues of `topic` are."""

    async def declare(self, topic: str) -> None:
        """Tell the servers of `topic`, whose route is known, that this producer sends to it."""

    async def store(self, outgoing: Outgoing, chosen: RouteQueue, attempts: int) -> SendReceipt:
        """Ask once to store a message in `chosen`, the `attempts`-th time in all; sets the end of its `half`."""

    async def store_batch(
        self, batch: Sequence[Outgoing], chosen: RouteQueue, attempts: int
    ) -> Sequence[SendReceipt | RocketMQError]:
        """Ask once to store plain messages of one topic, one behind the other; the error of a single one stands in its
        place."""

    async def recall(self, receipt: SendReceipt) -> None:
        """Ask to take a delayed message back."""


def miscounted(results: int, wanted: int, chosen: RouteQueue, topic: str) -> ServerError:
    """The error for an answer with another number of results."""
    return ServerError(
        f"{chosen.endpoint} answered a send to topic {topic!r} with {results} results instead of {wanted}; "
        "look at the server's log",
        endpoint=str(chosen.endpoint),
        topic=topic,
    )
