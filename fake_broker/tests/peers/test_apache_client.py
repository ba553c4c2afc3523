"""Apache's own Python client, unchanged and in a process of its own, works against the fake as it does elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker

pytestmark = pytest.mark.peer

ApacheClient = Any
Start = Callable[[str], Awaitable[ApacheClient]]


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A fake with a manual clock and topics of one queue: the client's consumer picks queues at random."""
    async with FakeBroker(profile=request.param, clock="manual") as fake:
        await fake.create_topic("orders", queues=1)
        await fake.create_topic("ordered", type="FIFO", queues=4)
        await fake.create_topic("later", type="DELAY", queues=1)
        await fake.create_group("billing")
        # The client waits out this group's retries by itself and in real time.
        await fake.create_group("in-line", ordered=True, backoff=[0.2])
        yield fake


async def test_a_normal_message_is_stored_as_it_was_sent(broker: FakeBroker, apache_client: Start) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    sent = await client(
        "send", topic="orders", body="paid", tag="blue", keys=["42"], properties={"from": "web"}
    )
    (stored,) = broker.messages("orders")
    assert (stored.body, stored.tag, stored.keys, stored.type) == (b"paid", "blue", ("42",), "NORMAL")
    assert stored.properties["from"] == "web"
    assert (stored.message_id, stored.offset) == (sent["message_id"], sent["offset"])


async def test_messages_of_one_message_group_share_a_queue_in_order(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["ordered"])
    for number in range(10):
        await client("send", topic="ordered", body=f"{number}", group="customer-42")
    stored = broker.messages("ordered")
    assert [message.body for message in stored] == [b"%d" % number for number in range(10)]
    assert {message.queue for message in stored} == {stored[0].queue}
    assert {(message.type, message.message_group) for message in stored} == {("FIFO", "customer-42")}


async def test_a_message_of_another_type_is_refused_by_the_route(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["ordered"])
    with pytest.raises(Exception, match="not match with queue accept message types"):
        await client("send", topic="ordered", body="without a group")
    assert broker.messages("ordered") == ()


