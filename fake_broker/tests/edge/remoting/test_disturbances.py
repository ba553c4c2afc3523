"""Scripted faults of remoting requests, each seen by a client over a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Stored

from fake_broker.tests.edge.remoting.conftest import Connect, Wire, dial


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A fake with a manual clock, and topics `t` and `u`."""
    async with FakeBroker(remoting_port=0, clock="manual") as fake:
        await fake.create_topic("t", queues=1)
        await fake.create_topic("u", queues=1)
        yield fake


async def test_a_refused_request_does_nothing_and_the_rule_is_spent(broker: FakeBroker, wire: Wire) -> None:
    fault = broker.faults.refuse("Remoting.SEND_MESSAGE_V2", "SYSTEM_BUSY", "slow down", times=2)
    for _ in range(2):
        answer = await wire.produce("t", b"1")
        assert (answer.code, answer.remark) == (2, "slow down")
    assert broker.messages("t") == ()
    assert fault.hits == 2
    assert (await wire.produce("t", b"1")).code == 0


async def test_a_code_that_only_other_servers_answer_can_be_injected(broker: FakeBroker, wire: Wire) -> None:
    with broker.faults.refuse("Remoting.PULL_MESSAGE", 215):
        assert (await wire.pulled("t")).code == 215


async def test_a_failed_request_ends_the_connection_and_does_nothing(
    broker: FakeBroker, connect: Connect
) -> None:
    wire, other = await connect(), await connect()
    held = wire.pull("t", sysFlag=6, suspendTimeoutMillis=60_000)
    with broker.faults.fail("Remoting.SEND_MESSAGE_V2"):
        sent = wire.send(310, b"1", a="pg", b="t", c="", d=4, e=0, f=0, g=1, h=0)
        assert await wire.is_closed()
    assert not sent.done()
    assert not held.done()
    assert broker.messages("t") == ()
    assert (await other.produce("t", b"2")).code == 0


async def test_a_dropped_answer_comes_after_the_deed(broker: FakeBroker, wire: Wire) -> None:
    with broker.faults.drop_reply("Remoting.SEND_MESSAGE_V2"):
        wire.send(310, b"1", a="pg", b="t", c="", d=4, e=0, f=0, g=1, h=0)
        assert await wire.is_closed()
    assert [message.body for message in broker.messages("t")] == [b"1"]


@pytest.mark.parametrize("kind", ["lose", "hang"])
async def test_an_unanswered_request_holds_up_neither_its_connection_nor_the_clock(
    broker: FakeBroker, wire: Wire, kind: str
) -> None:
    name = "Remoting.SEND_MESSAGE_V2"
    if kind == "lose":
        broker.faults.lose(name, times=1)
    else:
        broker.faults.drop_reply(name, hang=True, times=1)
    silent = wire.send(310, b"1", a="pg", b="t", c="", d=4, e=0, f=0, g=1, h=0)
    assert (await wire.produce("t", b"2")).code == 0
    assert [message.body for message in broker.messages("t")] == [b"1", b"2"][kind == "lose" :]
    await asyncio.wait_for(broker.clock.advance(seconds=60), 5)
    assert not silent.done()


async def test_a_duplicated_request_is_done_twice_and_answered_once(broker: FakeBroker, wire: Wire) -> None:
    with broker.faults.duplicate("Remoting.SEND_MESSAGE_V2", times=1):
        answer = await wire.produce("t", b"1")
    assert (answer.code, answer.fields["queueOffset"]) == (0, "0")
    assert [message.body for message in broker.messages("t")] == [b"1", b"1"]
    with broker.faults.duplicate("Remoting.GET_TOPIC_CONFIG"):
        assert (await wire.ask(351, topic="nowhere")).code == 17


async def test_a_delayed_request_waits_on_the_brokers_clock(broker: FakeBroker, wire: Wire) -> None:
    begun = broker.clock.now()
    with broker.faults.delay("Remoting.SEND_MESSAGE_V2", 30):
        async with broker.events.subscribe() as events:
            sent = wire.send(310, b"1", a="pg", b="t", c="", d=4, e=0, f=0, g=1, h=0)
            # Answered behind it, so that the delay has begun.
            assert (await wire.ask(105, topic="t")).code == 0
            await broker.clock.advance(seconds=29)
            assert not [event for event in events.take() if isinstance(event, Stored)]
            await broker.clock.advance(seconds=1)
            assert (await asyncio.wait_for(sent, 10)).code == 0
    assert broker.messages("t")[0].stored_at == pytest.approx(begun + 30, abs=0.001)


