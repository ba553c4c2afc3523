"""A damaged message in the answer of a poll: it is redelivered, and in an ordered group none behind it overtakes it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import Message, Producer, ReceivedMessage
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import Method
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer

if TYPE_CHECKING:
    from sdk.tests.conftest import LostLeases
else:
    LostLeases = Any

COUNT = 5


def damaging_first(damage: bytes) -> Callable[[Method, bytes], bytes]:
    """Replace the first message of the first answer that has one."""
    left = [damage]

    def answered(method: Method, frame: bytes) -> bytes:
        if left and method.name == "ReceiveMessage":
            answer = pb.ReceiveMessageResponse.FromString(frame)
            if answer.HasField("message") and answer.message.body == b"0":
                return left.pop()
        return frame

    return answered


@pytest.mark.parametrize("damage", [b"\xff" * 16, b""], ids=["undecodable", "empty"])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "not ordered"])
async def test_a_damaged_message_is_redelivered_and_never_overtaken(
    damage: bytes, ordered: bool, lost_leases: LostLeases
) -> None:
    arrived: list[bytes] = []
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        arrived.append(message.body)
        if len(set(arrived)) == COUNT:
            done.set()

    async with FakeBroker() as broker:
        await broker.create_topic("orders", type="FIFO", queues=1)
        await broker.create_group("billing", ordered=ordered)
        async with Producer(broker.endpoint) as producer:
            for number in range(COUNT):
                await producer.send(Message("orders", b"%d" % number, message_group="one"))
        async with (
            faulty_proxy(broker.endpoint, ProxyFaults(answered=damaging_first(damage))) as endpoint,
            push_consumer(
                endpoint,
                handler=handle,
                invisible=10.0,
                address_map=lambda _: endpoint,
            ),
            lost_leases(broker),
            asyncio.timeout(30),
        ):
            await done.wait()
    first = list(dict.fromkeys(arrived))
    assert sorted(first) == [b"%d" % number for number in range(COUNT)]
    if ordered:
        assert first == sorted(first)
