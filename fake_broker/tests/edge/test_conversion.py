"""Messages of every kind, as their consumers see them over a real port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.codes import MessageType
from aiorocketmq_fake.core.values.model import OutgoingMessage, RecoverOrphanedTransaction, StoredMessage
from aiorocketmq_fake.edge import conversion


async def test_an_ordered_message_keeps_its_group(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await broker.create_topic("f", type="FIFO", queues=1)
    await client.send("f", b"1", message_group="customer-42")
    (message,) = (await consumer.receive("g", "f")).messages
    assert message.system_properties.message_group == "customer-42"
    assert message.system_properties.message_type == pb.MessageType.FIFO


async def test_a_delayed_message_keeps_its_time(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await broker.create_topic("d", type="DELAY", queues=1)
    due = pb.Timestamp(seconds=int(broker.clock.now()) + 60, nanos=250_000_000)
    await client.send("d", b"1", delivery_timestamp=due)
    await broker.clock.advance(seconds=62)
    (message,) = (await consumer.receive("g", "d")).messages
    assert message.system_properties.delivery_timestamp == due
    assert message.system_properties.message_type == pb.MessageType.DELAY


async def test_an_urgent_message_keeps_its_priority(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await broker.create_topic("p", type="PRIORITY", queues=1)
    await client.send("p", b"1", priority=3)
    (message,) = (await consumer.receive("g", "p")).messages
    assert message.system_properties.priority == 3


async def test_a_dead_letter_records_its_origin(broker: FakeBroker, client: Any, consumer: Any) -> None:
    """R6.18, documented profile."""
    await broker.create_group("once", max_attempts=1)
    await broker.create_group("undertaker")
    await client.send("t", b"1", message_id="m")
    await consumer.receive("once", "t", invisible=30)
    await broker.clock.advance(seconds=31)
    (letter,) = broker.dead_letters("once")
    assert (letter.topic, letter.message_id) == ("t", "m")
    await broker.reset_offset("undertaker", "%DLQ%once", to="beginning")
    (message,) = (await consumer.receive("undertaker", "%DLQ%once")).messages
    assert message.system_properties.dead_letter_queue.topic == "t"
    assert message.system_properties.dead_letter_queue.message_id == "m"


def test_a_producer_is_checked_for_an_open_transaction() -> None:
    """9.3."""
    content = OutgoingMessage(topic="tx", body=b"1", message_id="m")
    stored = StoredMessage(content, MessageType.TRANSACTION, "tx", 0, 0, 1, 5.0)
    frame = conversion.command(RecoverOrphanedTransaction(stored, "id"), "host:1")
    command = frame.recover_orphaned_transaction_command
    assert (command.transaction_id, command.message.body, command.message.topic.name) == ("id", b"1", "tx")
    assert command.message.system_properties.store_host == "host:1"


@pytest.mark.parametrize(
    ("build", "subject"),
    [
        (lambda t, g: pb.SendMessageRequest(messages=[pb.Message(topic=t)]), ("t", "")),
        (lambda t, g: pb.SendMessageRequest(), ("", "")),
        (lambda t, g: pb.AckMessageRequest(topic=t, group=g), ("t", "g")),
        (lambda t, g: pb.ReceiveMessageRequest(message_queue=pb.MessageQueue(topic=t), group=g), ("t", "g")),
        (lambda t, g: pb.QueryOffsetRequest(message_queue=pb.MessageQueue(topic=t)), ("t", "")),
        (lambda t, g: pb.HeartbeatRequest(group=g), ("", "g")),
        (lambda t, g: pb.EndTransactionRequest(topic=t), ("t", "")),
    ],
)
def test_faults_find_topic_and_group_in_every_request(
    build: Callable[..., Any], subject: tuple[str, str]
) -> None:
    request = build(pb.Resource(name="t"), pb.Resource(name="g"))
    assert conversion.subject(request) == subject


@pytest.mark.parametrize("seconds", [0.0, 0.001, 1.5, 1_795_271_900.029, -1.25])
def test_times_survive_the_way_there_and_back(seconds: float) -> None:
    timestamp, duration = pb.Timestamp(), pb.Duration()
    conversion.set_instant(timestamp, seconds)
    conversion.set_span(duration, seconds)
    assert conversion.instant(timestamp) == pytest.approx(seconds, abs=1e-6)
    assert conversion.span(duration) == pytest.approx(seconds, abs=1e-6)
