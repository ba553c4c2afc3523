"""Interface between a push consumer and its wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiorocketmq._aio.limit import Limit
from aiorocketmq._consume.lite_topics import LiteTopics
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.stop_states import ConsumerLife
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._push.statistics import PushStatistics
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
        """The queues that it receives from."""

    async def subscribe(self, topic: str) -> None:
        """Receive a topic that was added to the filters; raises the server's refusal."""

    def unsubscribe(self, topic: str) -> None:
        """Drop a topic."""

    def pause(self, topics: Collection[str]) -> None:
        """Stop receiving `topics` until resume()."""

    def resume(self, topics: Collection[str]) -> None:
        """Receive `topics` again."""


class Running(Protocol):
    """A running push consumer."""

    @property
    def in_flight(self) -> Collection[object]:
        """The messages in flight."""

    @property
    def receiving(self) -> Receives:
        """The source of its messages."""

    @property
    def statistics(self) -> PushStatistics:
        """Counters since the start, and what is in flight."""

    def stop(self) -> None:
        """Begin the stop."""

    async def finish(self, grace: Limit) -> None:
        """Wait for handlers within `grace`, release what is left, and end the client."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a push consumer that do not depend on the wire."""

    endpoint: str | Connection
    life: ConsumerLife
    handlers: Handlers
    group: str
    filters: dict[str, FilterText]
    """By topic; a subscription changes this mapping."""
    limits: CacheLimits
    concurrency: int
    hooks: Sequence[Hook]
    options: ConnectionOptions


class PushWire(Protocol):
    """A client, and how it starts to consume."""

    @property
    def client(self) -> Client:
        """The client."""

    @property
    def lite(self) -> LiteTopics | None:
        """The lite topics that it consumes, None if it has none."""

    async def begin(self, until: float) -> Running:
        """Start the client and consume; transient errors are retried until `until` of the loop's time. Leaves nothing
        behind after an error."""

    async def check(self, topic: str) -> None:
        """Raise UsageError if the group would lose the messages of `topic`."""

    async def declare(self, filters: Mapping[str, FilterText]) -> None:
        """Send the subscriptions to the servers."""
