"""Producers under load over an outage: no send fails, they are back as soon as a quiet one, and orders hold."""

import asyncio
from collections import defaultdict

from aiorocketmq.hooks import Event, Hook, SendEvent
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker

SENDERS = 200
OUTAGE = 1.5
"""Seconds between the broker's end and its return: the scenario itself, nothing is waited for meanwhile."""
BACK_WITHIN = 5.0


class Stored(Hook):
    """Counts messages that were stored, and lets one wait for a number of them."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, SendEvent) and event.phase.value == "ok":
            self.count += 1
            self._more.set()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.count < count:
                self._more.clear()
                await self._more.wait()


async def test_a_producer_under_load_is_back_soon_and_no_send_fails(broker: FakeBroker) -> None:
    """By default, with nothing set."""
    stored, is_over = Stored(), False
    ids: list[str] = []
    loop = asyncio.get_running_loop()
    last: list[float] = [0.0] * SENDERS

    async with Producer(broker.endpoint, topics=["orders"], hooks=[stored]) as producer:

        async def send(number: int) -> None:
            while not is_over:
                receipt = await producer.send(Message("orders", b"%d" % number))
                ids.append(receipt.message_id)
                last[number] = loop.time()

        async with asyncio.TaskGroup() as group:
            for number in range(SENDERS):
                group.create_task(send(number))
            await stored.reach(2 * SENDERS)
            await broker.crash()
            await asyncio.sleep(OUTAGE)
            await broker.start()
            returned = loop.time()
            async with asyncio.timeout(BACK_WITHIN):
                while min(last) <= returned:
                    await stored.reach(stored.count + 1)
            is_over = True

    assert {message.message_id for message in broker.messages("orders")} >= set(ids)


async def test_message_groups_keep_their_order_through_an_outage(broker: FakeBroker) -> None:
    await broker.create_topic("fifo", type="FIFO", queues=2)
    stored = Stored()
    groups, each = 5, 20
    async with Producer(broker.endpoint, topics=["fifo"], hooks=[stored]) as producer:
        sends = [
            asyncio.create_task(producer.send(Message("fifo", b"%03d" % number, message_group=f"g{group}")))
            for number in range(each)
            for group in range(groups)
        ]
        await stored.reach(groups * each // 4)
        await broker.crash()
        await asyncio.sleep(OUTAGE / 3)
        await broker.start()
        await asyncio.gather(*sends)
    bodies: defaultdict[str | None, list[bytes]] = defaultdict(list)
    for message in broker.messages("fifo"):
        # Sent again with its id when its answer was lost: what was stored twice stands in its place.
        if message.body not in bodies[message.message_group]:
            bodies[message.message_group].append(message.body)
    assert len(bodies) == groups
    assert all(
        group_bodies == [b"%03d" % number for number in range(each)] for group_bodies in bodies.values()
    )
