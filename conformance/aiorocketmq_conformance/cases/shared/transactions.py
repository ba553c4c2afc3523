"""A transactional topic with its consumer, producers, and their checkers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.consumer import Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.checker import Checker, Decide, beat, end_transaction
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import within
from aiorocketmq_conformance.tolerances import PROMPT, lag

NEEDS = ("type.tx",)


@dataclass(slots=True)
class TransactionFixture:
    """A transactional topic, its consumer, and its first producer."""

    fixture: Fixture
    topic: str
    consumer: Consumer
    producer: ProbeClient

    async def prepare(
        self,
        *bodies: str,
        client: ProbeClient | None = None,
        recovery: float | None = None,
        born_at: float | None = None,
        **fields: Any,
    ) -> list[Sent]:
        """Send half messages; `recovery` is their own recovery duration in seconds."""
        sent = []
        for body in bodies:
            born = self.fixture.clock.wall() if born_at is None else born_at
            message = requests.message(
                self.topic, body, kind=pb.MessageType.TRANSACTION, born_at=born, **fields
            )
            if recovery is not None:
                requests.duration(message.system_properties.orphaned_transaction_recovery_duration, recovery)
            sent.append(await self.fixture.send_message(message, client or self.producer))
        return sent

    async def end(self, half: Sent, resolution: int, **fields: Any) -> str:
        """End a transaction; return the response's code."""
        topic = fields.pop("topic", self.topic)
        client = fields.pop("client", self.producer)
        transaction_id = fields.pop("transaction_id", half.receipt.transaction_id)
        reply = await end_transaction(client, topic, transaction_id, resolution, **fields)
        return code_of(reply)

    async def checker(self, decide: Decide, client: ProbeClient | None = None) -> Checker:
        """Start to answer checks, until the end of the case."""
        checker = Checker(client or self.producer, decide)
        return await self.fixture.stack.enter_async_context(checker)

    async def deliveries_within(self, seconds: float = PROMPT) -> list[Any]:
        """Return what is delivered within `seconds`, closed by a committed sentinel."""
        deliveries = await self.consumer.receive_for(seconds, settle=True)
        (sentinel,) = await self.prepare("sentinel")
        assert await self.end(sentinel, pb.TransactionResolution.COMMIT) == "OK"
        while True:
            (delivery,) = await self.consumer.take(1, batch=1)
            if delivery.id == sentinel.id:
                return deliveries
            deliveries.append(delivery)

    async def expect_nothing(self, seconds: float, failure: str = "delivered") -> None:
        """AssertionError with `failure` if anything is delivered within `seconds`, closed by a committed sentinel."""
        deliveries = await self.deliveries_within(seconds)
        assert not deliveries, f"{failure}: {deliveries}"

    @property
    def interval(self) -> float:
        """Seconds between two checks."""
        return self.fixture.number("tx.interval")

    @property
    def first_check(self) -> float:
        """Seconds within which a half message is checked, counted from its send."""
        return self.fixture.number("tx.immunity") + 2 * self.interval + lag(self.fixture.target)

    async def expect_checks(self, checker: Checker, count: int, message_id: str | None = None) -> None:
        """Assert that `count` checks arrive within the time that the target declares for them."""
        began = self.fixture.clock.now()
        try:
            await self.within(self.first_check, checker, 1, None)
        except AssertionError:
            if not checker.checks:
                reason = f"in another case no check arrived for a transaction left open for {self.first_check:.0f} s"
                self.fixture.target.block(Step.CHECK, reason)
            raise
        left = max(began + self._time_for(count) - self.fixture.clock.now(), 1.0)
        await self.within(left, checker, count, message_id)

    async def expect_last_check(self, checker: Checker, limit: int, message_id: str) -> None:
        """Assert that all checks of a message up to the server's limit arrive.

        Checks that it counted and that were lost are not waited for, if it numbers them.
        """
        await self._in_time(
            self._time_for(limit), checker, checker.last(limit, message_id), limit, message_id
        )

    async def within(self, seconds: float, checker: Checker, count: int, message_id: str | None) -> None:
        """Assert that `count` checks arrive within `seconds`."""
        await self._in_time(seconds, checker, checker.count(count, message_id), count, message_id)

    def _time_for(self, checks: int) -> float:
        return self.first_check + (checks - 1) * (self.interval + 5.0 + lag(self.fixture.target))

    async def _in_time(
        self,
        seconds: float,
        checker: Checker,
        coming: Coroutine[Any, Any, None],
        count: int,
        message_id: str | None,
    ) -> None:
        """Assert in time; the error has the time of each check, and its number by the server's count."""
        target, began = self.fixture.target, self.fixture.clock.now()
        try:
            await within(self.fixture.clock, seconds, _first(coming, target.blocks.blocked(Step.CHECK)))
        except TimeoutError:
            target.require(Step.CHECK)
            checks = checker.checks if message_id is None else checker.of(message_id)
            arrivals = " ".join(f"{check.number}@{check.at - began:.0f}" for check in checks)
            raise AssertionError(
                f"{len(checks)} checks within {seconds:.0f} s, not {count}: {arrivals}"
            ) from None
        if checker.checks:
            target.blocks.works(Step.CHECK)
        target.require(Step.CHECK)


async def open_transactions(
    fixture: Fixture, *, queues: int = 1, expression: str = "*", needs_checks: bool = False
) -> TransactionFixture:
    """Return a fresh transactional topic with a primed consumer and a producer that has sent its settings.

    With `needs_checks` the case is blocked on a target that is known to send none.
    """
    if needs_checks:
        fixture.target.require(Step.CHECK)
    topic, consumer = await fixture.subscribed(queues, type="TRANSACTION", expression=expression)
    fixture.background(beat(consumer.client, consumer.group, consumer.kind))
    return TransactionFixture(fixture, topic, consumer, await fixture.producer(topic))


async def _first(*waits: Coroutine[Any, Any, None]) -> None:
    """Return when the first of `waits` has finished, with its error if it has one; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def always(resolution: int | None) -> Callable[[object], int | None]:
    """Return a decision that gives the same resolution to every check."""
    return lambda check: resolution
