"""A running push consumer over gRPC: receiving, handling and settling, composed."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import groupby

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._consume.settler import LeaseSettler
from aiorocketmq._core.lease import LeaseState
from aiorocketmq._core.outcomes import (
    ACKNOWLEDGE,
    Acknowledge,
    Outcome,
    Release,
    RetryLocally,
    outcome_of,
    outcome_of_corrupted,
)
from aiorocketmq._core.receive_cache import ReceiveCache
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.stop_states import ConsumerEvent, ConsumerLife
from aiorocketmq._push.handlers import Handlers, log_failure
from aiorocketmq._push.receiving import Receiving
from aiorocketmq._push.settler import BackgroundSettler, Delivery, order_key_of
from aiorocketmq._push.statistics import Counts, PushStatistics
from aiorocketmq._push.workers import Workers
from aiorocketmq._session.session import Session
from aiorocketmq.clock import Timer
from aiorocketmq.config import CacheLimits
from aiorocketmq.message import MessageQueue, ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")

AHEAD = 4
"""Batches, and turns of handlers, that one queue is received ahead: enough to keep all handlers busy. More would only
keep messages from other consumers of the group, and their leases would have to be renewed meanwhile."""


class Consumption:
    """A push consumer over gRPC from its start to its stop."""

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
        self.in_flight: set[Delivery] = set()
        self._none_in_flight = Signal()
        self._local_retries: dict[Delivery, Timer] = {}
        self._cache = ReceiveCache[MessageQueue](
            max_messages=limits.messages,
            max_bytes=limits.bytes,
            max_ahead=AHEAD * (session.settings.receive_batch + concurrency),
        )
        settler = LeaseSettler(session)
        self._leases = LeaseKeeper(
            invisible=invisible,
            change=settler.change,
            spawn=session.spawn,
            clock=self._clock,
            watch=session.watch("renewing leases"),
        )
        self._settler = BackgroundSettler(session, settler, ended=self._ended, acked=self._acked, rng=rng)
        self._workers = Workers[Delivery](
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
            settler=settler,
            arrived=self._arrived,
            rng=rng,
        )

    async def start(self, until: float) -> None:
        """Receive from the first assignments, retried until `until` of the loop's time after transient errors.

        After an error, messages that have arrived are released first."""
        self._life.apply(ConsumerEvent.STARTED)
        self._clock.join(self)
        try:
            await self.receiving.start(until)
        except BaseException:
            self.stop()
            await uninterrupted(self.finish(Limit(0.0)))
            raise

    def stop(self) -> None:
        """Begin the stop; messages that wait for a handler are released at once."""
        if not self._life.apply(ConsumerEvent.STOP):
            return
        self.receiving.stop()
        delayed = list(self._local_retries)
        for timer in self._local_retries.values():
            timer.cancel()
        self._local_retries.clear()
        for delivery in (*delayed, *self._workers.stop_starting()):
            self._carry_out(delivery, Release(0.0))

    async def finish(self, grace: Limit) -> None:
        """Wait for handlers within `grace`, then cancel them; settle and release; end the session."""
        try:
            await self.receiving.ended()
            await self._workers.drain(grace, lambda delivery: self._carry_out(delivery, Release(0.0)))
            self._life.apply(ConsumerEvent.DRAINED)
            async with Limit(self._session.timeouts.stop):
                while self.in_flight:
                    self._none_in_flight.clear()
                    await self._none_in_flight.wait()
            for delivery in self.in_flight:
                logger.warning(
                    "%r could not be settled, it is redelivered when its lease expires", delivery.message
                )
            self._life.apply(ConsumerEvent.RELEASED)
        finally:
            self._leases.close()
            self._clock.leave(self)
            await self._session.stop()

    @property
    def statistics(self) -> PushStatistics:
        """Counters since the start, and what is in flight."""
        return self.counts.statistics(
            in_flight=len(self.in_flight),
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
        """Handlers, settling and renewals; not what waits for a time, see `ClockUser`."""
        work: dict[Hashable, str] = {
            ("settling", delivery): f"settling of {delivery.message!r}"
            for delivery in self.in_flight
            if delivery.is_settling
        }
        for delivery in self._workers.handling:
            work["handler", delivery] = f"handler of {delivery.message!r}"
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
                if lease is None:  # a server without leases; there is nothing to settle it with
                    logger.error("%r has no receipt handle and is not handled", message)
                    continue
                delivery = Delivery(
                    message, lease, queue, order_key_of(message, ordered=ordered), message.attempt
                )
                self._leases.add(message)
                self.in_flight.add(delivery)
                count += 1
                size += delivery.size
                if not self._life.may_handle:
                    delivery.order_key = None
                    self._carry_out(delivery, Release(0.0))
                elif message.corruption is not None:
                    self._refuse_corrupted(delivery, message.corruption, ordered)
                else:
                    self._workers.add(delivery)
        finally:  # those that were added are handled, whatever happens to the others
            self._cache.add(queue, size, count)
            self._workers.wake()

    def _refuse_corrupted(self, delivery: Delivery, corruption: str, ordered: bool) -> None:
        delivery.order_key = None  # no handler gets it, so no other message waits for it
        logger.error("%r is corrupted, no handler is called: %s", delivery.message, corruption)
        backoff = self._session.settings.backoff
        self._carry_out(
            delivery,
            outcome_of_corrupted(corruption, ordered=ordered, attempt=delivery.attempt, backoff=backoff),
        )

    def _handled(self, delivery: Delivery, failure: Exception | None) -> None:
        if failure is None:
            self.counts.handled += 1
        else:
            self.counts.failed += 1
        if (
            delivery.is_settling
        ):  # the shutdown timeout has expired, and it was released while its handler was cancelled
            return
        if not delivery.lease.is_open:
            # Its handler has settled it by message.ack() or release(), or its lease was lost meanwhile.
            self._leases.discard(delivery.message)
            self._ended(delivery, delivery.lease.state is LeaseState.SETTLED)
            return
        if failure is None:
            self._carry_out(delivery, ACKNOWLEDGE)
            return
        outcome = outcome_of(
            failure,
            ordered=delivery.order_key is not None,
            attempt=delivery.attempt,
            backoff=self._session.settings.backoff,
            lite=delivery.message.lite_topic is not None,
        )
        log_failure(delivery.message, failure, outcome)
        self._carry_out(delivery, outcome)

    def _dropped(self, delivery: Delivery) -> None:
        """Stop processing a message whose outcome could not be applied."""
        self._leases.discard(delivery.message)
        if delivery in self.in_flight and not delivery.is_settling:
            self._ended(delivery, False)

    def _carry_out(self, delivery: Delivery, outcome: Outcome) -> None:
        if isinstance(outcome, RetryLocally):
            if not self._life.is_stopping:
                self._retry_locally_after(delivery, outcome.delay)
                return
            outcome = Release(outcome.delay)
        delivery.is_settling = True
        delivery.outcome = outcome
        self._leases.discard(delivery.message)
        if isinstance(outcome, Acknowledge):
            self._settler.acknowledge(delivery)
        elif isinstance(outcome, Release):
            self._settler.release(delivery, outcome.delay, suspend=outcome.suspend)
        else:
            self._settler.forward(delivery, outcome.reason)

    def _retry_locally_after(self, delivery: Delivery, delay: float) -> None:
        delivery.attempt += 1
        delivery.message.attempt = delivery.attempt
        self._local_retries[delivery] = self._clock.call_at(
            self._clock.time() + delay, partial(self._retry_locally_now, delivery)
        )

    def _retry_locally_now(self, delivery: Delivery) -> None:
        del self._local_retries[delivery]
        self._workers.retry_locally(delivery)

    def _is_lost(self, delivery: Delivery) -> bool:
        """Whether the lease was lost while the message waited: others may have it, so no handler gets it here."""
        if delivery.lease.is_open and self._clock.time() < delivery.lease.ends_at:
            return False
        logger.warning("%r waited until its lease expired, it will be redelivered", delivery.message)
        self._leases.discard(delivery.message)
        self._ended(delivery, False)
        return True

    def _acked(self, batch: Sequence[Delivery]) -> None:
        """Remove messages that are acknowledged; those of a normal group are removed together."""
        if any(delivery.order_key is not None for delivery in batch):
            for delivery in batch:
                self._ended(delivery, True)
            return
        self.in_flight.difference_update(batch)
        self.counts.acknowledged += len(batch)
        for source, some in groupby(batch, key=_source):
            sizes = [delivery.size for delivery in some]
            if self._cache.remove(source, sum(sizes), len(sizes)):
                self.receiving.room_made(source)
        if not self.in_flight:
            self._none_in_flight.set()

    def _ended(self, delivery: Delivery, out_of_the_way: bool) -> None:
        """Remove a message that is settled or given up, free its room, and start or release those behind it."""
        self.in_flight.discard(delivery)
        self.counts.settled(delivery.outcome, is_done=out_of_the_way)
        if self._cache.remove(delivery.source, delivery.size):
            self.receiving.room_made(delivery.source)
        behind = self._workers.settled(delivery) if out_of_the_way else self._workers.unsettled(delivery)
        suspended = isinstance(delivery.outcome, Release) and delivery.outcome.suspend
        for follower in behind:
            self._carry_out(follower, delivery.outcome if suspended and delivery.outcome else Release(0.0))
        if not self.in_flight:
            self._none_in_flight.set()


def _source(delivery: Delivery) -> MessageQueue:
    return delivery.source
