"""Answers to acks: each message has the outcome of its own entry, whatever order or number the entries have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from aiorocketmq import Message, Producer, SimpleConsumer
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.errors import LeaseLostError
from aiorocketmq.many import AckManyError
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer

OK, MIXED, LOST = pb.Code.OK, pb.Code.MULTIPLE_RESULTS, pb.Code.INVALID_RECEIPT_HANDLE


class Rewriting(GrpcioTransport):
    """The ordinary transport; answers to acks have `status`, and of the entries those in `entries`.

    Each is the number of a message of the request and its code."""

    status = int(OK)
    entries: Sequence[tuple[int, int]] = ()
    requests = 0

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        if not path.endswith("/AckMessage"):
            return answer
        self.requests += 1
        request = pb.AckMessageRequest.FromString(payload)
        response = pb.AckMessageResponse(status=pb.Status(code=self.status))  # type: ignore[arg-type]
        for number, code in self.entries:
            entry = request.entries[number]
            response.entries.add(
                message_id=entry.message_id,
                receipt_handle=entry.receipt_handle,
                status=pb.Status(code=code),  # type: ignore[arg-type]
            )
        return response.SerializeToString()


@pytest.fixture
def transport() -> Rewriting:
    return Rewriting()


@pytest.fixture
async def consumer(transport: Rewriting) -> AsyncIterator[SimpleConsumer]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            await producer.send_many([Message("orders", b"%d" % number) for number in range(3)])
        async with simple_consumer(broker.endpoint, transport=transport) as consumer:
            yield consumer


async def received(consumer: SimpleConsumer) -> list[ReceivedMessage]:
    messages = list(await consumer.receive(max_messages=3, wait=5))
    assert len(messages) == 3
    return messages


async def outcomes(consumer: SimpleConsumer, messages: Sequence[ReceivedMessage]) -> list[object]:
    try:
        await consumer.ack(messages)
    except AckManyError as error:
        return [None if each is None else type(each) for _, each in error.outcomes]
    return [None] * len(messages)


@pytest.mark.parametrize(
    ("status", "entries", "failed"),
    [
        pytest.param(MIXED, [(0, OK), (1, OK), (2, LOST)], {2}, id="last is lost"),
        pytest.param(MIXED, [(0, LOST), (1, OK), (2, OK)], {0}, id="first is lost"),
        pytest.param(MIXED, [(2, LOST), (0, OK), (1, OK)], {2}, id="another order"),
        pytest.param(MIXED, [(2, OK), (1, LOST), (0, OK)], {1}, id="reversed"),
        pytest.param(MIXED, [(1, OK), (2, OK)], {0}, id="first is left out"),
        pytest.param(MIXED, [(0, OK), (2, OK)], {1}, id="middle is left out"),
        pytest.param(MIXED, [(0, OK), (1, OK)], {2}, id="last is left out"),
        pytest.param(MIXED, [(0, OK), (0, OK), (1, OK)], {2}, id="one twice, another left out"),
        pytest.param(MIXED, [], {0, 1, 2}, id="all are left out"),
        pytest.param(OK, [(1, LOST)], {1}, id="only the lost one"),
        pytest.param(OK, [(1, pb.Code.CODE_UNSPECIFIED)], {1}, id="one without a code"),
        pytest.param(OK, [], set[int](), id="no entries at all"),
    ],
)
async def test_a_message_has_the_outcome_of_its_entry(
    consumer: SimpleConsumer,
    transport: Rewriting,
    status: int,
    entries: Sequence[tuple[int, int]],
    failed: set[int],
) -> None:
    """A message without an entry has the status of the whole answer: acknowledged only if that is OK."""
    transport.status, transport.entries = status, entries
    messages = await received(consumer)
    results = await outcomes(consumer, messages)
    assert {number for number, result in enumerate(results) if result is not None} == failed
    lost = {number for number, code in entries if code == LOST}
    assert {number for number, message in enumerate(messages) if not message.is_settled} == failed - lost
    assert {number for number, result in enumerate(results) if result is LeaseLostError} == lost


@pytest.mark.parametrize("picks", [(0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0)])
async def test_a_message_given_twice_is_acknowledged_once(
    consumer: SimpleConsumer, transport: Rewriting, picks: Sequence[int]
) -> None:
    messages = await received(consumer)
    await consumer.ack([messages[pick] for pick in picks])
    assert [message.is_settled for message in messages] == [number in picks for number in range(3)]
    assert transport.requests == 1
