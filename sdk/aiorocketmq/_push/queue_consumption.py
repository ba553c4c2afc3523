"""A running push consumer over the remoting protocol: pulling, handling and committing, composed.

Queues belong to one member of the group; a failed message is sent back, and redelivered from the group's retry topic;
offsets are committed up to the oldest message in flight, so that a crash repeats messages and loses none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.outcomes import (
    ACKNOWLEDGE,
    ForwardToDeadLetters,
    Outcome,
    Release,
    RetryLater,
    RetryLocally,
    outcome_of,
    outcome_of_corrupted,
)
from aiorocketmq._core.progress import Progress
from aiorocketmq._core.pull_positions import PullTicket
from aiorocketmq._core.remoting.delays import LEVELS
from aiorocketmq._core.settings import DEFAULT_CONSUMER_ATTEMPTS, Backoff, FilterText
from aiorocketmq._core.stop_states import ConsumerEvent
from aiorocketmq._pull.broker_requests import BrokerRequests
from aiorocketmq._pull.fetching import Fetched, Fetching, emit_delivery
from aiorocketmq._pull.interface import PullSettings
from aiorocketmq._pull.locking import QueueLocks
from aiorocketmq._pull.rebalancing import Rebalancing
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._push.handlers import log_failure
from aiorocketmq._push.interface import Parts
from aiorocketmq._push.sending_back import SendingBack
from aiorocketmq._push.statistics import Counts, PushStatistics
from aiorocketmq._push.workers import Workers
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.allocation import Allocation
from aiorocketmq.clock import Timer
from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import MessageQueue, ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")

COMMIT_EVERY = 5.0
"""Seconds, as Java's clients."""
MOST_AHEAD = 2000
"""Messages that reading of a queue may be ahead of the oldest one in flight, as in Java's clients: at most that many
are redelivered after a crash."""
BACKOFF = Backoff(DEFAULT_CONSUMER_ATTEMPTS, steps=tuple(map(float, LEVELS[2:])))
"""Attempts of an ordered consumer, and seconds before its local retries, as brokers use them for others."""


