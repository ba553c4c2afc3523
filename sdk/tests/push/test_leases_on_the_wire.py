"""Leases as the broker sees them: renewals, lost leases, and forwards after renewals."""

from typing import Any

import grpc.aio
import pytest
from aiorocketmq._push.consumption import Consumption
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, DeadLettered, LeaseChanged, WrongMessageDeadLettered

from sdk.tests.clients import push_consumer
from sdk.tests.waiting import until


async def test_a_receive_asks_for_a_lease_of_its_own_length_and_no_help(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    gate = seen.hold(b"1")
    await producer.send(Message("orders", b"1"))
    async with push_consumer(broker.endpoint, handler=seen, invisible=77):
        await seen.starts(1)
        [lease] = broker.leases("billing")
        gate.set()

    assert lease.ends_at - broker.clock.now() == pytest.approx(77, abs=0.01)


async def test_a_dead_letter_after_the_handler_extended_its_lease_is_the_right_message(
    broker: FakeBroker, producer: Producer, history: Any
) -> None:
    """A forward with a changed handle moves another message on Apache's servers (live-lessons.md 3)."""

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"bad":
            await message.extend(60)
            raise DeadLetter("not an order")

    await producer.send(Message("orders", b"first of the log"))
    await producer.send(Message("orders", b"bad"))
    async with push_consumer(broker.endpoint, handler=handle):
        await history.shows(DeadLettered)
        # Profile apache-5.5: the newest lease is acked as well, else the message would be redelivered.
        await history.shows(Acked, 2 if broker.profile.name == "apache-5.5" else 1)
        await broker.clock.advance(hours=3)

    assert [message.body for message in broker.dead_letters("billing")] == [b"bad"]
    assert history.of(WrongMessageDeadLettered) == []
    assert [each.attempt for each in broker.deliveries("orders", group="billing")] == [1, 1]


async def test_a_message_that_its_handler_acked_itself_is_not_settled_again(
    broker: FakeBroker, producer: Producer, history: Any
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        await message.ack()
        if message.body == b"fails later":
            raise ValueError("after the ack")

    await producer.send(Message("orders", b"fine"))
    await producer.send(Message("orders", b"fails later"))
    async with push_consumer(broker.endpoint, handler=handle) as consumer:
        await history.shows(Acked, 2)
        await until(lambda: consumer.statistics.failed and not consumer.messages_in_flight)
        assert (consumer.statistics.acknowledged, consumer.statistics.released) == (2, 0)

    assert len(history.of(Acked)) == 2
    assert history.of(LeaseChanged) == []


async def test_a_lost_lease_in_an_ordered_group_takes_the_followers_back_with_it(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    """The broker redelivers the first one, so those behind it must be redelivered, too."""
    gate = seen.hold(b"a1")
    for body in (b"a1", b"a2", b"a3"):
        await ordered_producer.send(Message("orders", body, message_group="a"))
    refusal = ordered_broker.faults.refuse("AckMessage", "INVALID_RECEIPT_HANDLE", times=1)
    with refusal:
        async with push_consumer(ordered_broker.endpoint, handler=seen):
            await seen.starts(1)
            gate.set()
            await ordered_history.shows(LeaseChanged, 2)
            assert seen.bodies == [b"a1"]
            await ordered_broker.clock.advance(seconds=60)
            await seen.starts(4)

    assert seen.bodies == [b"a1", b"a1", b"a2", b"a3"]


async def send_damaged(broker: FakeBroker, body: bytes, message_group: str | None = None) -> None:
    """Store a message that calls itself compressed, but is not."""
    method = METHODS["SendMessage"]
    system = pb.SystemProperties(
        message_id="01" * 17,
        body_encoding=pb.Encoding.GZIP,
        message_type=pb.MessageType.FIFO if message_group else pb.MessageType.NORMAL,
        message_group=message_group,
    )
    system.born_timestamp.seconds = 1_800_000_000
    request = pb.SendMessageRequest(
        messages=[pb.Message(topic=pb.Resource(name="orders"), body=body, system_properties=system)]
    )
    async with grpc.aio.insecure_channel(broker.endpoint) as channel:
        call = channel.unary_unary(
            method.path,
            request_serializer=pb.SendMessageRequest.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        answer = await call(request, metadata=[("x-mq-client-id", "damaging"), ("x-mq-language", "PYTHON")])
    assert answer.status.code == pb.Code.OK, answer


async def test_a_corrupted_message_is_given_back_unseen(
    broker: FakeBroker, seen: Any, history: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.update_group("billing", backoff=[9])
    await send_damaged(broker, b"not gzip")
    async with push_consumer(broker.endpoint, handler=seen):
        [change] = await history.shows(LeaseChanged)

    assert change.invisible == 9.0
    assert seen.bodies == []
    assert "is corrupted, no handler is called" in caplog.text


async def test_a_corrupted_message_of_an_ordered_group_is_a_dead_letter_and_holds_no_other_up(
    ordered_broker: FakeBroker, ordered_producer: Producer, seen: Any, ordered_history: Any
) -> None:
    await send_damaged(ordered_broker, b"not gzip", message_group="a")
    await ordered_producer.send(Message("orders", b"a2", message_group="a"))
    async with push_consumer(ordered_broker.endpoint, handler=seen):
        await ordered_history.shows(DeadLettered)
        await seen.ends(1)

    assert seen.bodies == [b"a2"]
    assert len(ordered_broker.dead_letters("billing")) == 1


async def test_a_lease_that_cannot_be_kept_is_reported_and_the_handler_continues(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gate = seen.hold(b"1")
    await producer.send(Message("orders", b"1"))
    with broker.faults.refuse("ChangeInvisibleDuration", "INVALID_RECEIPT_HANDLE"):
        async with push_consumer(broker.endpoint, handler=seen, clock=broker.clock):
            await seen.starts(1)
            await broker.clock.advance(seconds=16, patience=0.2)
            assert "cannot keep the lease" in caplog.text
            gate.set()
            await seen.ends(1)

    assert history.of(Acked) == []


@pytest.mark.parametrize("ending", ["well", "badly", "for good"])
async def test_nothing_is_planned_any_more_for_a_settled_message(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any, ending: str
) -> None:
    """A renewal after an ack would bring the message back (live-lessons.md 2)."""
    seen.failures[b"badly"] = [ValueError("no")]
    seen.failures[b"for good"] = [DeadLetter("no")]
    await producer.send(Message("orders", ending.encode()))
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        await history.shows({"well": Acked, "badly": LeaseChanged, "for good": DeadLettered}[ending])
        assert isinstance(consumer._running, Consumption)
        leases = consumer._running._leases
        assert len(leases._renewals) == 0
