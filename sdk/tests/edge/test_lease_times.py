"""When leases end by the client's clock: counted from before the server can have begun them, never later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq._transport.network import Environment
from aiorocketmq.clock import ClockUser, Timer
from aiorocketmq.errors import PermissionDeniedError, UnreachableError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer

BEGIN = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


class Hand:
    """A clock that is moved by hand, and keeps what is due."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def wall(self) -> float:
        return BEGIN + self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        entry = (when, callback)
        self.due.append(entry)
        due = self.due

        class Planned:
            def cancel(self) -> None:
                if entry in due:
                    due.remove(entry)

        return Planned()

    def join(self, user: ClockUser) -> None:
        pass

    def leave(self, user: ClockUser) -> None:
        pass


class Slow(GrpcioTransport):
    """The ordinary transport; on the client's clock each answer takes four seconds, and so does each message."""

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self._hand = hand

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        self._hand.now += 4.0
        return answer

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        def slowly(answer: bytes) -> None:
            take(answer)
            self._hand.now += 4.0

        await super().server_stream(endpoint, path, payload, metadata, timeout, slowly)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
async def consumer(broker: FakeBroker, hand: Hand) -> AsyncIterator[SimpleConsumer]:
    async with Producer(broker.endpoint) as producer:
        await producer.send_many([Message("orders", b"%d" % number) for number in range(3)])
    consumer = simple_consumer(
        broker.endpoint, transport=Slow(hand), clock=hand, environment=Environment(wall=hand.wall)
    )
    async with consumer:
        yield consumer


def ends(message: ReceivedMessage, hand: Hand) -> float:
    """When a lease ends, in seconds from now; by both clocks alike."""
    assert message._lease is not None
    assert message.lease_ends_at is not None
    assert message.lease_ends_at.timestamp() - BEGIN == pytest.approx(message._lease.ends_at)
    return message._lease.ends_at - hand.now


async def receive(consumer: SimpleConsumer) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []
    while len(messages) < 3:
        messages += await consumer.receive(max_messages=3, invisible=30, wait=1)
    return messages


async def test_all_messages_of_an_answer_are_leased_when_its_first_one_arrives(
    consumer: SimpleConsumer, hand: Hand
) -> None:
    begun = hand.now
    messages = await consumer.receive(max_messages=3, invisible=30, wait=1)
    (left,) = {ends(message, hand) for message in messages}
    # The server's own time may precede the messages.
    assert left - (30.0 - (hand.now - begun)) in (0.0, 4.0)


async def test_a_changed_lease_counts_from_when_the_change_was_sent(
    consumer: SimpleConsumer, hand: Hand
) -> None:
    message, *_ = await receive(consumer)
    await message.extend(60)
    assert ends(message, hand) == 56.0


async def test_the_end_of_a_lease_is_tried_once_and_an_extension_is_no_end(
    broker: FakeBroker, consumer: SimpleConsumer, hand: Hand
) -> None:
    """What was to be released or acknowledged is renewed no more, also if that has failed."""
    kept, released, acked = await receive(consumer)
    before = {message: ends(message, hand) for message in (kept, released, acked)}
    with broker.faults.refuse("ChangeInvisibleDuration", "FORBIDDEN"):
        with pytest.raises(PermissionDeniedError):
            await kept.extend(60)
        with pytest.raises(PermissionDeniedError):
            await released.release()
    with broker.faults.drop_reply("AckMessage"), pytest.raises(UnreachableError):
        await acked.ack()
    leases = [message._lease for message in (kept, released, acked)]
    assert [lease.is_ending for lease in leases if lease] == [False, True, True]
    # None of the calls has moved an end.
    assert {message: ends(message, hand) for message in before} == {
        message: end - 8.0 for message, end in before.items()
    }
