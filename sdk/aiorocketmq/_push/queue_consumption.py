"""Everything of a push consumer of the remoting protocol between its start and its end: pulling, handling, committing.

Queues belong to one member of the group; a message that fails is sent back, and comes again from the group's retry
topic; offsets are committed up to the oldest message in hand, so that a crash repeats messages and loses none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.outcomes import (
    ACKNOWLEDGE,
    ForwardToDeadLetters,
    GiveBack,
    Outcome,
    RetryLater,
    RunAgain,
    outcome_of,
    outcome_of_corrupted,
)
from aiorocketmq._core.progress import Progress
from aiorocketmq._core.pull_positions import PullTicket
from aiorocketmq._core.remoting.delays import LEVELS
from aiorocketmq._core.settings import DEFAULT_CONSUMER_ATTEMPTS, Backoff, FilterText
from aiorocketmq._core.stop_states import ConsumerEvent
from aiorocketmq._pull.asked import Asked
from aiorocketmq._pull.fetching import Fetched, Fetching, tell_delivery
from aiorocketmq._pull.interface import Wanted
from aiorocketmq._pull.locking import QueueLocks
from aiorocketmq._pull.remoting_calls import RemotingPullCalls
from aiorocketmq._pull.sharing import Sharing
from aiorocketmq._push.counting import Counts, PushStatistics
from aiorocketmq._push.handlers import log_failure
from aiorocketmq._push.interface import Parts
from aiorocketmq._push.sending_back import SendingBack
from aiorocketmq._push.workers import Workers
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.allocation import Allocation
from aiorocketmq.clock import Timer
from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import MessageQueue, ReceivedMessage

logger = logging.getLogger(__name__)

COMMIT_EVERY = 5.0
"""Seconds, as Java's clients."""
MOST_AHEAD = 2000
"""Messages that reading of a queue may be ahead of the oldest one in hand, as Java's clients: so many come again after
a crash."""
BACKOFF = Backoff(DEFAULT_CONSUMER_ATTEMPTS, steps=tuple(map(float, LEVELS[2:])))
"""Seconds before a handler of an ordered consumer runs again, as brokers count them for others; and its attempts."""