async def test_a_send_to_an_unknown_topic_fails_at_its_route(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    # The client drops the code and the text of the answer and says only this.
    with pytest.raises(AssertionError, match="failed to fetch topic:nowhere route"):
        await client("send", topic="nowhere", body="lost")


async def test_a_delayed_message_comes_when_it_is_due_and_not_before(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["later"])
    await client("start_simple", group="billing", topic="later", wait=30)
    await client("send", topic="later", body="remember", deliver_at=int(broker.clock.now()) + 60)
    receiving = asyncio.create_task(client("receive", limit=8, invisible=30))
    await until(lambda: broker.clock.parked == 1)
    await broker.clock.advance(seconds=20)
    assert not receiving.done()
    assert broker.deliveries("later") == ()
    await broker.clock.advance(seconds=9)  # the poll of 30 s ends without a message at 30
    await broker.clock.advance(seconds=2)
    assert (await receiving)["messages"] == []
    await broker.clock.advance(seconds=31)
    received = await client("receive", limit=8, invisible=30)
    assert [message["body"] for message in received["messages"]] == ["remember"]


async def test_a_recalled_message_never_comes_where_the_server_serves_recall(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["later"])
    sent = await client("send", topic="later", body="mistake", deliver_at=int(broker.clock.now()) + 60)
    if not broker.profile.recall_enabled:
        with pytest.raises(Exception, match="50001"):
            await client("recall", topic="later", handle=sent["recall_handle"])
        return
    assert await client("recall", topic="later", handle=sent["recall_handle"]) == {
        "message_id": sent["message_id"]
    }
    await broker.clock.advance(hours=1)
    assert broker.messages("later") == ()


async def test_an_acknowledged_message_is_not_redelivered(broker: FakeBroker, apache_client: Start) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("start_simple", group="billing", topic="orders")
    for body in ("kept", "dropped"):
        await client("send", topic="orders", body=body, tag="blue", keys=["7"], properties={"from": "web"})
    first = (await client("receive", limit=8, invisible=30))["messages"]
    assert [(message["body"], message["attempt"], message["corrupted"]) for message in first] == [
        ("kept", 1, False),
        ("dropped", 1, False),
    ]
    assert (first[0]["tag"], first[0]["keys"], first[0]["properties"]) == ("blue", ["7"], {"from": "web"})
    await client("ack", message_id=first[1]["message_id"])
    await broker.clock.advance(minutes=2)
    again = (await client("receive", limit=8, invisible=30))["messages"]
    assert [(message["body"], message["attempt"]) for message in again] == [("kept", 2)]


async def test_a_changed_lease_ends_at_its_new_time(broker: FakeBroker, apache_client: Start) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("start_simple", group="billing", topic="orders")
    await client("send", topic="orders", body="long work")
    (message,) = (await client("receive", limit=8, invisible=30))["messages"]
    changed = await client("change_invisible", message_id=message["message_id"], seconds=300)
    assert changed == {"handle_changed": True}
    await broker.clock.advance(seconds=290)
    assert len(broker.deliveries("orders")) == 1
    await broker.clock.advance(seconds=60)
    (again,) = (await client("receive", limit=8, invisible=30))["messages"]
    assert (again["message_id"], again["attempt"]) == (message["message_id"], 2)
    await client("ack", message_id=message["message_id"])
    await broker.clock.advance(hours=1)
    assert broker.leases("billing") == ()


async def test_only_messages_of_the_wanted_tags_come(broker: FakeBroker, apache_client: Start) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("start_simple", group="billing", topic="orders", tag="blue || green")
    for tag in ("blue", "red", "green", "red"):
        await client("send", topic="orders", body=f"a {tag} one", tag=tag)
    received = (await client("receive", limit=8, invisible=30))["messages"]
    assert [message["tag"] for message in received] == ["blue", "green"]


async def test_a_push_consumer_sees_everything_and_a_failed_message_again(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    for number in range(5):
        await client("send", topic="orders", body=f"{number}")
    assert await client("start_push", group="billing", topic="orders", failures={"3": 2}) == {"fifo": False}
    messages = await client.consumed(5)
    assert sorted(one["body"] for one in messages) == ["0", "1", "2", "3", "4"]
    attempts = []
    for deliveries in (6, 7):
        await pass_time_until(broker, partial(has_delivered, broker, deliveries))
        attempts += await client.consumed(1)
    assert [(one["body"], one["attempt"], one["ok"]) for one in attempts] == [("3", 2, False), ("3", 3, True)]
    await until(lambda: broker.leases("billing") == ())
    await broker.clock.advance(hours=3)
    assert len(broker.deliveries("orders", group="billing")) == 7
    assert broker.dead_letters("billing") == ()
    await client("stop", name="push")


async def test_an_ordered_push_consumer_keeps_the_order_past_a_failure(
    broker: FakeBroker, apache_client: Start
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["ordered"])
    for number in range(4):
        await client("send", topic="ordered", body=f"{number}", group="customer-42")
    assert await client("start_push", group="in-line", topic="ordered", failures={"1": 1}) == {"fifo": True}
    messages = await client.consumed(5)
    # The client tries a failed message of an ordered group again by itself, without giving it back to the server.
    assert [(one["body"], one["ok"]) for one in messages] == [
        ("0", True),
        ("1", False),
        ("1", True),
        ("2", True),
        ("3", True),
    ]
    await until(lambda: broker.leases("in-line") == ())
    await client("stop", name="push")


async def test_a_message_that_always_fails_becomes_a_dead_letter(
    broker: FakeBroker, apache_client: Start
) -> None:
    await broker.create_group("strict", max_attempts=2)
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("send", topic="orders", body="poison")
    await client("start_push", group="strict", topic="orders", failures={"poison": 99})
    await client.consumed(1)
    await pass_time_until(broker, lambda: len(broker.deliveries("orders", group="strict")) >= 2)
    assert [one["attempt"] for one in await client.consumed(1)] == [2]
    await pass_time_until(broker, lambda: bool(broker.dead_letters("strict")))
    assert [message.body for message in broker.dead_letters("strict")] == [b"poison"]
    assert len(broker.deliveries("orders", group="strict")) == 2
    await client("stop", name="push")


async def test_a_client_that_is_shut_down_is_forgotten(broker: FakeBroker, apache_client: Start) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("start_simple", group="billing", topic="orders")
    await until(lambda: len(broker.clients()) == 2)
    await client("stop", name="simple")
    await client("stop", name="producer")
    await until(lambda: broker.clients() == ())
    assert broker.leases() == ()


def has_delivered(broker: FakeBroker, count: int) -> bool:
    return len(broker.deliveries("orders")) >= count


async def pass_time_until(broker: FakeBroker, holds: Callable[[], bool]) -> None:
    """Move the clock, a minute at a time and only while the client waits for messages, until something is so."""
    for _ in range(60):
        await until(lambda: broker.clock.parked > 0)
        await broker.clock.advance(minutes=1, patience=2)
        if holds():
            return
    raise AssertionError("an hour of the broker's time was not enough")


async def until(holds: Callable[[], bool]) -> None:
    """Wait, in real time, for what the other process does; fails after ten seconds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # another process makes it true, and sends no event
            await asyncio.sleep(0.01)
