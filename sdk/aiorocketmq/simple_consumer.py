"""The simple consumer: the application receives messages and settles each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._consume.dead_letters import check_reader
from aiorocketmq._consume.group_creation import create_group
from aiorocketmq._consume.handlers import Handler, as_coroutine_function, watched
from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.lite_topics import LiteFrom, LiteTopics
from aiorocketmq._consume.settler import LONGEST_LEASE, LeaseSettler
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.names import check_group
from aiorocketmq._core.outcomes import RetryLater
from aiorocketmq._core.settings import LITE_SIMPLE, Declaration
from aiorocketmq._session.conversion import filter_text
from aiorocketmq._session.retrying import Tolerance, retried
from aiorocketmq._session.session import Session
from aiorocketmq._simple.loops import Loops
from aiorocketmq._simple.polls import Polls
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.errors import UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import ChangeReason, Hook, Role, around_handle
from aiorocketmq.many import AckManyError
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.subscription import EVERYTHING, Filter, Subscriptions, filter_of, subscriptions_by_topic
from aiorocketmq.wire import messages as pb

__all__ = ["SimpleConsumer"]


class SimpleConsumer:
    """Consumer whose caller receives messages and settles each of them.

        async with SimpleConsumer("localhost:8081", group="billing", subscriptions=["orders"]) as consumer:
            for message in await consumer.receive():
                await message.ack()

    The first parameter is an endpoint or a `Connection`; with an endpoint the consumer owns its connection, and accepts
    the connection's settings by keyword. `subscriptions` are topics, or a mapping from topic to a tag expression or
    `Sql(...)`. The group must exist on the server, unless `create_group` lets the server create an unknown one with its
    defaults, if it supports that; off by default, because a misspelt group would receive everything once more. A
    message that is neither acked nor extended is redelivered when its lease expires, until the group's attempts are
    used up.

    `lite_topics` makes it a consumer of these lite topics below its one subscribed topic, in a group bound to that
    topic. Apache's servers up to 5.5.0 support lite topics for push consumers only.

    Entering returns when every topic has a route and its servers have answered, or raises RocketMQError within
    `timeouts.start`. Leaving releases messages that were received in the background and not returned."""

    def __init__(
        self,
        endpoint: str | Connection,
        *,
        group: str,
        subscriptions: Subscriptions,
        create_group: bool = False,
        lite_topics: Iterable[str] | None = None,
        hooks: Sequence[Hook] = (),
        **options: Unpack[ConnectionOptions],
    ) -> None:
        check_group(group)
        filters = subscriptions_by_topic(subscriptions)
        if lite_topics is not None and len(filters) != 1:
            raise ValueError("a consumer of lite topics subscribes to one topic, their parent")
        self._session = Session(
            endpoint,
            Declaration(
                client_type="SIMPLE_CONSUMER" if lite_topics is None else LITE_SIMPLE,
                group=group,
                subscriptions={topic: filter_text(each) for topic, each in filters.items()},
            ),
            role=Role.SIMPLE,
            hooks=hooks,
            commands={"notify_unsubscribe_lite_command": self._on_lite_topic_revoked},
            first_call=self._create_group if create_group and filters else None,
            options=options,
        )
        self._lite = (
            None if lite_topics is None else LiteTopics(self._session, next(iter(filters)), lite_topics)
        )
        self._settler = LeaseSettler(self._session)
        self._polls = Polls(self._session, self._settler)
        self._loops = Loops(self._session, self._settler)
        self._changing = asyncio.Lock()
        """Changes of subscriptions at a time would lose one."""

    @property
    def client_id(self) -> str:
        """The name that servers know this client by; empty before the start."""
        return self._session.client_id

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._session.group or ""

    async def __aenter__(self) -> Self:
        await self._session.start()
        try:
            await check_reader(self._session, self._session.declaration.subscriptions)
            if self._lite is not None:
                await self._lite.begin()
        except BaseException:
            await self._session.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await uninterrupted(self._close())

    async def _close(self) -> None:
        await self._loops.end_all()
        await self._polls.release()
        await self._session.stop()

    def health(self) -> Health:
        """Return the current state of this client; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can work: it is running, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def receive(
        self, *, max_messages: int = 32, invisible: float = 30.0, wait: float = 20.0
    ) -> list[ReceivedMessage]:
        """Return up to `max_messages` (at least 1), waiting up to `wait` seconds for the first; empty if none arrived.

        Each is invisible to others of the group for `invisible` seconds (10 to 43,200 on Apache's servers), its lease.
        Apache's servers wait 5 to 20 s, whatever `wait` is. With several topics or brokers, all are polled
        concurrently; what the others return after the first answer is kept for the next call.

        Raises the server's refusal, UnreachableError, and ClosedError outside of `async with`. Cancelled or unanswered,
        it may have leased messages, which are redelivered when their lease expires."""
        if max_messages < 1:
            raise ValueError(f"max_messages must be at least 1, not {max_messages!r}")
        if not 0 < invisible <= LONGEST_LEASE:
            raise ValueError(f"invisible must be from 0 to {LONGEST_LEASE:g} seconds, not {invisible!r}")
        if not wait >= 0:
            raise ValueError(f"wait must be a number of seconds from 0, not {wait!r}")
        self._session.check_usable()
        messages = await self._polls.receive(max_messages=max_messages, invisible=invisible, wait=wait)
        self._session.note_success()
        return messages

    async def messages(
        self,
        *,
        max_messages: int = 32,
        invisible: float = 30.0,
        wait: float = 20.0,
        keep_alive: bool = False,
    ) -> AsyncIterator[ReceivedMessage]:
        """Receive forever and yield one message at a time; parameters as in `receive`.

        With `keep_alive`, the lease of each message is renewed until its first ack or release, also one that fails, or
        until the loop is left. Leaving the loop, also by a cancellation, releases messages of the batch that were not
        yielded; those that were yielded stay leased.

        The loop survives outages: failed polls are retried with back-off. It raises permanent refusals: an illegal
        filter, a missing right, a topic of the wrong type at once; an unknown topic or group after
        `Timeouts.not_found_grace`, or `Timeouts.start` if nothing was ever received."""
        loop = self._loops.begin(self._keeper(invisible) if keep_alive else None)
        watch = self._session.watch("receiving messages")
        tolerance = Tolerance(self._session, watch)

        async def poll() -> list[ReceivedMessage]:
            length = tolerance.poll_length(wait)
            return await self.receive(max_messages=max_messages, invisible=invisible, wait=length)

        try:
            while True:
                batch = await retried(poll, tolerance.delay_after)
                tolerance.worked()
                await tolerance.rest(brings=bool(batch))
                loop.fill(batch)
                while (message := loop.next()) is not None:
                    yield message
        finally:
            watch.end()
            await self._loops.end(loop)

    def _keeper(self, invisible: float) -> LeaseKeeper:
        session = self._session
        return LeaseKeeper(
            invisible=invisible,
            change=self._settler.change,
            spawn=session.spawn,
            clock=session.clock,
            watch=session.watch("renewing leases"),
        )

    async def ack(self, messages: Sequence[ReceivedMessage]) -> None:
        """Acknowledge many messages, those of one topic and server in one call each.

        If some were not acknowledged, for instance because their leases expired, AckManyError carries an outcome for
        each message; the others are acknowledged. Cancelled or unanswered, calls may or may not have taken effect, and
        may be repeated. Raises ClosedError outside of `async with`."""
        self._session.check_running()
        errors = await self._settler.ack(messages)
        failed = [error for error in errors if error is not None]
        if failed:
            raise AckManyError(
                f"{len(failed)} of {len(messages)} messages were not acknowledged, the first because {failed[0].text}",
                outcomes=tuple(zip(messages, errors, strict=True)),
            ) from failed[0]

    async def handle(self, message: ReceivedMessage, handler: Handler) -> None:
        """Call `handler` with a message inside the hooks' `handle`, as a push consumer would, and settle it.

        So hooks that trace, record or deduplicate observe this consumer's work as well. Returning acknowledges, unless
        the handler settled the message itself; RetryLater makes it visible again after its seconds, and is not raised;
        any other exception releases it and is raised, DeadLetter included: only push consumers move messages to the
        dead-letter topic. A plain function runs in a worker thread. Cancelled, it cancels a coroutine function and
        releases the message. The lease is not renewed: receive by `messages(keep_alive=True)` for work that may exceed
        it.

        Raises what the handler raises, LeaseLostError if the lease expired before the acknowledgement, and ClosedError
        outside of `async with`."""
        self._session.check_running()
        call = around_handle(self._session.hooks, as_coroutine_function(handler))

        async def run(message: ReceivedMessage) -> Exception | None:
            try:
                await call(message)
            except Exception as failure:  # of the application's code: raised again below, or acted on
                return failure
            return None

        async with message:
            failure = await watched(self._session, message, run)
            if isinstance(failure, RetryLater):
                await self._settler.change(message, failure.seconds, reason=ChangeReason.RETRY)
            elif failure is not None:
                raise failure

    async def _create_group(self) -> None:
        topic = next(iter(self._session.declaration.subscriptions))
        await create_group(self._session.network, self.group, topic)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics that it consumes; a server may revoke one and assign it to another consumer."""
        return frozenset() if self._lite is None else self._lite.names

    async def add_lite_topics(self, *names: str, start: LiteFrom | None = None) -> None:
        """Receive from these lite topics as well, those that the group has never read from `start` (default:
        beginning).

        If a server refuses, for instance with QuotaExceededError, it raises that and receives from none of them. Raises
        UsageError if the consumer was created without `lite_topics`, and ClosedError outside of `async with`.
        Cancelled, servers may have added them."""
        await self._lite_topics().add(names, start)

    async def remove_lite_topics(self, *names: str) -> None:
        """Stop receiving from these lite topics; messages received before can still be settled.

        Raises UsageError for one that is not consumed, and ClosedError outside of `async with`."""
        await self._lite_topics().remove(names)

    def _lite_topics(self) -> LiteTopics:
        self._session.check_running()
        if self._lite is None:
            raise UsageError("this consumer has no lite topics; give lite_topics= when it is created")
        return self._lite

    async def _on_lite_topic_revoked(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        if self._lite is not None:
            self._lite.revoked_by_server(command.notify_unsubscribe_lite_command.lite_topic)

    async def subscribe(self, topic: str, wanted: str | Filter = EVERYTHING) -> None:
        """Subscribe to `topic`, or change its filter to `wanted` (default: all messages).

        Returns when the servers have the subscription; polls in flight still use the old one. Raises ValueError for a
        malformed topic or filter, TopicNotFoundError, IllegalFilterError, UnreachableError, UsageError for a
        dead-letter topic that must not be read, and keeps the old subscription then. Cancelled, servers may have the
        new one."""
        filter_ = filter_text(filter_of(topic, wanted))
        await check_reader(self._session, (topic,))
        async with self._changing:
            declaration = self._session.declaration
            filters = {**declaration.subscriptions, topic: filter_}
            await self._session.declare(replace(declaration, subscriptions=filters))

    async def unsubscribe(self, topic: str) -> None:
        """Stop receiving from `topic`; messages received before can still be settled.

        Raises UsageError if it is not subscribed, and what `subscribe` raises."""
        async with self._changing:
            declaration = self._session.declaration
            filters = dict(declaration.subscriptions)
            if filters.pop(topic, None) is None:
                raise UsageError(f"topic {topic!r} is not subscribed", topic=topic, group=self.group)
            await self._session.declare(replace(declaration, subscriptions=filters))