HEARTBEAT = {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": []}]}
LOCK = {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "queueId": 0}]}
REQUESTS: list[tuple[str, int, object, dict[str, object], dict[str, str]]] = [
    ("HEART_BEAT", 34, HEARTBEAT, {}, {"client_id": "c", "group": "g"}),
    ("LOCK_BATCH_MQ", 41, LOCK, {}, {"client_id": "c", "group": "g", "topic": "t"}),
    ("UNREGISTER_CLIENT", 35, b"", {"clientID": "c"}, {"client_id": "c"}),
    ("GET_ROUTEINFO_BY_TOPIC", 105, b"", {"topic": "t"}, {"topic": "t"}),
    ("CONSUMER_SEND_MSG_BACK", 36, b"", {"group": "g"}, {"group": "g"}),
    ("SEND_MESSAGE_V2", 310, b"", {"a": "pg", "b": "t"}, {"topic": "t"}),
]


@pytest.mark.parametrize(("name", "code", "body", "fields", "about"), REQUESTS)
async def test_a_rule_means_the_requests_that_it_is_about(
    broker: FakeBroker, wire: Wire, name: str, code: int, body: object, fields: Any, about: Any
) -> None:
    for key in about:
        other = broker.faults.refuse(f"Remoting.{name}", "FLOW_CONTROL", **{**about, key: "other"})
        assert (await wire.ask(code, body, **fields)).code != 215
        other.remove()
    with broker.faults.refuse(f"Remoting.{name}", "FLOW_CONTROL", **about):
        assert (await wire.ask(code, body, **fields)).code == 215
    with broker.faults.refuse("Remoting.*", "FLOW_CONTROL"):
        assert (await wire.ask(code, body, **fields)).code == 215


async def test_the_star_of_grpc_means_no_remoting_request(broker: FakeBroker, wire: Wire) -> None:
    with broker.faults.fail("*") as fault:
        assert (await wire.pulled("t")).code == 19
    assert fault.seen == 0


async def test_members_are_known_by_their_connection(broker: FakeBroker, connect: Connect) -> None:
    first, second = await connect(), await connect()
    for name, wire in (("first", first), ("second", second)):
        await wire.beat(name, "g", "t")
    with broker.faults.refuse("Remoting.PULL_MESSAGE", "SYSTEM_BUSY", client_id="first"):
        assert (await first.pulled("t")).code == 2
        assert (await second.pulled("t")).code == 19


async def test_our_clients_get_over_faults() -> None:
    """Lost connections, busy brokers and repeated sends: everything that was sent is read."""
    async with AsyncExitStack() as stack, asyncio.timeout(30):
        broker = await stack.enter_async_context(FakeBroker(remoting_port=0))
        await broker.create_topic("t", queues=1)
        namesrv = f"namesrv://{broker.remoting_endpoint}"
        producer = await stack.enter_async_context(Producer(namesrv))
        faults = [
            broker.faults.refuse("Remoting.SEND_MESSAGE_V2", "SYSTEM_BUSY", times=1),
            broker.faults.drop_reply("Remoting.SEND_MESSAGE_V2", times=1, skip=1),
            broker.faults.fail("Remoting.PULL_MESSAGE", times=1),
            broker.faults.refuse("Remoting.PULL_MESSAGE", "SYSTEM_BUSY", times=1),
        ]
        await producer.send(Message("t", b"1"))
        await producer.send(Message("t", b"2"))
        consumer = await stack.enter_async_context(PullConsumer(namesrv, group="g", topics=["t"]))
        bodies: list[bytes] = []
        async for batch in consumer:
            bodies += [message.body for message in batch]
            if {b"1", b"2"} <= set(bodies):
                break
    assert bodies == [message.body for message in broker.messages("t")]
    assert [fault.hits for fault in faults] == [1, 1, 1, 1]


async def test_a_stop_does_not_wait_for_what_is_never_answered(broker: FakeBroker) -> None:
    async with dial(broker) as wire:
        with broker.faults.lose("Remoting.GET_TOPIC_CONFIG"):
            silent = wire.send(351, topic="t")
            assert (await wire.ask(105, topic="t")).code == 0
            await asyncio.wait_for(broker.stop(), 5)
            assert not silent.done()
            assert broker.brokers[0]._driver.in_progress.count == 0
