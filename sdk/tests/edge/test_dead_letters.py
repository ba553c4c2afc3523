"""Dead letters are read by groups that can, and refused to those that would lose them (live-lessons.md 5); redrives
from several brokers, secured ones, and of expired messages."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq.admin import Admin
from aiorocketmq.config import Credentials, Tls
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.subscription import dead_letters
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.edge.tls import ServerTls

from sdk.tests.clients import push_consumer
from sdk.tests.waiting import until


@pytest.fixture(params=["documented", "apache-5.5"])
async def buried(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A broker with one dead letter of group billing, which allows 17 attempts."""
    async with FakeBroker(profile=request.param) as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing", max_attempts=17)
        await broker.create_group("few", max_attempts=18)
        await broker.create_group("many", max_attempts=50)

        async def give_up(message: ReceivedMessage) -> None:
            raise DeadLetter("broken")

        async with Producer(broker.endpoint) as producer:
            await producer.send(Message("orders", b"1"))
        async with push_consumer(broker.endpoint, handler=give_up) as consumer:
            async with asyncio.timeout(10):
                while not broker.dead_letters("billing"):  # noqa: ASYNC110  # the broker tells by being asked
                    await asyncio.sleep(0.01)
            assert consumer.statistics.failed == 1
        yield broker


async def test_a_group_with_enough_attempts_reads_dead_letters(buried: FakeBroker) -> None:
    async with SimpleConsumer(
        buried.endpoint, group="many", subscriptions=[dead_letters("billing")]
    ) as consumer:
        (message,) = await consumer.receive()
        assert (message.body, message.topic) == (b"1", "%DLQ%billing")
        await message.ack()
        assert [client.group for client in buried.clients()] == ["many"]


async def test_a_group_with_too_few_attempts_gets_an_error_before_it_loses_any(buried: FakeBroker) -> None:
    with pytest.raises(UsageError, match="begin with attempt 19: it would lose them"):
        async with SimpleConsumer(
            buried.endpoint, group="few", subscriptions=["orders", dead_letters("billing")]
        ):
            pass
    assert len(buried.dead_letters("billing")) == 1
    assert buried.dead_letters("few") == ()
    assert buried.clients() == ()


async def test_a_push_consumer_gets_that_error_also_at_run_time(buried: FakeBroker) -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise AssertionError("nothing was to come")

    with pytest.raises(UsageError, match="group 'few' allows 18 attempts"):
        async with PushConsumer(
            buried.endpoint, group="few", subscriptions=[dead_letters("billing")], handler=handle
        ):
            pass
    async with PushConsumer(
        buried.endpoint, group="few", subscriptions={"orders": "none"}, handler=handle
    ) as consumer:
        with pytest.raises(UsageError, match="group 'few' allows 18 attempts"):
            await consumer.subscribe(dead_letters("billing"))
        assert {queue.topic for queue in consumer.assigned_queues} == {"orders"}


@pytest.mark.parametrize("buried", ["apache-5.5"], indirect=True)
async def test_dead_letters_of_a_group_that_is_gone_are_read_with_a_warning(
    buried: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await buried.delete_group("billing")
    async with SimpleConsumer(buried.endpoint, group="few", subscriptions={"orders": "none"}) as consumer:
        await consumer.subscribe(dead_letters("billing"))
        (message,) = await consumer.receive()
        await message.ack()
    assert "whether group 'few' may read dead letters of 'billing' is not known" in caplog.text


def test_a_bad_group_has_no_dead_letters() -> None:
    with pytest.raises(ValueError, match="group 'a b' must consist of"):
        dead_letters("a b")


@pytest.mark.parametrize(
    ("ordered", "most", "reader", "is_enough"),
    [
        (False, 1, 2, False),
        (False, 1, 3, True),
        (False, 5, 6, False),
        (False, 5, 7, True),
        (True, 5, 1, True),
    ],
)
async def test_a_reader_needs_two_attempts_more_than_a_group_without_order(
    ordered: bool, most: int, reader: int, is_enough: bool
) -> None:
    async with FakeBroker() as broker:
        await broker.create_group("source", ordered=ordered, max_attempts=most)
        await broker.create_group("reader", max_attempts=reader)
        await broker.create_topic(dead_letters("source"))
        consumer = SimpleConsumer(broker.endpoint, group="reader", subscriptions=[dead_letters("source")])
        if is_enough:
            async with consumer:
                assert consumer.is_ready
        else:
            with pytest.raises(UsageError, match=f"begin with attempt {most + 2}: ") as raised:
                await consumer.__aenter__()
            assert (raised.value.topic, raised.value.group) == (dead_letters("source"), "reader")


async def bury(broker: FakeBroker, count: int, **options: Any) -> str:
    """Make `count` dead letters of group billing, and return the name server."""
    await broker.create_topic("orders", queues=1)
    await broker.create_group("billing", ordered=True)

    async def give_up(message: ReceivedMessage) -> None:
        raise DeadLetter("broken")

    namesrv = f"namesrv://{broker.remoting_endpoint}"
    async with (
        Producer(namesrv, **options) as producer,
        PushConsumer(broker.endpoint, group="billing", subscriptions=["orders"], handler=give_up, **options),
    ):
        await producer.send_many([Message("orders", b"%d" % number) for number in range(count)])
        await until(lambda: len(broker.dead_letters("billing")) == count)
    return namesrv


async def test_a_redrive_covers_all_brokers_and_its_limit_is_for_all_together() -> None:
    async with FakeBroker(remoting_port=0, brokers=2) as cluster:
        namesrv = await bury(cluster, 8)
        async with Admin(namesrv) as admin:
            assert [span.max_offset > 0 for span in await admin.spans("%DLQ%billing")] == [True, True]
            assert [(await admin.redrive("billing", limit=7)).total for _ in range(2)] == [7, 1]


async def test_a_redrive_signs_and_speaks_tls() -> None:
    users = [User("admin", "secret", publish=("*",), subscribe=("*",), groups=("*",))]
    async with FakeBroker(remoting_port=0, tls=ServerTls.self_made(), users=users) as broker:
        options: dict[str, Any] = {"credentials": Credentials("admin", "secret"), "tls": Tls(insecure=True)}
        namesrv = await bury(broker, 1, **options)
        async with Admin(namesrv, **options) as admin:
            assert (await admin.redrive("billing")).total == 1


async def test_expired_dead_letters_are_not_waited_for() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)  # not the server's own hour of deletion, 04:00
    async with FakeBroker(remoting_port=0, clock="manual", start=noon) as broker:
        namesrv = await bury(broker, 2)
        await broker.set_retention(retention=3600.0)
        await broker.clock.advance(seconds=3601)
        await broker.delete_expired()
        async with Admin(namesrv) as admin:
            (span,) = await admin.spans("%DLQ%billing")
            assert span.min_offset == span.max_offset == 2
            assert (await admin.redrive("billing")).total == 0
