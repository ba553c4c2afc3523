"""A damaged message in the answer of a pull: all of the answer is read again, and nothing is left out."""

import asyncio

import pytest
from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import Method
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from aiorocketmq_fake import FakeBroker


@pytest.mark.parametrize("damage", [b"\xff" * 16, b""], ids=["undecodable", "empty"])
@pytest.mark.parametrize("damaged", ["message", "next_offset"])
async def test_a_pull_with_a_damaged_answer_is_repeated(damage: bytes, damaged: str) -> None:
    left = [damage]

    def answered(method: Method, frame: bytes) -> bytes:
        if left and method.name == "PullMessage":
            answer = pb.PullMessageResponse.FromString(frame)
            if answer.WhichOneof("content") == damaged and (
                damaged == "next_offset" or answer.message.body == b"3"
            ):
                return left.pop()
        return frame

    bodies: list[bytes] = []
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        async with Producer(broker.endpoint) as producer:
            for number in range(6):
                await producer.send(Message("orders", b"%d" % number))
        async with (
            faulty_proxy(broker.endpoint, ProxyFaults(answered=answered)) as endpoint,
            PullConsumer(
                endpoint, group="billing", max_messages=3, address_map=lambda _: endpoint
            ) as consumer,
            asyncio.timeout(30),
        ):
            consumer.assign(await consumer.queues("orders"))
            async for batch in consumer:
                bodies += [message.body for message in batch]
                if batch.next_offset == 6:
                    break
    assert bodies == [b"%d" % number for number in range(6)]
    assert not left
