"""A consumer that dies without a word: others get its messages when its leases end, none is lost."""

import asyncio
import sys
from typing import Any

from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked

DIES = """
import asyncio, os, sys
from aiorocketmq.push_consumer import PushConsumer

async def handle(message):
    os._exit(9)

async def main():
    async with PushConsumer(sys.argv[1], group="billing", subscriptions=["orders"], handler=handle) as consumer:
        await consumer.run()

asyncio.run(main())
"""


async def test_what_a_dead_consumer_had_in_hand_comes_to_another_when_the_leases_end(arrivals: Any) -> None:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            for number in range(5):
                await producer.send(Message("orders", b"%d" % number))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, broker.endpoint)
        assert await asyncio.wait_for(process.wait(), 30) == 9
        assert len(broker.leases("billing")) == 5

        async with (
            PushConsumer(broker.endpoint, group="billing", subscriptions=["orders"], handler=arrivals),
            broker.events.subscribe() as events,
        ):
            await broker.clock.advance(seconds=60)
            await arrivals.contain(*(b"%d" % number for number in range(5)))
            acked = 0
            async for event in events:
                acked += isinstance(event, Acked)
                if acked == 5:
                    break

        assert sorted(arrivals.bodies) == [b"%d" % number for number in range(5)]
        assert {delivery.attempt for delivery in broker.deliveries("orders")} == {1, 2}
