"""Everything of a push consumer between its start and its end: receiving, handling, settling, put together."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import groupby

import anyio

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.settle import Settling
from aiorocketmq._core.lease import LeaseState
from aiorocketmq._core.outcomes import (
    ACKNOWLEDGE,
    Acknowledge,
    GiveBack,
    Outcome,
    RunAgain,
    outcome_of,
    outcome_of_corrupted,
)
from aiorocketmq._core.receive_cache import ReceiveCache
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.stop_states import ConsumerEvent, ConsumerLife
from aiorocketmq._push.counting import Counts, PushStatistics
from aiorocketmq._push.handlers import Handlers, log_failure
from aiorocketmq._push.held import Held, lane_of
from aiorocketmq._push.receiving import Receiving
from aiorocketmq._push.settlement import Settlement
from aiorocketmq._push.workers import Workers
from aiorocketmq._session.session import Session
from aiorocketmq.clock import Timer
from aiorocketmq.config import CacheLimits
from aiorocketmq.message import MessageQueue, ReceivedMessage

logger = logging.getLogger(__name__)

AHEAD = 4
"""Batches, and rounds of handlers, that one queue is received ahead: enough to keep all handlers busy. More would
only keep messages from other consumers of the group, and their leases would have to be renewed meanwhile."""


class Consumption:
    """Everything of a push consumer that lives from its start to its stop, put together."""

    def __init__(
        self,
        life: ConsumerLife,
        session: Session,
        handlers: Handlers,
        *,
        filters: Mapping[str, FilterText],
        limits: CacheLimits,
        concurrency: int,
        invisible: float,
    ) -> None:
        rng = session.environment.random
        self._life = life
        self._session = session
        self._clock = session.clock
        self.counts = Counts()
        self.held: set[Held] = set()
        self._nothing_held = Signal()
        self._run_again: dict[Held, Timer] = {}
        self._cache = ReceiveCache[MessageQueue](
            max_messages=limits.messages,
            max_bytes=limits.bytes,
            max_ahead=AHEAD * (session.settings.receive_batch + concurrency),
        )
        settling = Settling(session)
        self._leases = LeaseKeeper(
            invisible=invisible,
            change=settling.change,
            spawn=session.spawn,
            clock=self._clock,
            watch=session.watch("renewing leases"),
        )
        self._settlement = Settlement(session, settling, ended=self._ended, acked=self._acked, rng=rng)
        self._workers = Workers[Held](
            session,
            handlers,
            concurrency=concurrency,
            is_lost=self._is_lost,
            finished=self._handled,
            dropped=self._dropped,
        )
        self.receiving = Receiving(
            session,
            filters=filters,
            cache=self._cache,
            invisible=invisible,
            settler=settling,
            arrived=self._arrived,
            rng=rng,
        )

    async def start(self, until: float) -> None:
        """Take up the first assignments, tried again until `until` of the loop's time after what may pass.

        On an error, what has arrived by then is given back first."""
        self._life.apply(ConsumerEvent.STARTED)
        self._clock.join(self)
        try:
            await self.receiving.start(until)
        except BaseException:
            self.stop()
            await uninterrupted(self.finish(anyio.move_on_after(0.0)))
            raise

    def stop(self) -> None:
        """Begin the stop; what waits for a handler goes back at once."""
        if not self._life.apply(ConsumerEvent.STOP):
            return
        self.receiving.stop()
        delayed = list(self._run_again)
        for timer in self._run_again.values():
            timer.cancel()
        self._run_again.clear()
        for held in (*delayed, *self._workers.stop_starting()):
            self._carry_out(held, GiveBack(0.0))

    async def finish(self, grace: anyio.CancelScope) -> None:
        """Let handlers end within `grace`, then cancel them; settle and give back; end the session."""
        try:
            await self.receiving.ended()
            await self._workers.drain(grace, lambda held: self._carry_out(held, GiveBack(0.0)))
            self._life.apply(ConsumerEvent.DRAINED)
            with anyio.move_on_after(self._session.timeouts.stop):
                while self.held:
                    self._nothing_held.clear()
                    await self._nothing_held.wait()
            for held in self.held:
                logger.warning("%r could not be settled, it comes again when its lease ends", held.message)
            self._life.apply(ConsumerEvent.RELEASED)
        finally:
            self._leases.close()
            self._clock.leave(self)
            await self._session.stop()

    @property
    def statistics(self) -> PushStatistics:
        """What was done so far, and what is in hand."""
        return self.counts.statistics(
            in_hand=len(self.held),
            waiting=self._workers.waiting,
            running=self._workers.running,
            body_bytes=self._cache.size,
        )

    @property
    def client_id(self) -> str:
        """See `ClockUser`."""
        return self._session.client_id

    @property
    def polls(self) -> int:
        """See `ClockUser`."""
        return self.receiving.polls

    def work(self) -> Mapping[Hashable, str]:
        """Handlers, settling and renewals; not what waits for its time, see `ClockUser`."""
        work: dict[Hashable, str] = {
            ("settling", held): f"settling of {held.message!r}" for held in self.held if held.is_settling
        }
        for held in self._workers.handling:
            work["handler", held] = f"handler of {held.message!r}"
        if self._workers.may_take:
            work["start"] = f"{self._workers.waiting} messages are about to be handled"
        return {**work, **self._leases.work()}

    def _arrived(self, queue: MessageQueue, messages: Sequence[ReceivedMessage]) -> None:
        ordered = self._session.in_order
        self.counts.received += len(messages)
        count = size = 0
        try:
            for message in messages:
                lease = message._lease
                if lease is None:  # a server that leases nothing; there is nothing to settle it with
                    logger.error("%r came without a receipt handle and is not handled", message)
                    continue
                held = Held(message, lease, queue, lane_of(message, ordered=ordered), message.attempt)
                self._leases.hold(message)
                self.held.add(held)
                count += 1
                size += held.size
                if not self._life.may_handle:
                    held.lane = None
                    self._carry_out(held, GiveBack(0.0))
                elif message.corruption is not None:
                    self._refuse_corrupted(held, message.corruption, ordered)
                else:
                    self._workers.add(held)
        finally:  # those that were taken in are handled, whatever became of the others
            self._cache.add(queue, size, count)
            self._workers.wake()

    def _refuse_corrupted(self, held: Held, corruption: str, ordered: bool) -> None:
        held.lane = None  # no handler sees it, so that it keeps nobody waiting
        logger.error("%r is corrupted, no handler sees it: %s", held.message, corruption)
        backoff = self._session.settings.backoff
        self._carry_out(
            held,
            outcome_of_corrupted(corruption, ordered=ordered, attempt=held.attempt, backoff=backoff),
        )

    def _handled(self, held: Held, failure: Exception | None) -> None:
        if failure is None:
            self.counts.handled += 1
        else:
            self.counts.failed += 1
        if held.is_settling:  # its grace was over, and it has been given back while its handler was cancelled
            return
        if not held.lease.is_open:
            # Its handler has settled it by message.ack() or release(), or its lease was lost meanwhile.
            self._leases.release(held.message)
            self._ended(held, held.lease.state is LeaseState.SETTLED)
            return
        if failure is None:
            self._carry_out(held, ACKNOWLEDGE)
            return
        outcome = outcome_of(
            failure,
            ordered=held.lane is not None,
            attempt=held.attempt,
            backoff=self._session.settings.backoff,
            lite=held.message.lite_topic is not None,
        )
        log_failure(held.message, failure, outcome)
        self._carry_out(held, outcome)

    def _dropped(self, held: Held) -> None:
        """Do nothing more about a message whose end could not be carried out."""
        self._leases.release(held.message)
        if held in self.held and not held.is_settling:
            self._ended(held, False)

    def _carry_out(self, held: Held, outcome: Outcome) -> None:
        if isinstance(outcome, RunAgain):
            if not self._life.is_stopping:
                self._run_again_after(held, outcome.delay)
                return
            outcome = GiveBack(outcome.delay)
        held.is_settling = True
        held.outcome = outcome
        self._leases.release(held.message)
        if isinstance(outcome, Acknowledge):
            self._settlement.acknowledge(held)
        elif isinstance(outcome, GiveBack):
            self._settlement.give_back(held, outcome.delay, suspend=outcome.suspend)
        else:
            self._settlement.forward(held, outcome.reason)

    def _run_again_after(self, held: Held, delay: float) -> None:
        held.attempt += 1
        held.message.attempt = held.attempt
        self._run_again[held] = self._clock.call_at(
            self._clock.time() + delay, partial(self._run_again_now, held)
        )

    def _run_again_now(self, held: Held) -> None:
        del self._run_again[held]
        self._workers.run_again(held)

    def _is_lost(self, held: Held) -> bool:
        """Whether the lease was lost while the message waited: others may have it, so no handler sees it here."""
        if held.lease.is_open and self._clock.time() < held.lease.ends_at:
            return False
        logger.warning("%r waited longer than its lease lasted, it will be delivered again", held.message)
        self._leases.release(held.message)
        self._ended(held, False)
        return True

    def _acked(self, batch: Sequence[Held]) -> None:
        """All of them are done; those of a normal group need nothing else, and leave together."""
        if any(held.lane is not None for held in batch):
            for held in batch:
                self._ended(held, True)
            return
        self.held.difference_update(batch)
        self.counts.acknowledged += len(batch)
        for source, some in groupby(batch, key=_source):
            sizes = [held.size for held in some]
            if self._cache.remove(source, sum(sizes), len(sizes)):
                self.receiving.room_made(source)
        if not self.held:
            self._nothing_held.set()

    def _ended(self, held: Held, out_of_the_way: bool) -> None:
        """Nothing more is done about the message: make room, and see to those behind it."""
        self.held.discard(held)
        self.counts.settled(held.outcome, is_done=out_of_the_way)
        if self._cache.remove(held.source, held.size):
            self.receiving.room_made(held.source)
        behind = self._workers.settled(held) if out_of_the_way else self._workers.unsettled(held)
        suspended = isinstance(held.outcome, GiveBack) and held.outcome.suspend
        for follower in behind:
            self._carry_out(follower, held.outcome if suspended and held.outcome else GiveBack(0.0))
        if not self.held:
            self._nothing_held.set()


def _source(held: Held) -> MessageQueue:
    return held.source
