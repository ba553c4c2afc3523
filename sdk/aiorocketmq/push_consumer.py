"""The push consumer: calls a handler with each message and settles the message by the handler's outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._consume.handlers import Handler
from aiorocketmq._consume.lite_topics import LiteFrom, LiteTopics
from aiorocketmq._core.names import check_group
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.outcomes import DeadLetter, RetryLater
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.stop_states import ConsumerLife
from aiorocketmq._pull.interface import Broadcast
from aiorocketmq._pull.rebalancing import checked_allocation
from aiorocketmq._push.grpc_wire import GrpcPush
from aiorocketmq._push.handlers import Handlers, handlers_by_topic
from aiorocketmq._push.interface import Parts, PushWire, Running
from aiorocketmq._push.remoting_wire import RemotingPush
from aiorocketmq._push.statistics import PushStatistics
from aiorocketmq._session.conversion import filter_text
from aiorocketmq._transport.network import loop_time
from aiorocketmq.allocation import Allocation
from aiorocketmq.config import CacheLimits
from aiorocketmq.connection import Connection, ConnectionOptions, is_remoting
from aiorocketmq.errors import ClosedError, RocketMQError, UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import Hook
from aiorocketmq.message import MessageQueue
from aiorocketmq.subscription import EVERYTHING, Sql, Subscriptions, Tags, filter_of, subscriptions_by_topic

__all__ = ["DeadLetter", "Handler", "PushConsumer", "PushStatistics", "RetryLater"]

# The range that servers accept for the lease of a receive (live-broker-consumption.md 2).
MIN_INVISIBLE = 10.0
MAX_INVISIBLE = 43_200.0


class PushConsumer:
    """Consumer that calls `handler` with each message of the group's subscriptions, until it is stopped.

        async with PushConsumer(rocketmq, group="billing", subscriptions=["orders"], handler=handle) as consumer:
            await consumer.run()

    A handler is a coroutine function, or a plain function, which then runs in a worker thread. Returning acknowledges
    the message; any exception is a failure: the server redelivers the message by the group's back-off, and after the
    group's last attempt it goes to the dead-letter topic. `raise RetryLater(30)` chooses the delay, `raise
    DeadLetter("why")` moves it there at once. Delivery is at least once: a message may be redelivered after it was
    handled, for instance if an ack is lost.

    The server decides whether the group is ordered. If so, messages of one message group are handled one at a time in
    the order in which they were sent; a failed one is retried locally, after the back-off, while those behind it wait;
    after the last attempt it goes to the dead-letter topic and the next one is handled.

    At `namesrv://` addresses, which every RocketMQ has, the consumer is a member of a classic group: it owns queues of
    its topics by `allocation`, pulls from them, and commits its offsets every 5 s and at each rebalance. A failed
    message is sent back to its broker, which redelivers it after 10 s, 30 s, 1 min …, `RetryLater` rounded up to one of
    the levels (1 s to 2 h). There the consumer decides by `ordered`: messages of a queue are handled one at a time,
    while the queue is locked. Messages have no leases (`message.ack()` raises UsageError), and members may be mixed
    with Java's classic clients.

    Entering `async with` returns when the first queues are assigned (at name servers: when brokers know the member,
    whose queues follow), or raises RocketMQError within `Timeouts.start`, which names endpoint, topic or group. Leaving
    it stops receiving, gives running handlers `shutdown_timeout` seconds before it cancels them, releases all messages
    that were not handled, and leaves no task behind. A plain function cannot be cancelled: its thread continues, while
    its message may be redelivered to others.
    """

    def __init__(
        self,
        endpoint: str | Connection,
        *,
        group: str,
        subscriptions: Subscriptions,
        handler: Handler | None = None,
        handlers: Mapping[str, Handler] | None = None,
        concurrency: int = 20,
        shutdown_timeout: float = 30.0,
        handler_timeout: float | None = None,
        cache: CacheLimits | None = None,
        invisible: float = 30.0,
        create_group: bool = False,
        lite_topics: Iterable[str] | None = None,
        start: Offset | datetime | None = None,
        allocation: Allocation | None = None,
        ordered: bool = False,
        broadcast: Broadcast | None = None,
        allow_pop_members: bool = False,
        hooks: Sequence[Hook] = (),
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Check everything; nothing is sent before `async with`.

        `concurrency` (at least 1) bounds how many handlers run at a time. `handler_timeout` (seconds above 0) cancels a
        handler that takes longer, which counts as a failure. `cache` bounds the messages in flight, by count and bytes.
        `invisible` is the length of each lease in seconds (10 to 43,200): it is renewed while a message is in flight,
        and after a crash it is the time until the messages are redelivered to others. `create_group` lets the server
        create an unknown group with its defaults (not ordered), if it supports that; off by default, because a misspelt
        group would consume everything once more. `lite_topics` makes it a consumer of these lite topics below its one
        subscribed topic (they may be changed while it runs, and may be none at first); the group must be bound to that
        topic. Each lite topic is handled in order, different ones concurrently.

        For name servers only: `start` is the position in a queue for which the group has no committed offset; by
        default brokers decide, as for Java's clients: a young queue from its first message, others from their end.
        `allocation` (default `Averagely()`) and `ordered` must be the same for all members; with `broadcast` each
        member reads all queues, keeps its progress in a file, and a failure is logged and not retried. A group with
        gRPC consumers, which move its offsets, is refused with a UsageError, at the start or when one joins later,
        unless `allow_pop_members`. `invisible`, `create_group` and `lite_topics` are for gRPC only.

        Raises ValueError or TypeError for invalid arguments; a topic `%RETRY%...` is refused, because reading it can
        stop redelivery for every group.
        """
        check_group(group)
        filters = subscriptions_by_topic(subscriptions)
        if not filters:
            raise ValueError("subscriptions must name at least one topic")
        _check_numbers(concurrency, shutdown_timeout, handler_timeout, invisible)
        if lite_topics is not None and len(filters) != 1:
            raise ValueError("a consumer of lite topics subscribes to one topic, their parent")
        self._group = group
        self._filters = {topic: filter_text(wanted) for topic, wanted in filters.items()}
        self._changing = asyncio.Lock()
        """Changes of subscriptions at a time would lose one."""
        self._shutdown_timeout = shutdown_timeout
        self._handler = handler
        self._handlers = Handlers(
            handlers_by_topic(handler, handlers, filters),
            hooks=tuple(hooks),
            timeout=handler_timeout,
            concurrency=concurrency,
        )
        parts = Parts(
            endpoint,
            ConsumerLife(),
            self._handlers,
            group,
            self._filters,
            cache or CacheLimits(),
            concurrency,
            hooks,
            options,
        )
        self._wire: PushWire
        if is_remoting(endpoint):
            if lite_topics is not None:
                raise ValueError("lite topics are consumed over gRPC only: give the address of a proxy")
            allocation = checked_allocation(start, allocation, ordered=ordered, broadcast=broadcast)
            self._wire = RemotingPush(
                parts,
                start=start,
                allocation=allocation,
                ordered=ordered,
                broadcast=broadcast,
                allow_pop_members=allow_pop_members,
            )
        else:
            if ordered or allow_pop_members or (start, allocation, broadcast) != (None, None, None):
                raise ValueError(
                    "start, allocation, ordered, broadcast and allow_pop_members are for name servers ('namesrv://…'); "
                    "over gRPC the server decides"
                )
            self._wire = GrpcPush(
                parts, invisible=invisible, create_group=create_group, lite_topics=lite_topics
            )
        self._session = self._wire.client
        self._lite = self._wire.lite
        self._stop_requested = Signal()
        self._has_raised = False
        """Whether `run()` has raised the error that stopped the consumer."""
        self._session.on_failure.append(self.stop)
        self._running: Running | None = None

    async def __aenter__(self) -> Self:
        """Start. Raises RocketMQError if the servers cannot be reached or refuse; nothing is left behind then."""
        until = loop_time() + self._session.timeouts.start
        running = await self._wire.begin(until)
        self._running = running
        if self._session.failure is not None:  # the first polls were refused meanwhile
            await self.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop: drain handlers within `shutdown_timeout`, release what was not handled, notify servers, end all tasks.

        Cancelled meanwhile, it does the same without waiting for handlers any longer."""
        self.stop()
        running, self._running = self._running, None
        if running is not None:
            # A stop is mostly caused by a cancellation, which must not cut it short; a second one ends the timeout.
            grace = Limit(self._shutdown_timeout)
            await uninterrupted(running.finish(grace), hurry=grace.shorten)
        if error is None and not self._has_raised:
            self._raise_failure()

    async def run(self) -> None:
        """Wait until stop() is called or the caller is cancelled; messages are handled with or without this.

        Raises what stops the consumer permanently: an illegal filter, a missing right or a topic of the wrong type at
        once; an unknown topic or group after `Timeouts.not_found_grace`, or `Timeouts.start` if nothing was ever
        received; BackgroundTaskError. Without `run()`, leaving the block raises it. Raises ClosedError outside of
        `async with`.
        """
        self._open()
        await self._stop_requested.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure = self._session.failure
        if failure is not None:
            self._has_raised = True
            raise failure

    def stop(self) -> None:
        """Stop receiving, start no more handlers, release what waits for one, and let run() return.

        Running handlers have `shutdown_timeout` from when the block is left. Returns at once; may be called from a
        handler, and more than once.
        """
        self._stop_requested.set()
        if self._running is not None:
            self._running.stop()

    async def subscribe(
        self, topic: str, wanted: str | Tags | Sql = EVERYTHING, *, handler: Handler | None = None
    ) -> None:
        """Subscribe to `topic`, or change its filter to `wanted` (default: all messages) from its next poll on.

        `handler` is the consumer's own by default. Raises ValueError for a malformed topic or filter or if there is no
        handler, the server's refusal (TopicNotFoundError, IllegalFilterError …), UnreachableError, and ClosedError
        outside of `async with`; the subscription is unchanged then. Cancelled, servers may have the new one.
        """
        running = self._open()
        wanted = filter_of(topic, wanted)
        handler = handler or self._handler
        if handler is None and not self._handlers.has(topic):
            raise ValueError(f"topic {topic!r} has no handler; give handler=")
        await self._wire.check(topic)
        async with self._changing:
            before = dict(self._filters)
            await self._declare({**before, topic: filter_text(wanted)})
            try:
                await running.receiving.subscribe(topic)
            except RocketMQError:
                await self._declare(before)
                raise
            # Its first poll has begun without an await in between: no message can be here yet.
            if handler is not None:
                self._handlers.set(topic, handler)

    async def unsubscribe(self, topic: str) -> None:
        """Stop receiving `topic`; messages in flight are still handled. No effect if it is not subscribed.

        Raises ClosedError outside of `async with`."""
        running = self._open()
        async with self._changing:
            running.receiving.unsubscribe(topic)
            await self._declare({other: each for other, each in self._filters.items() if other != topic})

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that it consumes; a server may revoke one and assign it to another consumer."""
        return frozenset() if self._lite is None else self._lite.names

    async def add_lite_topics(self, *names: str, start: LiteFrom | None = None) -> None:
        """Consume these lite topics as well, those that the group has never read from `start` (default: the beginning).

        If a server refuses, for instance with QuotaExceededError, it raises that and consumes none of them. Raises
        UsageError if the consumer was created without `lite_topics`, and ClosedError outside of `async with`.
        Cancelled, servers may have added them."""
        self._open()
        await self._lite_topics().add(names, start)

    async def remove_lite_topics(self, *names: str) -> None:
        """Stop consuming these lite topics; messages in flight are still handled.

        Raises UsageError for one that is not consumed, and ClosedError outside of `async with`."""
        self._open()
        await self._lite_topics().remove(names)

    def _lite_topics(self) -> LiteTopics:
        if self._lite is None:
            raise UsageError("this consumer has no lite topics; give lite_topics= when it is created")
        return self._lite

    def pause(self, *topics: str) -> None:
        """Stop receiving these topics, or all, until resume(); messages in flight are still handled.

        Polls in flight are cancelled; what they would have returned is redelivered after 3 to 5 s, by servers before
        5.5 after a whole lease. Raises ValueError for a topic that is not subscribed, and
        ClosedError outside of `async with`."""
        self._open().receiving.pause(self._chosen(topics))

    def resume(self, *topics: str) -> None:
        """Receive these topics again, or all; no effect on those that are not paused. Raises as pause() does."""
        self._open().receiving.resume(self._chosen(topics))

    @property
    def paused(self) -> frozenset[str]:
        """The topics that are paused; none outside of `async with`."""
        return frozenset() if self._running is None else frozenset(self._running.receiving.paused)

    def _chosen(self, topics: tuple[str, ...]) -> Collection[str]:
        for topic in topics:
            if topic not in self._filters:
                raise ValueError(f"topic {topic!r} is not subscribed")
        return topics or tuple(self._filters)

    async def _declare(self, filters: dict[str, FilterText]) -> None:
        await self._wire.declare(filters)
        # The polls read the same mapping.
        self._filters.clear()
        self._filters.update(filters)

    def _open(self) -> Running:
        if self._running is None:
            raise ClosedError(
                "the PushConsumer is not open; use it inside its `async with`", group=self._group
            )
        self._session.check_running()
        return self._running

    def health(self) -> Health:
        """Return the current state of this client; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can work: it is running, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    @property
    def client_id(self) -> str:
        """The name that servers know this client by; empty before the start."""
        return self._session.client_id

    @property
    def assigned_queues(self) -> tuple[MessageQueue, ...]:
        """The queues that it receives from; id -1 stands for all queues of a broker. Empty if it is not running."""
        return () if self._running is None else self._running.receiving.queues

    @property
    def messages_in_flight(self) -> int:
        """The number of messages that were received and are not settled."""
        return 0 if self._running is None else len(self._running.in_flight)

    @property
    def statistics(self) -> PushStatistics:
        """Counters since the start, and what is in flight now; raises ClosedError outside of `async with`."""
        return self._open().statistics


def _check_numbers(
    concurrency: int, shutdown_timeout: float, handler_timeout: float | None, invisible: float
) -> None:
    if type(concurrency) is not int or concurrency < 1:
        raise ValueError(f"concurrency must be an integer of at least 1, not {concurrency!r}")
    if not shutdown_timeout >= 0:
        raise ValueError(f"shutdown_timeout must be seconds from 0, not {shutdown_timeout!r}")
    if handler_timeout is not None and not handler_timeout > 0:
        raise ValueError(f"handler_timeout must be seconds above 0, not {handler_timeout!r}")
    if not MIN_INVISIBLE <= invisible <= MAX_INVISIBLE:
        raise ValueError(
            f"invisible must be {MIN_INVISIBLE:.0f} to {MAX_INVISIBLE:.0f} seconds, not {invisible!r}"
        )
