"""A poll that waits for room is woken by all that makes room, also by the end of another poll that brought little."""

import asyncio

from aiorocketmq.config import CacheLimits
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer

BACKLOG = 70


async def test_a_poll_beside_others_is_woken_when_they_end_with_little() -> None:
    """Room for three batches: two came, and the concurrent poll keeps the last third until it ends with six."""
    handled: list[str] = []
    gate, all_came, all_handled, done = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    waiting = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == BACKLOG:
            all_came.set()
        await gate.wait()
        handled.append(message.body.decode())
        if len(handled) == BACKLOG:
            all_handled.set()
        elif len(handled) > BACKLOG:
            done.set()

    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            await producer.send_many([Message("orders", b"%d" % number) for number in range(BACKLOG)])
            # The third receive is concurrent with the first poll's second.
            broker.faults.delay("ReceiveMessage", 0.5, skip=2, times=1)
            consumer = push_consumer(
                broker.endpoint,
                handler=handle,
                concurrency=2 * BACKLOG,
                cache=CacheLimits(messages=96),
            )
            async with consumer, asyncio.timeout(30):
                await all_came.wait()
                gate.set()
                await all_handled.wait()
                await producer.send(Message("orders", b"last"))
                await done.wait()
    assert handled[-1] == "last"