@dataclass(slots=True, eq=False)
class Handed:
    """A message in hand, from its arrival until nothing is left to do."""

    message: ReceivedMessage
    ticket: PullTicket[MessageQueue]
    log_offset: int
    lane: Hashable | None

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from."""
        return self.ticket.queue


class QueueConsumption:
    """What a running push consumer is made of."""

    def __init__(
        self,
        parts: Parts,
        session: RemotingSession,
        calls: RemotingPullCalls,
        wanted: Wanted,
        *,
        allocation: Allocation,
        ordered: bool,
    ) -> None:
        self._life = parts.life
        self._session = session
        self._wanted = wanted
        self._limits = parts.limits
        self._ordered = ordered
        self._clock = session.network.clock
        self.counts = Counts()
        self.held: set[Handed] = set()
        self._size = 0
        self._progress = Progress[MessageQueue]()
        self._changed = Signal()
        """Set when a message has ended."""
        self._leaving: frozenset[MessageQueue] = frozenset()
        self._held_back: set[MessageQueue] = set()
        """Queues that are not read for now, because reading is far ahead of handling."""
        self.paused: set[str] = set()
        """Topics that are paused."""
        self._run_again: dict[Handed, Timer] = {}
        self._going_back: set[Handed] = set()
        """What is being sent back."""
        self._fetching = Fetching(session, calls, start=wanted.start, grain=wanted.grain)
        self._back = None if wanted.broadcast is not None else SendingBack(session, wanted.group)
        self._workers = Workers[Handed](
            session,
            parts.handlers,
            concurrency=parts.concurrency,
            is_lost=self._is_lost,
            finished=self._handled,
            dropped=self._dropped,
        )
        self._sharing = Sharing(
            session,
            calls,
            self._fetching,
            topics=session.topics,
            allocation=allocation,
            listener=None,
            locks=QueueLocks(session, wanted.group) if ordered else None,
            assign=self._assign,
            flush=self._flush,
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def receiving(self) -> QueueConsumption:
        """What subscriptions and pauses are told."""
        return self

    # Life

    async def start(self) -> None:
        """Take up queues as soon as brokers know this member."""
        session = self._session
        self._life.apply(ConsumerEvent.STARTED)
        session.on_change.append(self._sharing.look)
        Asked(session, self._fetching, self._reset)
        self._tasks = [
            session.supervise(self._sharing.run, name="sharing queues"),
            session.supervise(self._take_forever, name="handing out messages"),
            session.supervise(self._commit_forever, name="committing offsets"),
        ]
        if self._ordered:
            session.supervise(self._sharing.keep_locks, name="renewing locks")

    def stop(self) -> None:
        """Begin the stop: what waits for a handler is left to who owns its queue next."""
        if not self._life.apply(ConsumerEvent.STOP):
            return
        for task in self._tasks:
            task.cancel()
        for timer in self._run_again.values():
            timer.cancel()
        self._run_again.clear()
        self._workers.stop_starting()

    async def finish(self, grace: anyio.CancelScope) -> None:
        """Let handlers end within `grace`, then cancel them; commit, give up the queues, and end the session."""
        try:
            await self._workers.drain(grace)
            self._life.apply(ConsumerEvent.DRAINED)
            with anyio.move_on_after(self._session.timeouts.stop):
                await self._sharing.leave()
            self._life.apply(ConsumerEvent.RELEASED)
        finally:
            await self._fetching.close()
            await self._session.stop()

    @property
    def statistics(self) -> PushStatistics:
        """What was done so far, and what is in hand."""
        return self.counts.statistics(
            in_hand=len(self.held),
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
        """Share the queues of a topic that the filters have got."""
        await self._session.add_topic(topic)
        if topic not in self._sharing.topics:
            self._sharing.topics.append(topic)
        self._session.tell_brokers()
        self._sharing.look()

    def unsubscribe(self, topic: str) -> None:
        """Give up the queues of a topic."""
        self.paused.discard(topic)
        if topic in self._sharing.topics:
            self._sharing.topics.remove(topic)
        self._session.remove_topic(topic)
        self._sharing.look()

    def pause(self, topics: Collection[str]) -> None:
        """Hand out nothing more of `topics` until resume(), and start no pull."""
        self.paused |= set(topics)
        self._pause(lambda queue: queue.topic in topics)

    def resume(self, topics: Collection[str]) -> None:
        """Read `topics` again."""
        self.paused -= set(topics)
        self._fetching.resume(
            [queue for queue in self.queues if queue.topic in topics and queue not in self._held_back]
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
            self._held_back.discard(queue)
        self._leaving = frozenset()
        self._pause(lambda queue: queue.topic in self.paused)

    async def _flush(self, queues: Collection[MessageQueue]) -> None:
        """Let handlers of queues that are given up end, start no other, and commit what was done."""
        self._leaving = frozenset(queues)
        with anyio.move_on_after(self._session.timeouts.stop):
            while any(handed.queue in queues for handed in (*self._workers.handling, *self._going_back)):
                self._changed.clear()
                await self._changed.wait()
        await self._commit(queues)

    async def _reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on where an administrator wants it, and make that the group's progress."""
        for queue in offsets.keys() & set(self.queues):
            offset = offsets[queue]
            logger.warning("%s is reset to offset %d", queue, offset, extra=self._session.log_facts())
            await self._fetching.seek(queue, offset)
            self._progress.forget(queue)
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
        """Commit what is done, all queues at a time; the first error. What was not committed stays due."""
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
            logger.warning("%s was not committed: %s", queue, error, extra=self._session.log_facts())
            return error
        return None

    # Messages

    async def _take_forever(self, watch: Watch) -> None:
        while True:
            while len(self.held) >= self._limits.messages or self._size >= self._limits.bytes:
                self._changed.clear()
                await self._changed.wait()
            try:
                fetched = await self._fetching.take()
            except RocketMQError as error:  # a queue cannot be read for good
                self._session.fail(error)
                return
            if fetched is None:
                return
            self._arrived(fetched)
            watch.worked()

    def _arrived(self, fetched: Fetched) -> None:
        queue, ticket, messages = fetched.ticket.queue, fetched.ticket, fetched.messages
        tell_delivery(self._session, fetched, self._wanted.filters.get(queue.topic, FilterText()))
        self._progress.took(queue, ticket.epoch, (message.offset for message in messages))
        self.counts.received += len(messages)
        lane = (queue, ticket.epoch) if self._ordered else None
        for message, log_offset in zip(messages, fetched.log_offsets, strict=True):
            handed = Handed(message, ticket, log_offset, lane)
            self.held.add(handed)
            self._size += len(message.body)
            if message.corruption is None:
                self._workers.add(handed)
            else:
                logger.error("%r is corrupted, no handler sees it: %s", message, message.corruption)
                handed.lane = None
                outcome = outcome_of_corrupted(
                    message.corruption, ordered=self._ordered, attempt=message.attempt, backoff=BACKOFF
                )
                self._carry_out(handed, outcome)
        self._workers.wake()
        self._hold_back(queue)

    def _hold_back(self, queue: MessageQueue) -> None:
        """Stop reading a queue that is far ahead of its handlers, and read it again once they have come closer."""
        positions = self._fetching.positions
        if queue not in positions.queues or (position := positions.position(queue)) is None:
            return
        is_far = self._progress.span(queue, position) > MOST_AHEAD
        if is_far and queue not in self._held_back:
            self._held_back.add(queue)
            positions.pause(queue)
        elif not is_far and queue in self._held_back:
            self._held_back.discard(queue)
            if queue.topic not in self.paused:
                self._fetching.resume([queue])

    def _is_lost(self, handed: Handed) -> bool:
        """Whether the queue is read by another member by now, or from elsewhere: no handler sees the message here."""
        is_ours = self._fetching.positions.is_current(handed.ticket)
        if is_ours and handed.queue not in self._leaving:
            return False
        self._forgotten(handed)
        return True

    def _forgotten(self, handed: Handed) -> None:
        """Leave a message and those behind it to who reads its queue next."""
        self._let_go(handed, None)
        for behind in self._workers.unsettled(handed):
            self._let_go(behind, None)

    def _dropped(self, handed: Handed) -> None:
        """Do nothing more about a message whose end could not be carried out: its offset is not committed."""
        if handed in self.held:
            self._forgotten(handed)

    def _handled(self, handed: Handed, failure: Exception | None) -> None:
        if failure is None:
            self.counts.handled += 1
            self._ended(handed, ACKNOWLEDGE)
            return
        self.counts.failed += 1
        message = handed.message
        outcome = outcome_of(failure, ordered=self._ordered, attempt=message.attempt, backoff=BACKOFF)
        log_failure(message, failure, outcome)
        self._carry_out(handed, outcome, is_chosen=isinstance(failure, RetryLater))

    def _carry_out(self, handed: Handed, outcome: Outcome, *, is_chosen: bool = False) -> None:
        if isinstance(outcome, RunAgain):
            if not self._life.is_stopping:
                self._run_again_after(handed, outcome.delay)
            self._changed.set()
            return
        if isinstance(outcome, GiveBack | ForwardToDeadLetters) and self._back is not None:
            self._going_back.add(handed)
            self._session.spawn(
                self._send_back, self._back, handed, outcome, is_chosen, name="send a message back"
            )
            return
        self._ended(handed, outcome)  # a broadcast: nobody keeps it for this member

    async def _send_back(
        self, back: SendingBack, handed: Handed, outcome: GiveBack | ForwardToDeadLetters, is_chosen: bool
    ) -> None:
        try:
            is_done = await back.send(handed.message, handed.log_offset, outcome, is_chosen=is_chosen)
        finally:
            self._going_back.discard(handed)
        if is_done:
            self._ended(handed, outcome)

    def _run_again_after(self, handed: Handed, delay: float) -> None:
        handed.message.attempt += 1
        self._run_again[handed] = self._clock.call_at(
            self._clock.time() + delay, partial(self._run_again_now, handed)
        )

    def _run_again_now(self, handed: Handed) -> None:
        del self._run_again[handed]
        self._workers.run_again(handed)

    def _ended(self, handed: Handed, outcome: Outcome | None) -> None:
        """Nothing is left to do about a message; the next one of its queue may start."""
        self._progress.ended(handed.queue, handed.ticket.epoch, handed.message.offset)
        self._let_go(handed, outcome)
        self._workers.settled(handed)
        if handed.queue in self._held_back:
            self._hold_back(handed.queue)

    def _let_go(self, handed: Handed, outcome: Outcome | None) -> None:
        self.held.discard(handed)
        self._size -= len(handed.message.body)
        self.counts.settled(outcome, is_done=outcome is not None)
        self._changed.set()
