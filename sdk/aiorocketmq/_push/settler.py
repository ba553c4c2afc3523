"""Deliveries, and the application of their handlers' outcomes: ack, release or forward, while the lease lasts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from aiorocketmq._aio.tasks import Arguments, Watch
from aiorocketmq._consume.settler import MAX_ENTRIES, LeaseSettler
from aiorocketmq._core.ack_batches import AckBatches
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.lease import Lease
from aiorocketmq._core.outcomes import Outcome
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._session.retrying import retried
from aiorocketmq._session.session import Session
from aiorocketmq.errors import BusyError, LeaseLostError, RocketMQError, UsageError
from aiorocketmq.hooks import ChangeReason
from aiorocketmq.message import MessageQueue, ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")


@dataclass(slots=True, eq=False)
class Delivery:
    """Compared and hashed by identity: the same stored message delivered twice is two deliveries."""

    message: ReceivedMessage
    lease: Lease
    source: MessageQueue
    """The assigned queue that it was received from, in whose share of the cache it counts."""
    order_key: Hashable | None
    """Messages with equal keys are handled in order; None in a normal group."""
    attempt: int
    """The server's number, incremented with each local retry in an ordered group."""
    is_settling: bool = False
    """Whether its ack, release or forward has begun."""
    outcome: Outcome | None = None
    """The outcome that its settling applies; None if its handler has settled it, or it cannot be settled."""
    failures: int = 0
    """LeaseSettler calls that failed."""

    @property
    def size(self) -> int:
        """Bytes of the body, as counted by the cache."""
        return len(self.message.body)


def order_key_of(message: ReceivedMessage, *, ordered: bool) -> Hashable | None:
    """Return the order key of `message`: its message group, or its queue if it has none."""
    if not ordered:
        return None
    if message.lite_topic is not None:
        return (message.topic, message.lite_topic)
    if message.message_group is None:
        return message.queue
    return (message.topic, message.message_group)


Destination: TypeAlias = tuple[Endpoint | None, str]
"""Server and topic of an ack."""
Ended: TypeAlias = Callable[[Delivery, bool], None]
"""Called when a message is settled or given up; True if those behind it may start (acked or forwarded)."""
Acked: TypeAlias = Callable[[Sequence[Delivery]], None]
"""Called instead with all messages of one ack call that succeeded for each of them."""


class BackgroundSettler:
    """Settles messages in the background; each one ends with one call of `ended` or `acked`."""

    def __init__(
        self, session: Session, settler: LeaseSettler, *, ended: Ended, acked: Acked, rng: random.Random
    ) -> None:
        self._session = session
        self._settler = settler
        self._ended = ended
        self._acked = acked
        self._rng = rng
        self._acking = session.watch("acknowledging messages")
        self._releasing = session.watch("releasing messages")
        self._forwarding = session.watch("forwarding messages to the dead letters")
        self._acks = AckBatches[Destination, Delivery](max_entries=MAX_ENTRIES)

    def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge, together with others of the same server and topic."""
        destination = (delivery.message._source, delivery.message.topic)
        if self._acks.add(destination, delivery):
            self._start(self._acking, self._send_acks, destination)

    def release(self, delivery: Delivery, delay: float, *, suspend: bool = False) -> None:
        """Make the message visible again in `delay` seconds."""
        self._start(self._releasing, self._release, delivery, delay, suspend)

    def forward(self, delivery: Delivery, reason: str) -> None:
        """Move the message to the dead-letter topic."""
        logger.warning("moving %r to the dead letters: %s", delivery.message, reason)
        self._start(self._forwarding, self._forward, delivery)

    def _start(
        self,
        watch: Watch,
        work: Callable[[Watch, *Arguments], Coroutine[Any, Any, None]],
        *arguments: *Arguments,
    ) -> None:
        self._session.supervise(work, *arguments, name=watch.name, watch=watch)

    async def _send_acks(self, watch: Watch, destination: Destination) -> None:
        while batch := self._acks.next_batch(destination):
            try:
                errors = await self._settler.ack([delivery.message for delivery in batch])
            except BaseException:
                self._acks.put_back(destination, batch)
                raise
            if not any(errors):
                for delivery in batch if watch.reason else ():
                    watch.ended(delivery)
                self._acked(batch)
                continue
            again: list[Delivery] = []
            throttled = False
            for delivery, error in zip(batch, errors, strict=True):
                if error is not None and self._may_try_again(delivery, error):
                    watch.failed(error, delivery)
                    again.append(delivery)
                    throttled = throttled or isinstance(error, BusyError)
                    continue
                if error is not None:
                    logger.warning("%r was handled, but will be redelivered: %s", delivery.message, error)
                watch.ended(delivery)
                self._ended(delivery, error is None)
            if again:
                pause = failure_pause(again[0].failures, throttled=throttled, rng=self._rng)
                self._start(watch, self._ack_again, again, pause)

    async def _ack_again(self, watch: Watch, batch: list[Delivery], pause: float) -> None:
        await asyncio.sleep(pause)
        for delivery in batch:
            self.acknowledge(delivery)

    async def _release(self, watch: Watch, delivery: Delivery, delay: float, suspend: bool) -> None:
        reason = ChangeReason.SUSPEND if suspend else ChangeReason.RETRY
        try:
            await retried(
                partial(self._settler.change, delivery.message, delay, reason=reason),
                partial(self._delay_after, watch, delivery),
            )
        except RocketMQError as error:
            # It is redelivered in any case, when its lease expires.
            logger.info("%r is redelivered when its lease expires: %s", delivery.message, error)
        watch.ended(delivery)
        self._ended(delivery, False)

    async def _forward(self, watch: Watch, delivery: Delivery) -> None:
        max_attempts = self._session.settings.backoff.max_attempts
        try:
            await retried(
                partial(self._settler.forward, delivery.message, max_attempts=max_attempts),
                partial(self._delay_after, watch, delivery),
            )
        except RocketMQError as error:
            logger.warning(
                "%r was not moved to the dead letters and is redelivered: %s", delivery.message, error
            )
            self._ended(delivery, False)
        else:
            self._ended(delivery, True)
        watch.ended(delivery)

    def _may_try_again(self, delivery: Delivery, error: RocketMQError) -> bool:
        """Any error is retried except those that show that the lease has expired; then the message is redelivered."""
        delivery.failures += 1
        return (
            not isinstance(error, (LeaseLostError, UsageError))
            and self._session.clock.time() < delivery.lease.ends_at
        )

    def _delay_after(self, watch: Watch, delivery: Delivery, error: RocketMQError) -> float | None:
        if not self._may_try_again(delivery, error):
            return None
        watch.failed(error, delivery)
        return failure_pause(delivery.failures, throttled=isinstance(error, BusyError), rng=self._rng)
