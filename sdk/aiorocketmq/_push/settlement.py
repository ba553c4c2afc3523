"""Carries out what a handler's end calls for: ack, give back or forward, tried again while the lease lasts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from aiorocketmq._core.ack_batches import AckBatches
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._push.held import Held
from aiorocketmq._session import Session
from aiorocketmq._settling import Settling
from aiorocketmq.errors import Busy, LeaseLost, RocketMQError, UsageError
from aiorocketmq.hooks import ChangeReason

logger = logging.getLogger(__name__)

MAX_ACK_ENTRIES = 128
"""Acks in one call. Servers take more, but handle entries one by one (64 take 20 ms, live-broker-consumption.md)."""

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
        self._acks = AckBatches[Destination, Held](max_entries=MAX_ACK_ENTRIES)
        self._loop = asyncio.get_running_loop()

    def acknowledge(self, held: Held) -> None:
        """Ack, together with others of the same server and topic."""
        destination = (held.message._source, held.message.topic)
        if self._acks.add(destination, held):
            self._session.spawn(self._send_acks, destination, name="ack messages")

    def give_back(self, held: Held, delay: float, *, suspend: bool = False) -> None:
        """Let the message come again `delay` seconds from now, to whoever receives then."""
        self._session.spawn(self._give_back, held, delay, suspend, name="give message back")

    def forward(self, held: Held, reason: str) -> None:
        """Move the message to the dead letters."""
        logger.warning("giving up %r, it goes to the dead letters: %s", held.message, reason)
        self._session.spawn(self._forward, held, name="forward to dead letters")

    async def _send_acks(self, destination: Destination) -> None:
        while batch := self._acks.next_batch(destination):
            errors = await self._settling.ack([held.message for held in batch])
            if not any(errors):
                self._acked(batch)
                continue
            again: list[Held] = []
            for held, error in zip(batch, errors, strict=True):
                if error is None:
                    self._ended(held, True)
                elif self._may_try_again(held, error):
                    again.append(held)
                else:
                    logger.warning("%r was handled, but will be delivered again: %s", held.message, error)
                    self._ended(held, False)
            if again:
                self._session.spawn(self._ack_again, again, isinstance(error, Busy), name="repeat acks")

    async def _ack_again(self, batch: list[Held], throttled: bool) -> None:
        await asyncio.sleep(failure_pause(batch[0].failures, throttled=throttled, rng=self._rng))
        for held in batch:
            self.acknowledge(held)

    async def _give_back(self, held: Held, delay: float, suspend: bool) -> None:
        while True:
            try:
                await self._settling.change(held.message, delay, reason=ChangeReason.RETRY, suspend=suspend)
            except RocketMQError as error:
                if self._may_try_again(held, error):
                    await self._pause(held, error)
                    continue
                # It comes again all the same, when its lease ends.
                logger.info("%r comes again when its lease ends: %s", held.message, error)
            self._ended(held, False)
            return

    async def _forward(self, held: Held) -> None:
        while True:
            try:
                await self._settling.forward(
                    held.message, max_attempts=self._session.settings.backoff.max_attempts
                )
            except RocketMQError as error:
                if self._may_try_again(held, error):
                    await self._pause(held, error)
                    continue
                logger.warning("%r did not go to the dead letters and comes again: %s", held.message, error)
                self._ended(held, False)
            else:
                self._ended(held, True)
            return

    def _may_try_again(self, held: Held, error: RocketMQError) -> bool:
        """Any error may pass but those that say that the lease is over; once it is, the message comes again anyway."""
        held.failures += 1
        return not isinstance(error, (LeaseLost, UsageError)) and self._loop.time() < held.lease.ends_at

    async def _pause(self, held: Held, error: RocketMQError) -> None:
        logger.info("settling %r failed, trying again: %s", held.message, error)
        await asyncio.sleep(failure_pause(held.failures, throttled=isinstance(error, Busy), rng=self._rng))
