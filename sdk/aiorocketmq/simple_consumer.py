"""The consumer that asks for messages and settles each by itself."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._consume.dead_letters import check_reader
from aiorocketmq._consume.group_creation import make_group
from aiorocketmq._consume.handlers import Handler, as_coroutine_function, watched
from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.lite_topics import LiteFrom, LiteTopics
from aiorocketmq._consume.settle import LONGEST_LEASE, Settling
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.names import check_group
from aiorocketmq._core.outcomes import RetryLater
from aiorocketmq._core.settings import LITE_SIMPLE, Declaration
from aiorocketmq._session.conversion import filter_text
from aiorocketmq._session.persistence import Persistence
from aiorocketmq._session.retrying import retried
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


logger = logging.getLogger(__name__)


class SimpleConsumer:
    """Receives messages when asked, and lets the caller settle each one.

        async with SimpleConsumer("localhost:8081", group="billing", subscriptions=["orders"]) as consumer:
            for message in await consumer.receive():
                await message.ack()

    The first parameter is an endpoint or a `Connection`; with an endpoint the consumer owns its connection, and takes
    the connection's settings by keyword. `subscriptions` are topics, or a mapping from topic to a tag expression or
    `Sql(...)`. The group must exist on the server, unless `create_group` has it create an unknown one with its
    defaults, where it does so at all; off by default, because a misspelt group would receive everything once more. A
    message that is neither acked nor extended comes again when its lease ends, until the group's attempts are used up.

    `lite_topics` makes it a consumer of these lite topics below its one subscribed topic, in a group bound to that
    topic. Apache's servers up to 5.5.0 know lite consumers of the other kind only, see `PushConsumer`.

    Entering returns when every topic is found and its servers have answered, or raises within `timeouts.start`."""

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
        wanted = subscriptions_by_topic(subscriptions)
        if lite_topics is not None and len(wanted) != 1:
            raise ValueError("a consumer of lite topics subscribes to one topic, their parent")
        self._session = Session(
            endpoint,
            Declaration(
                client_type="SIMPLE_CONSUMER" if lite_topics is None else LITE_SIMPLE,
                group=group,
                subscriptions={topic: filter_text(each) for topic, each in wanted.items()},
            ),
            role=Role.SIMPLE,
            hooks=hooks,
            commands={"notify_unsubscribe_lite_command": self._taken_away},
            first_call=self._make_group if create_group and wanted else None,
            options=options,
        )
        self._lite = (
            None if lite_topics is None else LiteTopics(self._session, next(iter(wanted)), lite_topics)
        )
        self._settling = Settling(self._session)
        self._polls = Polls(self._session, self._settling)
        self._loops = Loops(self._session, self._settling)

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
        """The state of this client now; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can do its work now: it is open, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def receive(
        self, *, max_messages: int = 32, invisible: float = 30.0, wait: float = 20.0
    ) -> list[ReceivedMessage]:
        """Take up to `max_messages`, waiting up to `wait` seconds for the first; an empty list where none came.

        Each is invisible to others of the group for `invisible` seconds (10 to 43,200 on Apache's servers), its lease.
        Apache's servers wait from 5 to 20 s whatever is asked. With several topics or brokers all are asked at once;
        what the others bring after the first has answered is kept for the next call.

        Raises what the server or network says. Cancelled or without an answer, it may have taken messages, which come
        again when their lease is over."""
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
        """Receive for ever, one message at a time; polls anew when a batch is used up.

        With `keep_alive` the leases of the batch in hand are renewed until each message is settled, or the loop is
        left. Leaving the loop releases nothing that was handed out; messages of the batch that were not are given back.

        The loop survives outages: polls that fail are tried again with back-off. It raises what the server refuses for
        good: an illegal filter, a missing right, a topic of the wrong type at once; an unknown topic or group after
        `Timeouts.not_found_grace`, or `Timeouts.start` if nothing was ever received."""
        loop = self._loops.begin(self._keeper(invisible) if keep_alive else None)
        watch = self._session.watch("receiving messages")
        persistence = Persistence(self._session, watch)

        async def poll() -> list[ReceivedMessage]:
            length = persistence.poll_length(wait)
            return await self.receive(max_messages=max_messages, invisible=invisible, wait=length)

        try:
            while True:
                batch = await retried(poll, persistence.delay_after)
                persistence.worked()
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
            change=self._settling.change,
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
        errors = await self._settling.ack(messages)
        failed = [error for error in errors if error is not None]
        if failed:
            raise AckManyError(
                f"{len(failed)} of {len(messages)} messages were not acknowledged, the first because {failed[0].text}",
                outcomes=tuple(zip(messages, errors, strict=True)),
            ) from failed[0]

    async def handle(self, message: ReceivedMessage, handler: Handler) -> None:
        """Call `handler` with a message inside the hooks' `handle`, as a push consumer would, and settle it.

        So hooks that trace, record or deduplicate see this consumer's work, too. Returning acknowledges, unless the
        handler settled the message itself; RetryLater has it come again after its seconds, and is not raised; any
        other exception releases it and is raised, DeadLetter included: only push consumers give up at once. A plain
        function runs in a worker thread. Cancelled, it cancels a coroutine function and releases the message. The lease
        goes on as it is: receive by `messages(keep_alive=True)` for work that may outlast it.

        Raises what the handler raises, LeaseLostError where the lease had ended before the acknowledgement."""
        self._session.check_running()
        call = around_handle(self._session.hooks, as_coroutine_function(handler))

        async def run(message: ReceivedMessage) -> Exception | None:
            try:
                await call(message)
            except Exception as failure:  # the border to foreign code: raised again below, or carried out
                return failure
            return None

        async with message:
            failure = await watched(self._session, message, run)
            if isinstance(failure, RetryLater):
                await self._settling.change(message, failure.seconds, reason=ChangeReason.RETRY)
            elif failure is not None:
                raise failure

    async def _make_group(self) -> None:
        topic = next(iter(self._session.declaration.subscriptions))
        await make_group(self._session.network, self.group, topic)

    @property
    def lite_topics(self) -> frozenset[str]:
        """The lite topics it consumes; a server may take one away, to give it to another consumer."""
        return frozenset() if self._lite is None else self._lite.names

    async def add_lite_topics(self, *names: str, start: LiteFrom | None = None) -> None:
        """Receive from these lite topics, too; where the group has not read one yet, from `start`, else from its first.

        Raises what a server says against it, and receives from none of them then."""
        await self._lite_topics().add(names, start)

    async def remove_lite_topics(self, *names: str) -> None:
        """Receive from these lite topics no more; raises UsageError for one that is not subscribed."""
        await self._lite_topics().remove(names)

    def _lite_topics(self) -> LiteTopics:
        self._session.check_running()
        if self._lite is None:
            raise UsageError("this consumer is not one of lite topics; give lite_topics= when it is made")
        return self._lite

    async def _taken_away(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        if self._lite is not None:
            self._lite.taken_away(command.notify_unsubscribe_lite_command.lite_topic)

    async def subscribe(self, topic: str, wanted: str | Filter = EVERYTHING) -> None:
        """Receive from `topic`, too, or with another filter `wanted` (default: all messages).

        Returns when the servers have the subscription; polls that wait already go on with the old one. Raises
        TopicNotFoundError, IllegalFilterError, UnreachableError, UsageError for a dead-letter topic that may not be
        read, and keeps the old subscription then. Cancelled, servers may have the new one."""
        declaration = self._session.declaration
        await check_reader(self._session, (topic,))
        filters = {**declaration.subscriptions, topic: filter_text(filter_of(topic, wanted))}
        await self._session.declare(replace(declaration, subscriptions=filters))

    async def unsubscribe(self, topic: str) -> None:
        """Receive no more from `topic`; messages received before can still be settled.

        Raises UsageError if it is not subscribed, and what `subscribe` raises."""
        declaration = self._session.declaration
        filters = dict(declaration.subscriptions)
        if filters.pop(topic, None) is None:
            raise UsageError(f"topic {topic!r} is not subscribed", topic=topic, group=self.group)
        await self._session.declare(replace(declaration, subscriptions=filters))
