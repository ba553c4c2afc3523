"""The demonstration's scenario: producers, four kinds of consumers, a failing handler and a killed process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from aiorocketmq import Message, Offset, Producer, PullConsumer, PushConsumer, ReceivedMessage, SimpleConsumer
from aiorocketmq.hooks import ChangeEvent, Event as ClientFact, Hook, Phase
from aiorocketmq.recording import Recorder
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Event, PollParked, ReceiveEnded

from aiorocketmq_conformance.demo.shared_queues import HALF, Share, share_queues

ORDERS, SHIPMENTS, REMINDERS = "orders", "shipments", "reminders"
BILLING, SHIPPING, DESK, LEDGER = "billing", "shipping", "desk", "ledger"

ORDER_COUNT = 200
SHIPMENT_GROUPS, SHIPMENTS_EACH = 6, 10
REMINDER_COUNT, REMINDER_DELAY = 5, 600.0
HELD = 3
MAX_ATTEMPTS = 17
# Real seconds after which any wait fails.
PATIENCE = 20.0
# Real seconds for which the manual clock lets consumers ack their deliveries.
SETTLING = 5.0

Tell = Callable[[str], None]


@dataclass(slots=True)
class Summary:
    """What was done, for the page and for the last lines."""

    sent: int = 0
    handled: int = 0
    failing: str = ""
    held: tuple[str, ...] = ()
    attempts: int = 0
    pulled: int = 0
    shares: tuple[Share, ...] = ()
    virtual_seconds: float = 0.0


class Scenario(Hook):
    """One run against one fake broker; each step may be called once, in the order of definition.

    It is a hook of its own clients, to wait for their events.
    """

    def __init__(self, broker: FakeBroker, hooks: list[Hook], random: Random) -> None:
        self._broker = broker
        self._hooks = [self, *hooks]
        self._random = random
        self._changed = asyncio.Event()
        self._billing_polls: set[int] = set()
        """Parked polls for orders; a busy queue has several."""
        self._nacks = 0
        self._started = broker.clock.now()
        self.summary = Summary()

    async def prepare(self) -> None:
        """Create the topics and groups."""
        await self._broker.create_topic(ORDERS, queues=4)
        await self._broker.create_topic(SHIPMENTS, type="FIFO", queues=4)
        await self._broker.create_topic(REMINDERS, type="DELAY", queues=1)
        for group in (BILLING, DESK, LEDGER):
            await self._broker.create_group(group, max_attempts=MAX_ATTEMPTS)
        await self._broker.create_group(SHIPPING, ordered=True, max_attempts=MAX_ATTEMPTS)

    async def produce(self) -> None:
        """Send orders concurrently, shipments in order within their group, and delayed reminders."""
        async with Producer(self._broker.endpoint, hooks=self._hooks) as producer:
            receipts = await asyncio.gather(
                *(
                    producer.send(Message(ORDERS, f"order {n}".encode(), tag="paid"))
                    for n in range(ORDER_COUNT)
                )
            )
            self.summary.failing = self._random.choice(receipts).message_id

            async def ship(customer: str) -> None:
                for number in range(SHIPMENTS_EACH):
                    await producer.send(Message(SHIPMENTS, str(number).encode(), message_group=customer))

            await asyncio.gather(*(ship(f"customer-{n}") for n in range(SHIPMENT_GROUPS)))
            for number in range(REMINDER_COUNT):
                body = f"reminder {number}".encode()
                await producer.send(Message(REMINDERS, body, delay=REMINDER_DELAY))
        self.summary.sent = ORDER_COUNT + SHIPMENT_GROUPS * SHIPMENTS_EACH + REMINDER_COUNT

    async def kill_consumer(self) -> None:
        """Let another process lease messages, and kill it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "aiorocketmq_conformance.demo.crashing_consumer",
            self._broker.endpoint,
            ORDERS,
            DESK,
            str(HELD),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None, "stdout is a pipe"
            async with asyncio.timeout(PATIENCE):
                line = await process.stdout.readline()
        finally:
            process.kill()
            await process.wait()
        if not line:
            raise RuntimeError("the consumer to be killed received no messages: run it alone to see why.")
        self.summary.held = tuple(json.loads(line))

    @asynccontextmanager
    async def consumers(self) -> AsyncIterator[None]:
        """Run both push consumers; one handler always fails for one message."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self._broker.events.listen(self._watch))
            for group, topics, handler in (
                (BILLING, [ORDERS, REMINDERS], self._bill),
                (SHIPPING, [SHIPMENTS], self._ship),
            ):
                consumer = PushConsumer(
                    self._broker.endpoint,
                    group=group,
                    subscriptions=topics,
                    handler=handler,
                    hooks=self._hooks,
                )
                await stack.enter_async_context(consumer)
            yield

    async def consume(self) -> None:
        """Wait until the push consumers have handled all available messages."""
        ready = ORDER_COUNT - 1 + SHIPMENT_GROUPS * SHIPMENTS_EACH
        await self._until(lambda: self.summary.handled >= ready and self.summary.attempts >= 1)

    async def settle(self, count: int) -> None:
        """Receive and acknowledge `count` orders with the simple consumer."""
        taken = 0
        async with SimpleConsumer(
            self._broker.endpoint, group=DESK, subscriptions=[ORDERS], hooks=self._hooks
        ) as consumer:
            while taken < count:
                async with asyncio.timeout(PATIENCE):
                    messages = await consumer.receive(max_messages=32, invisible=60, wait=5)
                await consumer.ack(messages)
                taken += len(messages)

    async def pull(self) -> None:
        """Read every queue of the orders from its beginning, and commit the offsets."""
        async with PullConsumer(self._broker.endpoint, group=LEDGER, hooks=self._hooks) as consumer:
            queues = await consumer.queues(ORDERS)
            consumer.assign(queues)
            for queue in queues:
                await consumer.seek(queue, Offset.BEGIN)
            async with asyncio.timeout(PATIENCE):
                async for batch in consumer:
                    self.summary.pulled += len(batch)
                    await consumer.commit(batch)
                    if self.summary.pulled >= ORDER_COUNT:
                        break

    async def share(self) -> None:
        """Let four consumers share queues, one of which leaves."""
        self.summary.shares = await share_queues(self._broker, self._hooks)
        self.summary.sent += 2 * HALF

    async def advance_retries(self, tell: Tell, *, attempts: int = MAX_ATTEMPTS + 1) -> None:
        """Move the clock from retry to retry, until the failing message has had `attempts` or is a dead letter."""
        while self.summary.attempts < attempts and not self._broker.dead_letters(BILLING):
            if self.summary.attempts > MAX_ATTEMPTS:
                raise RuntimeError(
                    "the failing message did not become a dead letter: the broker does not enforce the limit."
                )
            # The client must have received the response to its change: its recording has that time, too.
            await self._until(lambda: self._nacks >= self.summary.attempts)
            due = self._failing_lease_end()
            # Polls expire while the clock jumps, and clients poll again in real time: the retry must find one parked.
            await self._broker.clock.advance_to(due - 1.0)
            await self._until(lambda: bool(self._billing_polls))
            await self._broker.clock.advance_to(due, patience=SETTLING)
            self.summary.virtual_seconds = self._broker.clock.now() - self._started
            tell(
                f"{self.summary.attempts} attempts in {self.summary.virtual_seconds / 3600:.1f} virtual hours"
            )

    def _watch(self, events: Sequence[Event]) -> None:
        for event in events:
            if not isinstance(event, PollParked | ReceiveEnded):
                continue
            if (event.group, event.topic) == (BILLING, ORDERS):
                if isinstance(event, PollParked):
                    self._billing_polls.add(event.poll_id)
                else:
                    self._billing_polls.discard(event.batch)
                self._changed.set()

    def _failing_lease_end(self) -> float:
        ends = [
            lease.ends_at
            for lease in self._broker.leases(BILLING)
            if lease.message_id == self.summary.failing
        ]
        if not ends:
            raise RuntimeError("the failing message is neither leased nor a dead letter: the broker lost it.")
        return max(ends)

    def observe(self, event: ClientFact) -> None:
        """Return how often the failing message was nacked, as observed by its consumer."""
        if isinstance(event, ChangeEvent) and event.phase is Phase.OK:
            self._nacks += event.message.message_id == self.summary.failing
            self._changed.set()

    async def _bill(self, message: ReceivedMessage) -> None:
        if message.message_id == self.summary.failing:
            self.summary.attempts += 1
            self._changed.set()
            raise ValueError("this handler never accepts this message")
        self.summary.handled += 1
        self._changed.set()

    async def _ship(self, message: ReceivedMessage) -> None:
        self.summary.handled += 1
        self._changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def recorder(folder: Path, broker: FakeBroker) -> Recorder:
    """Return a client's recorder on the broker's clock, so that both recordings have one time."""
    return Recorder(folder, clock=broker.clock.now)