@dataclass(slots=True, eq=False)
class QueueDelivery:
    """A received message until its handling has completed."""

    message: ReceivedMessage
    ticket: PullTicket[MessageQueue]
    log_offset: int
    order_key: Hashable | None

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from."""
        return self.ticket.queue


class QueueConsumption:
    """A push consumer over the remoting protocol from its start to its stop."""

    def __init__(
        self,
        parts: Parts,
        session: RemotingSession,
        calls: RemotingPullCalls,
        settings: PullSettings,
        *,
        allocation: Allocation,
        ordered: bool,
    ) -> None:
        self._life = parts.life
        self._session = session
        self._settings = settings
        self._limits = parts.limits
        self._ordered = ordered
        self._clock = session.network.clock
        self.counts = Counts()
        self.in_flight: set[QueueDelivery] = set()
        self._size = 0
        self._progress = Progress[MessageQueue]()
        self._changed = Signal()
        """Set when a message has completed."""
        self._leaving: frozenset[MessageQueue] = frozenset()
        self._read_ahead: set[MessageQueue] = set()
        """Queues that are paused because reading is far ahead of handling."""
        self.paused: set[str] = set()
        """Topics that are paused."""
        self._local_retries: dict[QueueDelivery, Timer] = {}
        self._going_back: set[QueueDelivery] = set()
        """Messages that are being sent back."""
        self._fetching = Fetching(session, calls, start=settings.start, grain=settings.grain)
        self._back = None if settings.broadcast is not None else SendingBack(session, settings.group)
        self._workers = Workers[QueueDelivery](
            session,
            parts.handlers,
            concurrency=parts.concurrency,
            is_lost=self._is_lost,
            finished=self._handled,
            dropped=self._dropped,
        )
        self._rebalancing = Rebalancing(
            session,
            calls,
            self._fetching,
            topics=session.topics,
            allocation=allocation,
            listener=None,
            locks=QueueLocks(session, settings.group) if ordered else None,
            assign=self._assign,
            flush=self._flush,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def receiving(self) -> QueueConsumption:
        """This object, which also implements `Receives`."""
        return self

    # Life

    async def start(self) -> None:
        """Rebalance as soon as brokers know this member."""
        session = self._session
        self._life.apply(ConsumerEvent.STARTED)
        session.on_change.append(self._rebalancing.look_soon)
        BrokerRequests(session, self._fetching, self._reset)
        self._tasks = [
            session.supervise(self._rebalancing.run, name="sharing queues"),
            session.supervise(self._take_forever, name="handing out messages"),
            session.supervise(self._commit_forever, name="committing offsets"),
        ]
        if self._ordered:
            session.supervise(self._rebalancing.keep_locks, name="renewing locks")

    def stop(self) -> None:
        """Begin the stop: messages that wait for a handler are left to the next owner of their queue."""
        if not self._life.apply(ConsumerEvent.STOP):
            return
        for task in self._tasks:
            task.cancel()
        for timer in self._local_retries.values():
            timer.cancel()
        self._local_retries.clear()
        self._workers.stop_starting()

    async def finish(self, grace: Limit) -> None:
        """Wait for handlers within `grace`, then cancel them; commit, release the queues, and end the session."""
        try:
            await self._workers.drain(grace)
            self._life.apply(ConsumerEvent.DRAINED)
            async with Limit(self._session.timeouts.stop):
                await self._rebalancing.leave()
            self._life.apply(ConsumerEvent.RELEASED)
        finally:
            await self._fetching.close()
            await self._session.stop()

    @property
    def statistics(self) -> PushStatistics:
        """Counters since the start, and what is in flight."""
        return self.counts.statistics(
            in_flight=len(self.in_flight),
            waiting=self._workers.waiting,
            running=self._workers.running,
            body_bytes=self._size,
        )

    # Queues

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """What is read now."""
        return tuple(self._fetching.positions.queues)

    async def subscribe(self, topic: str) -> None:
        """Share the queues of a topic that was added to the filters."""
        await self._session.add_topic(topic)
        if topic not in self._rebalancing.topics:
            self._rebalancing.topics.append(topic)
            if topic not in self.paused:  # no rebalance may have released its queues since unsubscribe()
                self.resume((topic,))
        self._session.send_heartbeats()
        self._rebalancing.look()

    def unsubscribe(self, topic: str) -> None:
        """Release the queues of a topic, and read nothing more of them: its filter is dropped before they are."""
        self.paused.discard(topic)
        self._pause(lambda queue: queue.topic == topic)
        if topic in self._rebalancing.topics:
            self._rebalancing.topics.remove(topic)
        self._session.remove_topic(topic)
        self._rebalancing.look()

    def pause(self, topics: Collection[str]) -> None:
        """Deliver nothing more of `topics` until resume(), and start no pull."""
        self.paused |= set(topics)
        self._pause(lambda queue: queue.topic in topics)

    def resume(self, topics: Collection[str]) -> None:
        """Read `topics` again."""
        self.paused -= set(topics)
        self._fetching.resume(
            [queue for queue in self.queues if queue.topic in topics and queue not in self._read_ahead]
        )

    def _pause(self, is_meant: Callable[[MessageQueue], bool]) -> None:
        for queue in self.queues:
            if is_meant(queue):
                self._fetching.positions.pause(queue)

    def _assign(self, queues: Sequence[MessageQueue]) -> None:
        before = set(self.queues)
        if not self._fetching.assign(queues):
            return
        for queue in before.difference(queues):
            self._progress.forget(queue)
            self._read_ahead.discard(queue)
        self._leaving = frozenset()
        self._pause(lambda queue: queue.topic in self.paused)

    async def _flush(self, queues: Collection[MessageQueue]) -> None:
        """Wait for handlers of revoked queues, start no other, and commit."""
        self._leaving = frozenset(queues)
        async with Limit(self._session.timeouts.stop):
            while any(delivery.queue in queues for delivery in (*self._workers.handling, *self._going_back)):
                self._changed.clear()
                await self._changed.wait()
        await self._commit(queues)

    async def _reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at offsets that an administrator has set, and commit them."""
        for queue in offsets.keys() & set(self.queues):
            offset = offsets[queue]
            logger.warning("%s is reset to offset %d", queue, offset, extra=self._session.log_fields())
            await self._fetching.seek(queue, offset)
            self._progress.forget(queue)
            self._pause_if_far_ahead(queue)  # which it is no more
        await self._commit(offsets.keys())

    # Offsets

    async def _commit_forever(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(COMMIT_EVERY)
            error = await self._commit(self.queues)
            if error is None:
                watch.worked()
            else:
                watch.failed(error)

    async def _commit(self, queues: Collection[MessageQueue]) -> RocketMQError | None:
        """Commit the progress of `queues` concurrently; return the first error. What was not committed stays due."""
        positions = self._fetching.positions
        due: dict[MessageQueue, int] = {}
        for queue in set(queues) & set(self.queues):
            position = positions.position(queue)
            if position is not None:
                reached = self._progress.reached(queue, position)
                if reached != positions.committed(queue):
                    due[queue] = reached
        outcomes = await asyncio.gather(*(self._store(*each) for each in due.items()))
        return next((error for error in outcomes if error is not None), None)

    async def _store(self, queue: MessageQueue, offset: int) -> RocketMQError | None:
        try:
            await self._fetching.commit(queue, offset)
        except RocketMQError as error:
            logger.warning("%s was not committed: %s", queue, error, extra=self._session.log_fields())
            return error
        return None

    # Messages

    async def _take_forever(self, watch: Watch) -> None:
        while True:
            while len(self.in_flight) >= self._limits.messages or self._size >= self._limits.bytes:
                self._changed.clear()
                await self._changed.wait()
            try:
                fetched = await self._fetching.take()
            except RocketMQError as error:  # a queue cannot be read permanently
                self._session.fail(error)
                return
            if fetched is None:
                return
            self._arrived(fetched)
            watch.worked()

    def _arrived(self, fetched: Fetched) -> None:
        queue, ticket, messages = fetched.ticket.queue, fetched.ticket, fetched.messages
        emit_delivery(self._session, fetched, self._settings.filters.get(queue.topic, FilterText()))
        self._progress.took(queue, ticket.epoch, (message.offset for message in messages))
        self.counts.received += len(messages)
        order_key = (queue, ticket.epoch) if self._ordered else None
        for message, log_offset in zip(messages, fetched.log_offsets, strict=True):
            delivery = QueueDelivery(message, ticket, log_offset, order_key)
            self.in_flight.add(delivery)
            self._size += len(message.body)
            if message.corruption is None:
                self._workers.add(delivery)
            else:
                logger.error("%r is corrupted, no handler is called: %s", message, message.corruption)
                delivery.order_key = None
                outcome = outcome_of_corrupted(
                    message.corruption, ordered=self._ordered, attempt=message.attempt, backoff=BACKOFF
                )
                self._carry_out(delivery, outcome)
        self._workers.wake()
        self._pause_if_far_ahead(queue)

    def _pause_if_far_ahead(self, queue: MessageQueue) -> None:
        """Pause a queue that is far ahead of its handlers, and resume it once they have caught up."""
        positions = self._fetching.positions
        if queue not in positions.queues or (position := positions.position(queue)) is None:
            return
        is_far = self._progress.span(queue, position) > MOST_AHEAD
        if is_far and queue not in self._read_ahead:
            self._read_ahead.add(queue)
            positions.pause(queue)
        elif not is_far and queue in self._read_ahead:
            self._read_ahead.discard(queue)
            if queue.topic not in self.paused:
                self._fetching.resume([queue])

    def _is_lost(self, delivery: QueueDelivery) -> bool:
        """Whether another member owns the queue by now, or it is read from elsewhere: no handler gets the message
        here."""
        is_ours = self._fetching.positions.is_current(delivery.ticket)
        if is_ours and delivery.queue not in self._leaving:
            return False
        self._forgotten(delivery)
        return True

    def _forgotten(self, delivery: QueueDelivery) -> None:
        """Drop a message and those behind it; the next owner of the queue reads them."""
        self._let_go(delivery, None)
        for behind in self._workers.unsettled(delivery):
            self._let_go(behind, None)

    def _dropped(self, delivery: QueueDelivery) -> None:
        """Stop processing a message whose outcome could not be applied: its offset is not committed."""
        if delivery in self.in_flight:
            self._forgotten(delivery)

    def _handled(self, delivery: QueueDelivery, failure: Exception | None) -> None:
        if failure is None:
            self.counts.handled += 1
            self._ended(delivery, ACKNOWLEDGE)
            return
        self.counts.failed += 1
        message = delivery.message
        outcome = outcome_of(failure, ordered=self._ordered, attempt=message.attempt, backoff=BACKOFF)
        log_failure(message, failure, outcome)
        self._carry_out(delivery, outcome, is_chosen=isinstance(failure, RetryLater))

    def _carry_out(self, delivery: QueueDelivery, outcome: Outcome, *, is_chosen: bool = False) -> None:
        if isinstance(outcome, RetryLocally):
            if not self._life.is_stopping:
                self._retry_locally_after(delivery, outcome.delay)
            self._changed.set()
            return
        if isinstance(outcome, Release | ForwardToDeadLetters) and self._back is not None:
            self._going_back.add(delivery)
            self._session.spawn(
                self._send_back, self._back, delivery, outcome, is_chosen, name="send a message back"
            )
            return
        self._ended(delivery, outcome)  # a broadcast: brokers do not keep it for this member

    async def _send_back(
        self,
        back: SendingBack,
        delivery: QueueDelivery,
        outcome: Release | ForwardToDeadLetters,
        is_chosen: bool,
    ) -> None:
        try:
            is_done = await back.send(delivery.message, delivery.log_offset, outcome, is_chosen=is_chosen)
        finally:
            self._going_back.discard(delivery)
        if is_done:
            self._ended(delivery, outcome)

    def _retry_locally_after(self, delivery: QueueDelivery, delay: float) -> None:
        delivery.message.attempt += 1
        self._local_retries[delivery] = self._clock.call_at(
            self._clock.time() + delay, partial(self._retry_locally_now, delivery)
        )

    def _retry_locally_now(self, delivery: QueueDelivery) -> None:
        del self._local_retries[delivery]
        self._workers.retry_locally(delivery)

    def _ended(self, delivery: QueueDelivery, outcome: Outcome | None) -> None:
        """Mark a message as completed; the next one of its queue may start."""
        self._progress.ended(delivery.queue, delivery.ticket.epoch, delivery.message.offset)
        self._let_go(delivery, outcome)
        self._workers.settled(delivery)
        if delivery.queue in self._read_ahead:
            self._pause_if_far_ahead(delivery.queue)

    def _let_go(self, delivery: QueueDelivery, outcome: Outcome | None) -> None:
        self.in_flight.discard(delivery)
        self._size -= len(delivery.message.body)
        self.counts.settled(outcome, is_done=outcome is not None)
        self._changed.set()
