"""What the demonstration plays: producers, four kinds of consumers, a failing handler and a killed process."""

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
# Real seconds that any wait may take before the demonstration gives up with an error.
PATIENCE = 20.0
# Real seconds that the manual clock lets consumers settle what they were handed.
SETTLING = 5.0

Tell = Callable[[str], None]


@dataclass(slots=True)
class Played:
    """What was done, for the page and for the closing lines."""

    sent: int = 0
    handled: int = 0
    poisoned: str = ""
    held: tuple[str, ...] = ()
    attempts: int = 0
    pulled: int = 0
    shares: tuple[Share, ...] = ()
    virtual_seconds: float = 0.0


class Scenario(Hook):
    """One performance against one fake broker; each step may be called once, in the order written here.

    It is a hook of its own clients, to see when they know what they are waiting for.
    """

    def __init__(self, broker: FakeBroker, hooks: list[Hook], random: Random) -> None:
        self._broker = broker
        self._hooks = [self, *hooks]
        self._random = random
        self._changed = asyncio.Event()
        self._billing_polls: set[int] = set()
        """Polls for orders that are parked; a busy queue has several."""
        self._given_back = 0
        self._started = broker.clock.now()
        self.played = Played()

    async def prepare(self) -> None:
        """Make the topics and groups."""
        await self._broker.create_topic(ORDERS, queues=4)
        await self._broker.create_topic(SHIPMENTS, type="FIFO", queues=4)
        await self._broker.create_topic(REMINDERS, type="DELAY", queues=1)
        for group in (BILLING, DESK, LEDGER):
            await self._broker.create_group(group, max_attempts=MAX_ATTEMPTS)
        await self._broker.create_group(SHIPPING, ordered=True, max_attempts=MAX_ATTEMPTS)

    async def produce(self) -> None:
        """Send orders side by side, shipments in order within their group, and reminders for later."""
        async with Producer(self._broker.endpoint, hooks=self._hooks) as producer:
            receipts = await asyncio.gather(
                *(
                    producer.send(Message(ORDERS, f"order {n}".encode(), tag="paid"))
                    for n in range(ORDER_COUNT)
                )
            )
            self.played.poisoned = self._random.choice(receipts).message_id

            async def ship(customer: str) -> None:
                for number in range(SHIPMENTS_EACH):
                    await producer.send(Message(SHIPMENTS, str(number).encode(), message_group=customer))

            await asyncio.gather(*(ship(f"customer-{n}") for n in range(SHIPMENT_GROUPS)))
            for number in range(REMINDER_COUNT):
                body = f"reminder {number}".encode()
                await producer.send(Message(REMINDERS, body, delay=REMINDER_DELAY))
        self.played.sent = ORDER_COUNT + SHIPMENT_GROUPS * SHIPMENTS_EACH + REMINDER_COUNT

    async def hold_and_kill(self) -> None:
        """Let another process take messages, and kill it while it holds them."""
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
            assert process.stdout is not None, "the pipe was asked for"
            async with asyncio.timeout(PATIENCE):
                line = await process.stdout.readline()
        finally:
            process.kill()
            await process.wait()
        if not line:
            raise RuntimeError(
                "the consumer that was to be killed took no messages: run it alone to see why."
            )
        self.played.held = tuple(json.loads(line))

    @asynccontextmanager
    async def consumers(self) -> AsyncIterator[None]:
        """Both push consumers, one of whose handlers fails for one message, whatever its attempt."""
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
        """Wait until the push consumers have handled everything that can be handled now."""
        ready = ORDER_COUNT - 1 + SHIPMENT_GROUPS * SHIPMENTS_EACH
        await self._until(lambda: self.played.handled >= ready and self.played.attempts >= 1)

    async def settle(self, wanted: int) -> None:
        """Take and acknowledge `wanted` orders at the desk."""
        taken = 0
        async with SimpleConsumer(
            self._broker.endpoint, group=DESK, subscriptions=[ORDERS], hooks=self._hooks
        ) as consumer:
            while taken < wanted:
                async with asyncio.timeout(PATIENCE):
                    messages = await consumer.receive(max_messages=32, invisible=60, wait=5)
                await consumer.ack(messages)
                taken += len(messages)

    async def pull(self) -> None:
        """Read every queue of the orders from its beginning, and commit where that got."""
        async with PullConsumer(self._broker.endpoint, group=LEDGER, hooks=self._hooks) as consumer:
            queues = await consumer.queues(ORDERS)
            consumer.assign(queues)
            for queue in queues:
                await consumer.seek(queue, Offset.BEGIN)
            async with asyncio.timeout(PATIENCE):
                async for batch in consumer:
                    self.played.pulled += len(batch)
                    await consumer.commit(batch)
                    if self.played.pulled >= ORDER_COUNT:
                        break

    async def share(self) -> None:
        """Let four consumers share queues, one of which leaves."""
        self.played.shares = await share_queues(self._broker, self._hooks)
        self.played.sent += 2 * HALF

    async def climb(self, tell: Tell, *, attempts: int = MAX_ATTEMPTS + 1) -> None:
        """Move the clock from retry to retry, until the poisoned message has had `attempts` or is a dead letter."""
        while self.played.attempts < attempts and not self._broker.dead_letters(BILLING):
            if self.played.attempts > MAX_ATTEMPTS:
                raise RuntimeError(
                    "the poisoned message never became a dead letter: the broker keeps no limit."
                )
            # The client must have read that its change was done: its own recording tells the time of that, too.
            await self._until(lambda: self._given_back >= self.played.attempts)
            due = self._poisoned_lease_end()
            # Polls end while the clock jumps, and clients come back in real time: the retry must find one waiting.
            await self._broker.clock.advance_to(due - 1.0)
            await self._until(lambda: bool(self._billing_polls))
            await self._broker.clock.advance_to(due, patience=SETTLING)
            self.played.virtual_seconds = self._broker.clock.now() - self._started
            tell(f"{self.played.attempts} attempts in {self.played.virtual_seconds / 3600:.1f} virtual hours")

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

    def _poisoned_lease_end(self) -> float:
        ends = [
            lease.ends_at
            for lease in self._broker.leases(BILLING)
            if lease.message_id == self.played.poisoned
        ]
        if not ends:
            raise RuntimeError("the poisoned message is neither leased nor dead: the broker lost it.")
        return max(ends)

    def observe(self, event: ClientFact) -> None:
        """Count how often the poisoned message was given back, as its consumer knows."""
        if isinstance(event, ChangeEvent) and event.phase is Phase.OK:
            self._given_back += event.message.message_id == self.played.poisoned
            self._changed.set()

    async def _bill(self, message: ReceivedMessage) -> None:
        if message.message_id == self.played.poisoned:
            self.played.attempts += 1
            self._changed.set()
            raise ValueError("this handler never accepts this message")
        self.played.handled += 1
        self._changed.set()

    async def _ship(self, message: ReceivedMessage) -> None:
        self.played.handled += 1
        self._changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def recorder(folder: Path, broker: FakeBroker) -> Recorder:
    """A client's recorder that follows the broker's own clock, so that both observers tell one time."""
    return Recorder(folder, clock=broker.clock.now)
