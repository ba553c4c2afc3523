"""Carries out what a handler's end calls for: ack, give back or forward, tried again while the lease lasts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from aiorocketmq._aio.tasks import Arguments, Watch
from aiorocketmq._consume.settle import MAX_ENTRIES, Settling
from aiorocketmq._core.ack_batches import AckBatches
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._push.held import Held
from aiorocketmq._session.retrying import retried
from aiorocketmq._session.session import Session
from aiorocketmq.errors import BusyError, LeaseLostError, RocketMQError, UsageError
from aiorocketmq.hooks import ChangeReason

logger = logging.getLogger(__name__)

Destination: TypeAlias = tuple[Endpoint | None, str]
"""Server and topic of an ack."""
Ended: TypeAlias = Callable[[Held, bool], None]
"""Called when nothing more is done about a message; True when it is out of its order's way (acked or forwarded)."""
Acked: TypeAlias = Callable[[Sequence[Held]], None]
"""Called instead with all messages of one ack where each of them is done."""


class Settlement:
    """Settles messages in the background; each one ends with one call of `ended` or `acked`."""

    def __init__(
        self, session: Session, settling: Settling, *, ended: Ended, acked: Acked, rng: random.Random
    ) -> None:
        self._session = session
        self._settling = settling
        self._ended = ended
        self._acked = acked
        self._rng = rng
        self._acking = session.watch("acknowledging messages")
        self._releasing = session.watch("releasing messages")
        self._forwarding = session.watch("forwarding messages to the dead letters")
        self._acks = AckBatches[Destination, Held](max_entries=MAX_ENTRIES)

    def acknowledge(self, held: Held) -> None:
        """Ack, together with others of the same server and topic."""
        destination = (held.message._source, held.message.topic)
        if self._acks.add(destination, held):
            self._start(self._acking, self._send_acks, destination)

    def give_back(self, held: Held, delay: float, *, suspend: bool = False) -> None:
        """Make the message visible again `delay` seconds from now, to whoever receives then."""
        self._start(self._releasing, self._give_back, held, delay, suspend)

    def forward(self, held: Held, reason: str) -> None:
        """Move the message to the dead letters."""
        logger.warning("giving up %r, it goes to the dead letters: %s", held.message, reason)
        self._start(self._forwarding, self._forward, held)

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
                errors = await self._settling.ack([held.message for held in batch])
            except BaseException:
                self._acks.put_back(destination, batch)
                raise
            if not any(errors):
                for held in batch if watch.reason else ():
                    watch.ended(held)
                self._acked(batch)
                continue
            again: list[Held] = []
            throttled = False
            for held, error in zip(batch, errors, strict=True):
                if error is not None and self._may_try_again(held, error):
                    watch.failed(error, held)
                    again.append(held)
                    throttled = throttled or isinstance(error, BusyError)
                    continue
                if error is not None:
                    logger.warning("%r was handled, but will be redelivered: %s", held.message, error)
                watch.ended(held)
                self._ended(held, error is None)
            if again:
                pause = failure_pause(again[0].failures, throttled=throttled, rng=self._rng)
                self._start(watch, self._ack_again, again, pause)

    async def _ack_again(self, watch: Watch, batch: list[Held], pause: float) -> None:
        await asyncio.sleep(pause)
        for held in batch:
            self.acknowledge(held)

    async def _give_back(self, watch: Watch, held: Held, delay: float, suspend: bool) -> None:
        try:
            await retried(
                partial(
                    self._settling.change, held.message, delay, reason=ChangeReason.RETRY, suspend=suspend
                ),
                partial(self._delay_after, watch, held),
            )
        except RocketMQError as error:
            # It is redelivered all the same, when its lease expires.
            logger.info("%r is redelivered when its lease expires: %s", held.message, error)
        watch.ended(held)
        self._ended(held, False)

    async def _forward(self, watch: Watch, held: Held) -> None:
        max_attempts = self._session.settings.backoff.max_attempts
        try:
            await retried(
                partial(self._settling.forward, held.message, max_attempts=max_attempts),
                partial(self._delay_after, watch, held),
            )
        except RocketMQError as error:
            logger.warning("%r did not go to the dead letters and is redelivered: %s", held.message, error)
            self._ended(held, False)
        else:
            self._ended(held, True)
        watch.ended(held)

    def _may_try_again(self, held: Held, error: RocketMQError) -> bool:
        """Any error may pass but those that say that the lease has expired; once it has, the message is redelivered."""
        held.failures += 1
        return (
            not isinstance(error, (LeaseLostError, UsageError))
            and self._session.clock.time() < held.lease.ends_at
        )

    def _delay_after(self, watch: Watch, held: Held, error: RocketMQError) -> float | None:
        if not self._may_try_again(held, error):
            return None
        watch.failed(error, held)
        return failure_pause(held.failures, throttled=isinstance(error, BusyError), rng=self._rng)
