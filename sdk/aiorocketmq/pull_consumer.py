"""The pull consumer: reads whole queues by offset and commits the group's offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

import anyio

from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.names import check_group
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.pull_positions import lag
from aiorocketmq._core.settings import FilterText
from aiorocketmq._pull.batch import PullBatch
from aiorocketmq._pull.broker_requests import BrokerRequests
from aiorocketmq._pull.deferred_commits import DeferredCommits
from aiorocketmq._pull.fetching import Fetched, Fetching, emit_delivery
from aiorocketmq._pull.interface import Broadcast, PullCalls, PullSettings
from aiorocketmq._pull.locking import QueueLocks
from aiorocketmq._pull.rebalancing import RebalanceListener, Rebalancing, checked_allocation
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._pull.wires import grpc, remoting
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._session.client import Client
from aiorocketmq._session.conversion import filter_text
from aiorocketmq.allocation import Allocation
from aiorocketmq.connection import Connection, ConnectionOptions, is_remoting
from aiorocketmq.errors import ClosedError, QueueRevokedError, RocketMQError, UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import Hook
from aiorocketmq.message import MessageQueue
from aiorocketmq.subscription import Subscriptions, subscriptions_by_topic

__all__ = ["Broadcast", "Offset", "PullBatch", "PullConsumer", "RebalanceListener"]

logger = logging.getLogger("aiorocketmq.pull_consumer")


class PullConsumer:
    """Consumer that reads assigned queues from any offset, any number of times.

        async with PullConsumer("localhost:8081", group="audit") as consumer:
            consumer.assign(await consumer.queues("orders"))
            async for batch in consumer:            # one queue's messages, in offset order
                ...
                await consumer.commit(batch)

    With `namesrv://` addresses, which every RocketMQ has, members of a group may share the queues of `topics`:

        async with PullConsumer("namesrv://localhost:9876", group="audit", topics=["orders"]) as consumer:
            async for batch in consumer:
                ...
                await consumer.commit(batch)

    Then each queue belongs to one member, by `allocation`; queues move when members join or leave, and members beyond
    the number of queues have none. `on_rebalance` is called for each move. The former owner of a queue may still commit
    late, so that a few messages may be delivered twice around a rebalance; none is lost.

    There are no leases and no redelivery: what was read and not committed is read again from the committed offset. A
    gRPC address needs a server with the calls PullMessage, GetOffset, UpdateOffset and QueryOffset; Apache's proxies up
    to 5.5 have none of them: entering `async with` raises NotSupportedError.

    A queue starts at the group's committed offset, or at `start` if there is none. While the application processes one
    batch, the next one of each queue is prefetched.
    """

    def __init__(
        self,
        endpoint: str | Connection,
        *,
        group: str,
        topics: Sequence[str] | None = None,
        filters: Subscriptions = (),
        start: Offset | datetime = Offset.BEGIN,
        auto_commit: float | None = None,
        max_messages: int = 32,
        wait: float = 20.0,
        allocation: Allocation | None = None,
        on_rebalance: RebalanceListener | None = None,
        ordered: bool = False,
        broadcast: Broadcast | None = None,
        allow_pop_members: bool = False,
        hooks: Sequence[Hook] = (),
        **options: Unpack[ConnectionOptions],
    ) -> None:
        """Check everything; nothing is sent before `async with`.

        The queues of `topics` are shared with the group; without it, `assign` chooses queues. `filters` are expressions
        by topic, as in the subscriptions of other consumers; a topic without one is read whole. `auto_commit` (seconds
        above 0) is the interval at which completed batches are committed: a batch is completed when the next one is
        requested. `max_messages` (at least 1) bounds a batch, `wait` (seconds from 0) is how long the server may hold a
        pull without messages. `allocation` (default `Averagely()`) must be the same for all members of the group.
        `ordered`, which must also be the same for all, locks each shared queue, so that no two members read it at a
        time, not even during a rebalance, which waits for the current batch, at most `Timeouts.stop`. With `broadcast`,
        each member reads all queues of `topics`, and commits are written to a file of its own. A group with gRPC
        consumers, which move its offsets when they receive messages, is refused with a UsageError, at the start or when
        one joins later, unless `allow_pop_members`. Raises UsageError for `topics` at a gRPC address, ValueError or
        TypeError for other invalid arguments.
        """
        shared = tuple(subscriptions_by_topic(topics or ()))
        if topics is not None and not shared:
            raise ValueError("topics must name at least one topic; leave it out to assign queues yourself")
        if shared and not is_remoting(endpoint):
            raise UsageError(
                "topics= shares queues with the other members of a group, which gRPC proxies do not serve: give the "
                "address of name servers ('namesrv://host:9876'), or leave topics= out and call "
                "consumer.assign(await consumer.queues(topic))",
                group=group,
            )
        if not shared and (
            allocation is not None or on_rebalance or ordered or broadcast or allow_pop_members
        ):
            raise ValueError(
                "allocation, on_rebalance, ordered, broadcast and allow_pop_members belong to topics=, whose queues "
                "the group shares"
            )
        check_group(group)
        if auto_commit is not None and not auto_commit > 0:
            raise ValueError(f"auto_commit must be seconds above 0, not {auto_commit!r}")
        if type(max_messages) is not int or max_messages < 1:
            raise ValueError(f"max_messages must be an integer of at least 1, not {max_messages!r}")
        if not wait >= 0:
            raise ValueError(f"wait must be seconds from 0, not {wait!r}")
        self._group = group
        texts = {topic: filter_text(filter_) for topic, filter_ in subscriptions_by_topic(filters).items()}
        self._auto_commit = auto_commit
        self._on_rebalance = on_rebalance
        self._ordered = ordered
        self._allocation = checked_allocation(start, allocation, ordered=ordered, broadcast=broadcast)
        self._settings = PullSettings(
            group,
            shared,
            texts,
            start,
            max_messages,
            wait,
            broadcast,
            allow_pop_members=allow_pop_members,
        )
        self._members: tuple[RemotingSession, RemotingPullCalls] | None = None
        self._session: Client
        self._calls: PullCalls
        if is_remoting(endpoint):
            self._session, self._calls = pair = remoting(
                endpoint, self._settings, hooks=hooks, options=options
            )
            self._members = pair if shared else None
        else:
            self._session, self._calls = grpc(endpoint, self._settings, hooks=hooks, options=options)
        self._rebalancing: Rebalancing | None = None
        self._balancing: asyncio.Task[None] | None = None
        self._fetching: Fetching | None = None
        self._deferred: DeferredCommits | None = None
        self._committing: asyncio.Task[None] | None = None
        self._unfinished: Fetched | None = None
        self._requested = asyncio.Event()
        """Set when a next batch is requested."""

    async def __aenter__(self) -> Self:
        """Start. Raises RocketMQError, NotSupportedError if the server has no pull calls; nothing is left behind then.

        With `topics`, queues are assigned in the background, as soon as brokers know this member."""
        session = self._session
        await session.start()
        self._fetching = Fetching(
            session, self._calls, start=self._settings.start, grain=self._settings.grain
        )
        self._deferred = DeferredCommits(session, self._calls, self._fetching)
        if self._auto_commit is not None:
            self._committing = session.supervise(
                self._commit_forever, self._fetching, self._auto_commit, name="committing offsets"
            )
        if self._members is not None:
            remoting_session, calls = self._members
            self._rebalancing = Rebalancing(
                session,
                calls,
                self._fetching,
                topics=self._settings.topics,
                allocation=self._allocation,
                listener=self._on_rebalance,
                locks=QueueLocks(remoting_session, self._group) if self._ordered else None,
                assign=self._fetching.assign,
                flush=self._flush,
            )
            remoting_session.on_change.append(self._rebalancing.look_soon)
            BrokerRequests(remoting_session, self._fetching, self._reset)
            self._balancing = session.supervise(self._rebalancing.run, name="sharing queues")
            if self._ordered:
                session.supervise(self._rebalancing.keep_locks, name="renewing locks")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop pulling, with `auto_commit` commit what is completed, and end all tasks; a cancellation waits for it."""
        # A stop is mostly caused by a cancellation, which must not cut the clean-up short.
        await uninterrupted(self._close(self._open()))

    async def _close(self, fetching: Fetching) -> None:
        session = self._session
        try:
            if self._rebalancing is not None and self._balancing is not None:
                self._balancing.cancel()
                self._unfinished = None  # no next batch will be requested
                await self._rebalancing.leave()
            await fetching.close()
            if self._committing is not None:
                self._committing.cancel()
                async with Limit(session.timeouts.stop):
                    if (error := await self._commit_due(fetching)) is not None:
                        logger.warning("the last offsets were not committed: %s", error)
            if self._deferred is not None:
                async with Limit(session.timeouts.stop):
                    await self._deferred.close()
        finally:
            self._fetching = self._deferred = None
            await session.stop()

    def health(self) -> Health:
        """Return the current state of this client; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can work: it is running, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of `topic`, as the server's route has them now.

        Raises TopicNotFoundError, UnreachableError, and ClosedError outside of `async with`."""
        self._open()
        return await self._calls.queues(topic)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues from now on; those that were read before keep their position.

        Others begin at the group's committed offset, or at `start` if there is none. Batches of queues that are left
        out are dropped. Takes effect at once; errors of a queue are raised by `poll` and iteration. Raises UsageError
        for a consumer of `topics`, whose queues the group shares, TypeError for values that are no MessageQueue, and
        ClosedError outside of `async with`."""
        self._open()
        if self._rebalancing is not None:
            raise UsageError(
                "this consumer shares the queues of its topics with its group; leave topics= out to assign "
                "them yourself",
                group=self._group,
            )
        new = tuple(queues)
        for queue in new:
            if not isinstance(queue, MessageQueue):
                raise TypeError(
                    f"assign takes MessageQueue values, not {queue!r}; see consumer.queues(topic)"
                )
        self._open().assign(new)

    @property
    def assigned(self) -> tuple[MessageQueue, ...]:
        """The queues that are read now; empty outside of `async with`."""
        return () if self._fetching is None else tuple(self._fetching.positions.queues)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PullBatch:
        """Return the next batch of any queue; the iteration ends when the consumer is closed."""
        fetching = self._open()
        self._finish(fetching)
        fetched = await fetching.take()
        if fetched is None:
            raise StopAsyncIteration
        return self._delivered(fetched)

    async def poll(self, timeout: float) -> PullBatch | None:
        """Return the next batch of any queue, None if none arrives within `timeout` seconds (0: only what is fetched).

        The call marks the previous batch as completed, for `auto_commit`. A cancelled call takes no batch. Raises what
        stopped the consumer or the reading of an assigned queue, and ClosedError outside of `async with`."""
        fetching = self._open()
        self._finish(fetching)
        fetched: Fetched | None = None
        with anyio.move_on_after(timeout):
            fetched = await fetching.take()
        return None if fetched is None else self._delivered(fetched)

    async def seek(self, queue: MessageQueue, offset: Offset | int | datetime) -> None:
        """Continue reading `queue` at an offset, its begin, its end, or the first message stored at or after a time.

        Fetched messages that were not taken yet are dropped; commits nothing. An offset is at least 0; one that the
        server does not have is corrected at the next pull, with a warning and a `SeekEvent`. Raises UsageError for a
        queue that is not assigned, and the server's error if it was asked. Cancelled, the position stays as it was.
        """
        fetching = self._assigned(queue)
        await fetching.seek(queue, await self._calls.resolve(queue, offset))

    async def _reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at offsets that an administrator has set, and commit them."""
        fetching = self._open()
        assert self._deferred is not None  # while it is open
        own = {queue: offset for queue, offset in offsets.items() if queue in fetching.positions.queues}
        for queue, offset in own.items():
            logger.warning("%s is reset to offset %d", queue, offset, extra=self._session.log_fields())
            await fetching.seek(queue, offset)
        for queue, offset in own.items():
            try:
                await self._deferred.commit(queue, offset)
            except RocketMQError as error:
                logger.warning(
                    "%s: its reset was not committed: %s", queue, error, extra=self._session.log_fields()
                )

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be delivered; for a new queue, waits until it is known.

        Raises UsageError for a queue that is not assigned, and what stopped the reading of it."""
        fetching = self._assigned(queue)
        return await fetching.position(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of any queue, None if unset: the server's, in broadcast mode the file's.

        Raises the server's error, UnreachableError, and ClosedError outside of `async with`."""
        self._open()
        return await self._calls.committed(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """Return how many messages each assigned queue holds beyond the committed offset, filtered ones included.

        A queue without a committed offset counts from this consumer's position. Three calls for each queue; raises the
        server's error, UnreachableError, and ClosedError outside of `async with`."""
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

    def pause(self, *queues: MessageQueue) -> None:
        """Deliver nothing more of these queues, or of all that are assigned now, until resume() or revocation.

        A batch that was fetched waits. Raises UsageError for a queue that is not assigned, and pauses none then, and
        ClosedError outside of `async with`."""
        positions = self._open().positions
        for queue in self._chosen(queues):
            positions.pause(queue)

    def resume(self, *queues: MessageQueue) -> None:
        """Deliver these queues again, or all that are assigned; no effect on those that are not paused.

        Raises as pause() does."""
        self._open().resume(self._chosen(queues))

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The assigned queues that are paused; none outside of `async with`."""
        if self._fetching is None:
            return frozenset()
        positions = self._fetching.positions
        return frozenset(queue for queue in positions.queues if positions.is_paused(queue))

    def _chosen(self, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, ...]:
        for queue in queues:
            self._assigned(queue)
        return queues or tuple(self._open().positions.queues)

    async def commit(self, what: PullBatch | Mapping[MessageQueue, int] | None = None) -> None:
        """Store the group's progress: a batch and all before it, given offsets, or the position of every queue.

        An offset is that of the next message to read. Raises the server's refusal, and QueueRevokedError for a shared
        queue that another member owns by now; cancelled or unanswered, it may or may not have taken effect, and may be
        repeated. While replicas are read because a broker's master is unavailable, it returns at once and logs that:
        the newest offset of each queue is committed when the master is available again, or lost with this consumer. If
        the master then refuses it permanently, that is logged, and the next commit of the queue raises the refusal.
        """
        fetching = self._open()
        assert self._deferred is not None  # while it is open
        if isinstance(what, PullBatch):
            offsets: Mapping[MessageQueue, int] = {what.queue: what.next_offset}
        elif what is not None:
            offsets = what
        else:
            positions = {queue: fetching.positions.position(queue) for queue in self.assigned}
            offsets = {queue: offset for queue, offset in positions.items() if offset is not None}
        for offset in offsets.values():
            if type(offset) is not int or offset < 0:
                raise ValueError(f"a committed offset counts from 0, not {offset!r}")
        for queue, offset in offsets.items():
            if self._rebalancing is not None and queue not in fetching.positions.queues:
                raise QueueRevokedError(
                    f"{queue} is not assigned to this member any more; {QueueRevokedError.remedy}",
                    topic=queue.topic,
                    group=self._group,
                )
            await self._deferred.commit(queue, offset)

    def _finish(self, fetching: Fetching) -> None:
        """A request for more marks the last batch as completed."""
        last, self._unfinished = self._unfinished, None
        self._requested.set()
        if last is not None:
            fetching.positions.finish(last.ticket, last.next_offset)

    def _delivered(self, fetched: Fetched) -> PullBatch:
        self._unfinished = fetched
        emit_delivery(
            self._session, fetched, self._settings.filters.get(fetched.ticket.queue.topic, FilterText())
        )
        return PullBatch(fetched.ticket.queue, tuple(fetched.messages), fetched.next_offset)

    async def _commit_forever(self, watch: Watch, fetching: Fetching, interval: float) -> None:
        pause = interval
        while True:
            await asyncio.sleep(pause)
            error = await self._commit_due(fetching)
            if error is None:
                watch.worked()
                pause = interval
            else:
                rng = self._session.environment.random
                pause = min(interval, failure_pause(watch.failed(error), throttled=False, rng=rng))

    async def _flush(self, queues: Collection[MessageQueue]) -> None:
        """With `auto_commit`, commit completed batches of revoked queues; if ordered, wait until they are completed."""
        if self._ordered:
            with anyio.move_on_after(self._session.timeouts.stop):
                while self._unfinished is not None and self._unfinished.ticket.queue in queues:
                    self._requested.clear()
                    await self._requested.wait()
        if self._auto_commit is not None and (error := await self._commit_due(self._open(), queues)):
            logger.warning("offsets of revoked queues were not committed: %s", error)
        if self._deferred is not None:
            await self._deferred.give_up(queues)

    async def _commit_due(
        self, fetching: Fetching, queues: Collection[MessageQueue] | None = None
    ) -> RocketMQError | None:
        """Commit what is due, concurrently, and return the first error; what was not committed stays due."""
        assert self._deferred is not None  # while it is open
        due = fetching.positions.due_commits().items()
        outcomes = await asyncio.gather(
            *(
                self._deferred.commit(queue, offset)
                for queue, offset in due
                if queues is None or queue in queues
            ),
            return_exceptions=True,
        )
        failures = [outcome for outcome in outcomes if outcome is not None]
        for failure in failures:
            if not isinstance(failure, RocketMQError):
                raise failure
        return next((failure for failure in failures if isinstance(failure, RocketMQError)), None)

    def _open(self) -> Fetching:
        if self._fetching is None:
            raise ClosedError(
                "the PullConsumer is not open; use it inside its `async with`", group=self._group
            )
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
