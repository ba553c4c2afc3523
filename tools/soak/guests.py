"""Short-lived members of a load's groups: they join, handle a few messages, and leave, or cancel their polls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from random import Random

from aiorocketmq import (
    AckManyError,
    Connection,
    Hook,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
)

from tools.soak.health import Watched, listed
from tools.soak.ledger import Ledger
from tools.soak.load import DELAYED, FIFO, LITE, NORMAL, PAID, VISITOR, Errors

Visit = Callable[[Connection], Awaitable[None]]

PAUSE = 0.2
"""Seconds until the next visit after one that failed."""
ENOUGH = 20
"""Failed visits of one kind, without any that succeeded, that damaged answers do not explain: with 2 % of them damaged,
up to half of the PullConsumers' visits fail, as each makes over 20 calls."""


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
        self.errors = Errors()
        self.failed: Counter[str] = Counter()
        """Visits that an error ended, by kind."""
        self.succeeded: Counter[str] = Counter()
        """Visits that came to their end, by kind."""
        self.clients: dict[str, Watched] = {}
        """The clients at work, by name."""
        self._visits: dict[str, Visit] = {"push": self._push, "poll": self._poll}
        if ordering:
            self._visits["order"] = self._order
        if pulling:
            self._visits["pull"] = self._pull
        if lite:
            self._visits["change lite topics"] = self._change_lite_topics

    @property
    def surprises(self) -> list[str]:
        """Errors that no fault of the soak may lead to, and kinds of visits that always fail."""
        return [
            *self.errors.surprises,
            *(
                f"all {count} visits of the guest {kind!r} failed"
                for kind, count in self.failed.items()
                if count >= ENOUGH and not self.succeeded[kind]
            ),
        ]

    async def come_and_go(self) -> None:
        """Visit one after the other until cancelled."""
        while True:
            await self.visit(self._rng.choice(list(self._visits)))

    async def visit(self, kind: str) -> None:
        """Make one visit; after an error, count it and wait `PAUSE` seconds."""
        try:
            async with Connection(self._endpoint) as connection:
                await self._visits[kind](connection)
        except RocketMQError as error:
            self.failed[kind] += 1
            self.errors.add(error)
            await asyncio.sleep(PAUSE)
        else:
            self.succeeded[kind] += 1

    def _listed(self, client: Watched) -> AbstractContextManager[None]:
        return listed(self.clients, f"guest {self.failed.total() + self.succeeded.total() + 1}", client)

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
            shutdown_timeout=2.0,
        ) as consumer:
            with self._listed(consumer):
                await asyncio.sleep(self._rng.uniform(0.5, 3.0))

    async def _change_lite_topics(self, connection: Connection) -> None:
        async with PushConsumer(
            connection,
            group="lite",
            subscriptions=[LITE],
            handler=self._handle,
            hooks=self._hooks,
            lite_topics=["dave"],
            shutdown_timeout=2.0,
        ) as consumer:
            with self._listed(consumer):
                await consumer.add_lite_topics("erin", "frank")
                await consumer.remove_lite_topics("erin")
                await consumer.remove_lite_topics("frank")

    async def _handle(self, message: ReceivedMessage) -> None:
        self._ledger.handled(message.group or "", message.message_id)

    async def _poll(self, connection: Connection) -> None:
        async with SimpleConsumer(
            connection, group="simple", subscriptions=[NORMAL], hooks=self._hooks
        ) as consumer:
            with self._listed(consumer):
                for _ in range(5):
                    try:
                        async with asyncio.timeout(self._rng.uniform(0.0, 0.2)):
                            messages = await consumer.receive(max_messages=8, invisible=10.0, wait=5.0)
                    except TimeoutError:
                        continue
                    for message in messages:
                        self._ledger.handled("simple", message.message_id)
                    try:
                        await consumer.ack(messages)
                    except AckManyError as error:
                        self.errors.add(error)

    async def _pull(self, connection: Connection) -> None:
        # A group of its own: two PullConsumers of one group would overwrite each other's offsets.
        async with PullConsumer(connection, group=VISITOR, hooks=self._hooks) as consumer:
            with self._listed(consumer):
                queues = await consumer.queues(NORMAL)
                consumer.assign(queues)
                for queue in queues:
                    await consumer.committed(queue)
                await consumer.lag()
                await consumer.poll(1.0)
                await consumer.commit()
