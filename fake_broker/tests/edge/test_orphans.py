"""Checks of orphaned transactions over real telemetry streams (9.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import TransactionChecked


@pytest.fixture(params=["documented", "apache-5.5"])
async def office(running: Callable[..., Awaitable[FakeBroker]], request: pytest.FixtureRequest) -> FakeBroker:
    """A broker with a TRANSACTION topic and a hand on its clock, in each profile."""
    broker = await running(profile=request.param, clock="manual")
    await broker.create_topic("tx", type="TRANSACTION")
    return broker


async def prepare(client: Any, broker: FakeBroker, body: bytes) -> str:
    born = pb.Timestamp(seconds=int(broker.clock.now()))
    response = await client.send("tx", body, message_type=pb.MessageType.TRANSACTION, born_timestamp=born)
    return str(response.entries[0].transaction_id)


async def check(stream: Any) -> Any:
    async with asyncio.timeout(10):
        frame = await stream.read()
    return frame.recover_orphaned_transaction_command


async def test_a_checked_producers_commit_delivers(office: FakeBroker, connect: Callable[..., Any]) -> None:
    producer = connect(office, "producer")
    stream, _ = await producer.publish("tx")
    transaction_id = await prepare(producer, office, b"half")
    await office.clock.advance(seconds=31)
    command = await check(stream)
    assert (command.transaction_id, command.message.body) == (transaction_id, b"half")
    assert command.message.system_properties.message_type == pb.MessageType.TRANSACTION
    assert not command.message.system_properties.HasField("receipt_handle")
    end = pb.EndTransactionRequest(
        topic=pb.Resource(name="tx"),
        transaction_id=transaction_id,
        message_id=command.message.system_properties.message_id,
        resolution=pb.TransactionResolution.COMMIT,
        source=pb.TransactionSource.SOURCE_SERVER_CHECK,
    )
    assert (await producer.call("EndTransaction", end)).status.code == pb.Code.OK
    assert [message.body for message in office.messages("tx")] == [b"half"]


async def test_another_producer_is_checked_without_the_sender(
    office: FakeBroker, connect: Callable[..., Any], happened: Any
) -> None:
    """R9.8: the sender is still registered, but unreachable; real servers lose its checks until the next interval."""
    sender, heir = connect(office, "sender"), connect(office, "heir")
    gone, _ = await sender.publish("tx")
    stream, _ = await heir.publish("tx")
    for body in (b"1", b"2", b"3"):
        await prepare(sender, office, body)
    await gone.done_writing()
    assert await gone.read() is not None
    loses = office.profile.check_tries == 1
    await office.clock.advance(seconds=61 if loses else 31)
    bodies = [(await check(stream)).message.body for _ in range(3)]
    assert bodies == ([b"1", b"3", b"2"] if loses else [b"1", b"2", b"3"])


async def test_without_a_producer_the_check_is_lost(office: FakeBroker, connect: Callable[..., Any]) -> None:
    consumer = connect(office, "consumer")
    await consumer.subscribe("g", "tx")
    await prepare(consumer, office, b"half")
    async with office.events.subscribe() as events:
        await office.clock.advance(seconds=31)
        async with asyncio.timeout(10):
            async for event in events:
                if isinstance(event, TransactionChecked):
                    break
    assert (event.client_id, event.check) == ("", 1)


async def test_open_transactions_can_be_looked_at(office: FakeBroker, connect: Callable[..., Any]) -> None:
    producer = connect(office, "producer")
    await producer.publish("tx")
    transaction_id = await prepare(producer, office, b"half")
    await office.clock.advance(seconds=31)
    (half,) = office.half_messages("tx")
    assert (half.topic, half.body, half.transaction_id, half.checks) == ("tx", b"half", transaction_id, 1)
    assert office.half_messages("other") == ()
