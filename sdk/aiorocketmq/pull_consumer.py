"""The consumer that owns its queues: it reads them by offset, and keeps the group's progress by commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

import anyio

from aiorocketmq._convert import filter_text
from aiorocketmq._core.names import check_group
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.pull_positions import lag
from aiorocketmq._core.settings import Declaration, FilterText
from aiorocketmq._pull.batch import PullBatch
from aiorocketmq._pull.calls import Offset, PullCalls
from aiorocketmq._pull.fetching import Fetched, Fetching
from aiorocketmq._session import Session
from aiorocketmq._tasks import Watch
from aiorocketmq._telling import Answer
from aiorocketmq._uninterrupted import uninterrupted
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.errors import Closed, RocketMQError, UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import AssignEvent, CommitEvent, Hook, Role, SeekEvent
from aiorocketmq.message import MessageQueue
from aiorocketmq.subscription import Sql, Subscriptions, Tags, subscriptions_by_topic

__all__ = ["Offset", "PullBatch", "PullConsumer"]

logger = logging.getLogger(__name__)


class PullConsumer:
    """Reads the queues that it is given, from any offset, as often as wanted.

        async with PullConsumer("localhost:8081", group="audit") as consumer:
            consumer.assign(await consumer.queues("orders"))
            async for batch in consumer:            # one queue's messages, in offset order
                ...
                await consumer.commit(batch)

    There are no leases and no redelivery: what was read and not committed is read again by whoever starts at the
    committed offset. It needs a server with the calls PullMessage, GetOffset, UpdateOffset and QueryOffset;
    Apache's proxies up to 5.5 serve none of them, which entering `async with` tells as NotServed. Sharing the queues
    of a topic with the other members of a group (`topics=`) and `namesrv://` addresses need the classic wire, which
    this version does not speak yet.

    A queue starts at the group's committed offset, or at `start` where there is none. While one batch is handled
    the next one of each queue is fetched already.
    """

    def __init__(
        self,
        where: str | Connection,
        *,
        group: str,
        topics: Sequence[str] | None = None,
        filters: Subscriptions = (),
        start: Offset | datetime = Offset.BEGIN,
        auto_commit: float | None = None,
        max_messages: int = 32,
        wait: float = 20.0,
        hooks: Sequence[Hook] = (),
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Check everything; nothing is sent before `async with`.

        `filters` are expressions by topic, as in the subscriptions of other consumers; a topic without one is read
        whole. `auto_commit` commits that often, in seconds, what the loop has finished with: a batch is finished
        when the next one is asked for. `max_messages` bounds a batch, `wait` is how long the server may park a pull.
        Raises UsageError for `topics` and `namesrv://`, ValueError or TypeError for single arguments.
        """
        if isinstance(where, str) and where.startswith("namesrv://"):
            raise UsageError(
                f"{where!r} needs the classic wire, which this version does not speak yet: give the address of a "
                "gRPC proxy that serves the pull calls, or use a SimpleConsumer",
                group=group,
            )
        if topics is not None:
            raise UsageError(
                "topics= shares queues with the other members of a group, which needs the classic wire, and this "
                "version does not speak it yet: leave topics= out and call "
                "consumer.assign(await consumer.queues(topic))",
                group=group,
            )
        check_group(group)
        if auto_commit is not None and not auto_commit > 0:
            raise ValueError(f"auto_commit must be seconds above 0, not {auto_commit!r}")
        if type(max_messages) is not int or max_messages < 1:
            raise ValueError(f"max_messages must be an integer of at least 1, not {max_messages!r}")
        if not wait >= 0:
            raise ValueError(f"wait must be seconds from 0, not {wait!r}")
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError("start must be a datetime with a time zone")
        self._group = group
        self._filters: dict[str, FilterText] = {
            topic: filter_text(wanted) for topic, wanted in subscriptions_by_topic(filters).items()
        }
        self._auto_commit = auto_commit
        self._session = Session(
            where,
            Declaration(client_type="PULL_CONSUMER", group=group, subscriptions=self._filters),
            role=Role.PULL,
            hooks=hooks,
            first_call=self._probe,
            options=options,
        )
        self._calls = PullCalls(
            self._session,
            group=group,
            filters=self._filters,
            max_messages=max_messages,
            wait=wait,
            start=start,
        )
        self._fetching: Fetching | None = None
        self._committing: asyncio.Task[None] | None = None
        self._unfinished: Fetched | None = None
        self._generation = 0

    async def __aenter__(self) -> Self:
        """Start; raises NotServed where the server has no pull calls, and leaves nothing behind on any error."""
        session = self._session
        await session.start()
        self._fetching = Fetching(session, self._calls)
        if self._auto_commit is not None:
            self._committing = session.supervise(
                self._commit_forever, self._fetching, self._auto_commit, name="committing offsets"
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop pulling, with `auto_commit` commit what was finished, and end all tasks."""
        # A stop is mostly caused by a cancellation, which must not cut the clean-up short.
        await uninterrupted(self._close(self._open()))

    async def _close(self, fetching: Fetching) -> None:
        session = self._session
        try:
            await fetching.close()
            if self._committing is not None:
                self._committing.cancel()
                with anyio.move_on_after(session.timeouts.stop):
                    if (error := await self._commit_due(fetching)) is not None:
                        logger.warning("the last offsets were not committed: %s", error)
        finally:
            self._fetching = None
            await session.stop()

    def health(self) -> Health:
        """The state of this client now; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can do its work now: it is open, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`, from the server's route."""
        self._open()
        route = await self._session.route(topic)
        return tuple(source.queue for source in route.readable)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues from now on; those read already keep their position."""
        session, fetching = self._session, self._open()
        wanted = tuple(queues)
        for queue in wanted:
            if not isinstance(queue, MessageQueue):
                raise TypeError(
                    f"assign takes MessageQueue values, not {queue!r}; see consumer.queues(topic)"
                )
        if fetching.assign(wanted) and session.telling.is_watched:
            self._generation += 1
            session.telling.event(
                AssignEvent(client=session.telling.client, queues=self.assigned, generation=self._generation)
            )

    @property
    def assigned(self) -> tuple[MessageQueue, ...]:
        """What is read now; empty when the consumer is not open."""
        return () if self._fetching is None else tuple(self._fetching.positions.queues)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PullBatch:
        """The next batch of any queue; ends when the consumer is closed."""
        fetching = self._open()
        self._finish(fetching)
        fetched = await fetching.take()
        if fetched is None:
            raise StopAsyncIteration
        return self._hand_out(fetched)

    async def poll(self, timeout: float) -> PullBatch | None:
        """The next batch of any queue, or None when none comes within `timeout` seconds (0: only what is here)."""
        fetching = self._open()
        self._finish(fetching)
        fetched: Fetched | None = None
        with anyio.move_on_after(timeout):
            fetched = await fetching.take()
        return None if fetched is None else self._hand_out(fetched)

    async def seek(self, queue: MessageQueue, offset: Offset | int | datetime) -> None:
        """Go on reading `queue` at an offset, the begin, the end, or the first message stored at or after an instant.

        Fetched messages that were not taken yet are dropped. Raises UsageError for a queue that is not assigned.
        """
        fetching = self._assigned(queue)
        resolved = await self._calls.resolve(queue, offset)
        await fetching.seek(queue, resolved)
        if self._session.telling.is_watched:
            self._session.telling.event(
                SeekEvent(client=self._session.telling.client, queue=queue, offset=resolved)
            )

    async def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that is handed out. Raises UsageError for a queue that is not assigned."""
        fetching = self._assigned(queue)
        return await fetching.position(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of any queue, as the server has it; None where there is none."""
        self._open()
        return await self._calls.committed(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """Messages that each assigned queue holds beyond the committed offset, filtered ones included.

        A queue without a committed offset counts from this consumer's position."""
        fetching = self._open()
        lags: dict[MessageQueue, int] = {}
        for queue in self.assigned:
            lags[queue] = lag(
                position=fetching.positions.position(queue),
                committed=await self._calls.committed(queue),
                minimum=await self._calls.resolve(queue, Offset.BEGIN),
                maximum=await self._calls.resolve(queue, Offset.END),
            )
        return lags

    def pause(self, queue: MessageQueue) -> None:
        """Hand out nothing more of `queue` until resume(). Raises UsageError for a queue that is not assigned."""
        fetching = self._assigned(queue)
        fetching.positions.pause(queue)

    async def resume(self, queue: MessageQueue) -> None:
        """Undo pause(). Raises UsageError for a queue that is not assigned."""
        fetching = self._assigned(queue)
        await fetching.resume(queue)

    async def commit(self, what: PullBatch | Mapping[MessageQueue, int] | None = None) -> None:
        """Store the group's progress: a batch and all before it, given offsets, or the position of every queue.

        An offset is that of the next message to read. Raises the server's refusal; cancelled or unanswered, it may
        or may not have taken effect, and may simply be repeated.
        """
        fetching = self._open()
        if isinstance(what, PullBatch):
            offsets: Mapping[MessageQueue, int] = {what.queue: what.next_offset}
        elif what is not None:
            offsets = what
        else:
            positions = {queue: fetching.positions.position(queue) for queue in self.assigned}
            offsets = {queue: offset for queue, offset in positions.items() if offset is not None}
        for queue, offset in offsets.items():
            await self._store(fetching, queue, offset)

    async def _store(self, fetching: Fetching, queue: MessageQueue, offset: int) -> None:
        await self._calls.commit(queue, offset)
        fetching.positions.note_committed(queue, offset)
        if self._session.telling.is_watched:
            self._session.telling.event(
                CommitEvent(client=self._session.telling.client, queue=queue, offset=offset)
            )

    def _finish(self, fetching: Fetching) -> None:
        """Asking for more says that the last batch is done."""
        last, self._unfinished = self._unfinished, None
        if last is not None:
            fetching.positions.finish(last.ticket, last.next_offset)

    def _hand_out(self, fetched: Fetched) -> PullBatch:
        self._unfinished = fetched
        if self._session.telling.is_watched:
            self._tell(fetched)
        return PullBatch(fetched.ticket.queue, tuple(fetched.messages), fetched.next_offset)

    def _tell(self, fetched: Fetched) -> None:
        """Tell hooks what is handed out: no lease and no handle, but its place."""
        wanted = self._filters.get(fetched.ticket.queue.topic, FilterText())
        asked = Sql(wanted.expression) if wanted.is_sql else Tags(wanted.expression)
        self._session.telling.delivered(
            fetched.messages, Answer(operation=None, broker=fetched.ticket.queue.broker, wanted=asked)
        )

    async def _commit_forever(self, watch: Watch, fetching: Fetching, interval: float) -> None:
        pause = interval
        while True:
            await asyncio.sleep(pause)
            error = await self._commit_due(fetching)
            if error is None:
                watch.worked()
                pause = interval
            else:
                rng = self._session.surroundings.random
                pause = min(interval, failure_pause(watch.failed(error), throttled=False, rng=rng))

    async def _commit_due(self, fetching: Fetching) -> RocketMQError | None:
        """Commit what is due, and return the first error; what was not committed stays due."""
        failure: RocketMQError | None = None
        for queue, offset in fetching.positions.due_commits().items():
            try:
                await self._store(fetching, queue, offset)
            except RocketMQError as error:
                failure = failure or error
        return failure

    async def _probe(self) -> None:
        await self._calls.probe()

    def _open(self) -> Fetching:
        if self._fetching is None:
            raise Closed("the PullConsumer is not open; use it inside its `async with`", group=self._group)
        self._session.check_running()
        return self._fetching

    def _assigned(self, queue: MessageQueue) -> Fetching:
        fetching = self._open()
        if queue not in fetching.positions.queues:
            raise UsageError(
                f"{queue} is not assigned to this consumer; call assign() first",
                topic=queue.topic,
                group=self._group,
            )
        return fetching
