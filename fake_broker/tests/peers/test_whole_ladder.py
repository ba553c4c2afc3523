"""Virtual time: the complete ladder of retries, almost five hours, consumed by Apache's Python client in a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.choices import Backoff
from aiorocketmq_fake.core.values.events import DeadLettered, Delivered, Event, LeaseChanged

pytestmark = pytest.mark.peer

ApacheClient = Any
Start = Callable[[str], Awaitable[ApacheClient]]

ATTEMPTS = 17
LADDER = [float(step) for step in Backoff.DOCUMENTED.value]
TRIES = 3
"""Climbs, of which the fastest counts: other work on the machine may slow any one down."""


class Climb:
    """What the broker tells of one message that always fails: when it was given back, and when given up."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._given_back = asyncio.Semaphore(0)
        self.dead = asyncio.Event()
        self.first_at = 0.0
        """The real time of the first delivery."""

    def hear(self, events: Sequence[Event]) -> None:
        """Take what the broker tells at one instant."""
        for event in events:
            if isinstance(event, Delivered):
                self.first_at = self.first_at or time.monotonic()
            elif isinstance(event, LeaseChanged):
                self._given_back.release()
            elif isinstance(event, DeadLettered):
                self.dead.set()

    async def finish(self) -> None:
        """Each time the client gives the message back, go to the end of its lease, until it is a dead letter."""
        for _ in range(ATTEMPTS):
            await self._given_back.acquire()
            (lease,) = self._broker.leases()
            await self._broker.clock.advance_to(lease.ends_at)
        await self.dead.wait()


async def climb(broker: FakeBroker, client: ApacheClient, number: int) -> float:
    """Send one message that always fails; the real seconds from its first delivery until it is a dead letter."""
    whole = Climb(broker)
    at = broker.clock.now()
    with broker.events.listen(whole.hear):
        await client("send", topic="orders", body="poison")
        async with asyncio.timeout(30):
            await whole.finish()
    took = time.monotonic() - whole.first_at
    # The last failure is given back for the last interval like those before it; then nobody gets the message again.
    assert broker.clock.now() - at == pytest.approx(sum(LADDER) + LADDER[-1], abs=1.0)
    messages = await client.consumed(ATTEMPTS)
    assert [one["attempt"] for one in messages] == list(range(1, ATTEMPTS + 1))
    assert [letter.body for letter in broker.dead_letters("billing")] == [b"poison"] * number
    return took


async def test_seventeen_deliveries_over_five_hours_pass_in_less_than_a_second(
    apache_client: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        client = await apache_client(broker.endpoint)
        await client("start_producer", topics=["orders"])
        await client("start_push", group="billing", topic="orders", failures={"poison": 1000})
        took = [await climb(broker, client, number) for number in range(1, TRIES + 1)]
        waits = [
            later.at - earlier.at
            for earlier, later in zip(
                broker.deliveries("orders")[: ATTEMPTS - 1], broker.deliveries("orders")[1:], strict=False
            )
        ]
        assert waits == pytest.approx(LADDER, abs=0.05)
        await client("stop", name="push")
    with capsys.disabled():
        print(
            f"\n17 deliveries from the first to the dead letter, real seconds: {[round(one, 2) for one in took]}"
        )
    assert min(took) < 1.0, f"climbs took {took}"
