"""Sends while servers are unavailable: bounded waits, exact errors, few attempts, and back when a server is."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import Closed, IllegalMessage, RocketMQError, Unreachable
from aiorocketmq.hooks import SendEvent
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.events import Stored

SHORT = Retry(budget=0.4)
ORDER = Message("orders", b"x")


async def sends_wait(producer: Producer, count: int) -> None:
    """Wait until so many sends of a producer wait for a server."""
    async with asyncio.timeout(10):
        while producer._sender._outages.waiting < count:  # noqa: ASYNC110  # nothing reports it
            await asyncio.sleep(0)


@pytest.fixture
async def hanging(broker: FakeBroker) -> AsyncIterator[FakeBroker]:
    """A broker that stores the next message and does not answer."""
    await broker.create_topic("fifo", type="FIFO")
    with broker.faults.drop_reply("SendMessage", hang=True, times=1):
        yield broker


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_the_wait_for_a_slot_is_bounded_by_the_budget(
    hanging: FakeBroker, linger: float | None
) -> None:
    async with Producer(
        hanging.endpoint, topics=["orders"], retry=SHORT, max_in_flight=1, linger=linger
    ) as producer:
        async with hanging.events.subscribe() as events:
            first = asyncio.create_task(producer.send(ORDER))
            async for event in events:
                if isinstance(event, Stored):
                    break
        with pytest.raises(Unreachable, match="all 1 slots for requests in flight are taken") as raised:
            async with asyncio.timeout(2):
                await producer.send(ORDER)
        assert raised.value.timed_out
        assert raised.value.may_retry
        assert not raised.value.may_have_taken_effect
        first.cancel()
        await asyncio.wait([first])
    assert len(hanging.messages("orders")) == 1


async def test_the_wait_for_a_turn_is_bounded_by_the_budget(hanging: FakeBroker) -> None:
    async with Producer(hanging.endpoint, topics=["fifo"], retry=SHORT) as producer:
        async with hanging.events.subscribe() as events:
            first = asyncio.create_task(producer.send(Message("fifo", b"1", message_group="a")))
            async for event in events:
                if isinstance(event, Stored):
                    break
        with pytest.raises(Unreachable, match="earlier sends of message group 'a'") as raised:
            async with asyncio.timeout(2):
                await producer.send(Message("fifo", b"2", message_group="a"))
        assert not raised.value.may_have_taken_effect
        await producer.send(Message("fifo", b"3", message_group="b"))
        first.cancel()
        await asyncio.wait([first])
        assert len(producer._sender._turns) == 0


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_many_are_given_up_after_one_budget(broker: FakeBroker, linger: float | None) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=SHORT, linger=linger) as producer:
        await broker.crash()
        with pytest.raises(SendManyError) as raised:
            async with asyncio.timeout(5):
                await producer.send_many([ORDER] * 1000, max_in_flight=2)
    assert len(raised.value.errors) == 1000
    assert {type(error) for error in raised.value.errors} == {Unreachable}
    last = raised.value.errors[-1]
    assert "none of this send_many was stored meanwhile" in last.text
    assert not last.may_have_taken_effect


async def test_sends_share_the_attempts_of_an_outage(broker: FakeBroker, watching: Any) -> None:
    async with Producer(
        broker.endpoint, topics=["orders"], retry=Retry(budget=1.0), hooks=[watching]
    ) as producer:
        await broker.crash()
        with pytest.raises(Unreachable):
            await producer.send(ORDER)
        before = watching.told(SendEvent).count("invoke")
        outcomes = await asyncio.gather(*(producer.send(ORDER) for _ in range(200)), return_exceptions=True)
        attempts = watching.told(SendEvent).count("invoke") - before
    assert {type(outcome) for outcome in outcomes} == {Unreachable}
    assert attempts <= 20
    waited = [outcome for outcome in outcomes if "Retry.budget" in str(outcome)]
    assert len(waited) >= 180
    assert "has been unavailable for" in str(waited[0])


async def test_an_outage_is_logged_once_and_so_is_its_end(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq._produce")
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        await broker.crash()
        sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(50)]
        await sends_wait(producer, 49)
        await broker.start()
        await asyncio.gather(*sends)
    told = [record for record in caplog.records if record.name == "aiorocketmq._produce.outages"]
    texts = [record.getMessage() for record in told]
    assert [record.levelno for record in told].count(logging.WARNING) == 1
    assert sum("is unavailable, sends wait" in text for text in texts) == 1
    assert sum("is available again after" in text for text in texts) == 1
    assert len(texts) <= 3


async def test_a_topic_is_looked_up_as_long_as_the_budget_lasts(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        await broker.crash()
        send = asyncio.create_task(producer.send(ORDER))
        with broker.faults.fail("QueryRoute", times=4) as asked:
            await broker.start()
            await send
        assert asked.hits == 4


async def test_an_earlier_attempt_that_may_be_stored_stays_in_the_error(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        with (
            broker.faults.drop_reply("SendMessage", times=1),
            broker.faults.refuse("SendMessage", "ILLEGAL_MESSAGE_TAG"),
            pytest.raises(IllegalMessage) as raised,
        ):
            await producer.send(ORDER)
    assert len(broker.messages("orders")) == 1
    assert raised.value.may_have_taken_effect


async def test_a_time_out_before_any_attempt_leaves_nothing_open(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        await broker.crash()
        with pytest.raises(Unreachable):
            await producer.send(ORDER, timeout=0.5)
        with pytest.raises(Unreachable, match=r"within the 0.1 s that it was given") as raised:
            await producer.send(ORDER, timeout=0.1)
    assert not raised.value.may_have_taken_effect


async def test_one_attempt_waits_for_nobody(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(attempts=1)) as producer:
        await broker.crash()
        for _ in range(3):
            async with asyncio.timeout(5):
                with pytest.raises(Unreachable):
                    await producer.send(ORDER)
        await broker.start()


async def test_sends_that_wait_for_a_server_end_when_the_producer_closes(broker: FakeBroker) -> None:
    timeouts = Timeouts(stop=0.2)
    async with Producer(broker.endpoint, topics=["orders"], timeouts=timeouts) as producer:
        await broker.crash()
        sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(20)]
        await sends_wait(producer, 19)
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Closed}


async def test_another_broker_takes_the_message_at_once() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=1)
        async with Producer(cluster.endpoint, topics=["orders"]) as producer:
            await cluster.brokers[1].crash()
            receipts = [await producer.send(Message("orders", b"%d" % number)) for number in range(20)]
            assert producer._sender._outages or producer._session.isolated
    assert max(receipt.attempts for receipt in receipts) <= 3
    assert sum(receipt.attempts - 1 for receipt in receipts) <= 3


async def test_a_half_message_that_never_left_waits_out_an_outage(broker: FakeBroker) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    await broker.create_topic("payments", type="TRANSACTION")
    async with Producer(broker.endpoint, topics=["payments"], transaction_checker=check) as producer:
        await broker.crash()
        with pytest.raises(RocketMQError):
            await producer.send(Message("payments", b"x"), timeout=0.5)

        async def pay() -> None:
            async with producer.transaction(Message("payments", b"42")):
                pass

        paying = asyncio.create_task(pay())
        await sends_wait(producer, 1)
        await broker.start()
        async with asyncio.timeout(10):
            await paying
    assert [message.body for message in broker.messages("payments")] == [b"42"]
