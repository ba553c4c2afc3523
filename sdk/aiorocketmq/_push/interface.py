"""What a push consumer asks of its wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio

from aiorocketmq._consume.lite_topics import LiteTopics
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.stop_states import ConsumerLife
from aiorocketmq._push.counting import PushStatistics
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._session.client import Client
from aiorocketmq.config import CacheLimits
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.hooks import Hook
from aiorocketmq.message import MessageQueue


class Receives(Protocol):
    """Where messages come from."""

    paused: set[str]
    """Topics that are paused."""

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """What is received from now."""

    async def subscribe(self, topic: str) -> None:
        """Take up a topic that the filters have got; raises what a server says against it."""

    def unsubscribe(self, topic: str) -> None:
        """Drop a topic."""

    def pause(self, topics: Collection[str]) -> None:
        """Receive nothing more of `topics` until resume()."""

    def resume(self, topics: Collection[str]) -> None:
        """Receive `topics` again."""


class Running(Protocol):
    """A push consumer from its start to its end."""

    @property
    def held(self) -> Collection[object]:
        """The messages in hand."""

    @property
    def receiving(self) -> Receives:
        """Where its messages come from."""

    @property
    def statistics(self) -> PushStatistics:
        """What was done so far, and what is in hand."""

    def stop(self) -> None:
        """Begin the stop."""

    async def finish(self, grace: anyio.CancelScope) -> None:
        """Let handlers end within `grace`, give back what is left, and end the client."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a push consumer is made of on either wire."""

    endpoint: str | Connection
    life: ConsumerLife
    handlers: Handlers
    group: str
    filters: dict[str, FilterText]
    """By topic, as they are: a subscription changes them."""
    limits: CacheLimits
    concurrency: int
    hooks: Sequence[Hook]
    options: ConnectionOptions


class PushWire(Protocol):
    """A client, and how it begins to consume."""

    @property
    def client(self) -> Client:
        """The client."""

    @property
    def lite(self) -> LiteTopics | None:
        """The lite topics that it consumes, if it is a consumer of these."""

    async def begin(self, until: float) -> Running:
        """Start the client and consume; what may pass is tried again until `until` of the loop's time. Leaves nothing
        behind on an error."""

    async def check(self, topic: str) -> None:
        """Raise UsageError where the group would lose the messages of `topic`."""

    async def declare(self, filters: Mapping[str, FilterText]) -> None:
        """Tell servers of the subscriptions as they are to be."""
