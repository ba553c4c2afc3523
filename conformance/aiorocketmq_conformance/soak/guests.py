"""Short-lived members of a load's groups: they join, handle a few messages, and leave, or cancel their polls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from aiorocketmq import (
    Connection,
    Hook,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
)

from aiorocketmq_conformance.soak.ledger import Ledger
from aiorocketmq_conformance.soak.load import DELAYED, FIFO, LITE, NORMAL, PAID

PAUSE = 0.2
"""Seconds until the next visit after one that failed."""


class Guests:
    """Makes queues change hands, and clients start and stop, while a load runs."""

    def __init__(
        self,
        endpoint: str,
        ledger: Ledger,
        rng: Random,
        hooks: Sequence[Hook],
        *,
        ordering: bool = True,
        pulling: bool = True,
        lite: bool = False,
    ) -> None:
        """Prepare; without `ordering` none joins the ordered group, without `pulling` none is a PullConsumer, and with
        `lite` some want lite topics."""
        self._endpoint = endpoint
        self._ledger = ledger
        self._rng = rng
        self._hooks = hooks
        self._visits = [self._push, self._poll]
        if ordering:
            self._visits.append(self._order)
        if pulling:
            self._visits.append(self._pull)
        if lite:
            self._visits.append(self._change_lite_topics)

    async def come_and_go(self) -> None:
        """Visit one after the other until cancelled."""
        while True:
            try:
                async with Connection(self._endpoint) as connection:
                    await self._rng.choice(self._visits)(connection)
            except RocketMQError:
                await asyncio.sleep(PAUSE)

    async def _push(self, connection: Connection) -> None:
        await self._stay(connection, "push", [NORMAL, DELAYED, PAID])

    async def _order(self, connection: Connection) -> None:
        await self._stay(connection, "ordered", [FIFO])

    async def _stay(self, connection: Connection, group: str, topics: list[str]) -> None:
        async with PushConsumer(
            connection,
            group=group,
            subscriptions=topics,
            handler=self._handle,
            hooks=self._hooks,
            invisible=10.0,
            grace=2.0,
        ):
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))

    async def _change_lite_topics(self, connection: Connection) -> None:
        async with PushConsumer(
            connection,
            group="lite",
            subscriptions=[LITE],
            handler=self._handle,
            hooks=self._hooks,
            lite_topics=["dave"],
            grace=2.0,
        ) as consumer:
            await consumer.add_lite_topics("erin", "frank")
            await consumer.remove_lite_topics("erin")
            await consumer.remove_lite_topics("frank")

    async def _handle(self, message: ReceivedMessage) -> None:
        self._ledger.handled(message.group or "", message.message_id)

    async def _poll(self, connection: Connection) -> None:
        async with SimpleConsumer(
            connection, group="simple", subscriptions=[NORMAL], hooks=self._hooks
        ) as consumer:
            for _ in range(5):
                try:
                    async with asyncio.timeout(self._rng.uniform(0.0, 0.2)):
                        messages = await consumer.receive(max_messages=8, invisible=10.0, wait=5.0)
                except TimeoutError:
                    continue
                for message in messages:
                    self._ledger.handled("simple", message.message_id)
                await consumer.ack(messages)

    async def _pull(self, connection: Connection) -> None:
        # A group of its own: two PullConsumers of one group would overwrite each other's offsets.
        async with PullConsumer(connection, group="visitor", hooks=self._hooks) as consumer:
            queues = await consumer.queues(NORMAL)
            consumer.assign(queues)
            for queue in queues:
                await consumer.committed(queue)
            await consumer.lag()
            await consumer.poll(1.0)
            await consumer.commit()
