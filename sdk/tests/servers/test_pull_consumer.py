"""A pull consumer reads where a server has the calls for it, and is one clear error elsewhere."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq.errors import NotSupportedError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any


async def test_committed_messages_are_behind_a_reader_that_comes_back(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    async with Producer(place.endpoint, topics=[topic]) as producer:
        for number in range(6):
            await producer.send(Message(topic, b"%d" % number))
    if not place.serves_pulls:
        with pytest.raises(
            NotSupportedError,
            match=f"{place.endpoint} does not serve pull consumers.*or a server that serves",
        ):
            async with PullConsumer(place.endpoint, group=group):
                pass
        return

    async def read(count: int) -> list[bytes]:
        async with (
            asyncio.timeout(30),
            PullConsumer(place.endpoint, group=group, max_messages=count) as consumer,
        ):
            consumer.assign(await consumer.queues(topic))
            async for batch in consumer:
                await consumer.commit(batch)
                return [message.body for message in batch]
        raise AssertionError("the consumer ended")

    assert await read(4) == [b"0", b"1", b"2", b"3"]
    assert await read(2) == [b"4", b"5"]
