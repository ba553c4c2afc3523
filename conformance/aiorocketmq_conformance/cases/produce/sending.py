"""Sends of single messages: inventory 4.2."""

from __future__ import annotations

import asyncio
from typing import Any

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.consumer import Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.tolerances import QUIET_WINDOW
from aiorocketmq_conformance.verdicts import NotApplicable

# Added to user properties by the server (inventory O16, rule R4.4).
LEAKED = {"__SHARDINGKEY", "__transactionId__", "TRACE_CONTEXT", "TRANSACTION_CHECK_TIMES",
          "CHECK_IMMUNITY_TIME_IN_SECONDS"}  # fmt: skip


@case("send.receipt", rules=("R4.12",), prepared=("@topic",))
async def receipt(fixture: Fixture) -> None:
    """A sent message is answered with OK overall and in its one entry, its own id and a queue offset."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    message = fixture.message(topic, "m")
    response = await producer.send(message)
    assert code_of(response) == "OK"
    (entry,) = response.entries
    assert code_of(entry) == "OK"
    assert entry.message_id == message.system_properties.message_id
    assert entry.offset >= 0
    assert not entry.recall_handle, "a message that is not delayed has a recall handle"


@case("send.receive-10", rules=("R5.6",), params={"sync": False, "async": True})
async def receive_10(fixture: Fixture, concurrent: bool) -> None:
    """Ten messages sent {} are each received once."""
    topic, consumer = await fixture.subscribed()
    bodies = [f"m{n}" for n in range(10)]
    sent = (
        await fixture.send_all(topic, bodies, concurrency=10)
        if concurrent
        else await fixture.send(topic, *bodies)
    )
    deliveries = await consumer.take(10, within=30.0)
    once_each(sent, deliveries)


@case("send.id-echo", rules=("R4.1", "R4.14"))
async def id_echo(fixture: Fixture) -> None:
    """Message ids of any form are delivered unchanged, and are distinct over 200 sends."""
    topic, consumer = await fixture.subscribed()
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(200)])
    odd = ["plain", "with space", "顧客-7", "x" * 300]
    sent += [one for id_ in odd for one in await fixture.send(topic, "odd", id=id_ + fixture.fresh("id"))]
    deliveries = await consumer.take(204, within=60.0)
    assert {one.id for one in deliveries} == {one.id for one in sent}
    assert len({one.receipt.message_id for one in sent}) == 204


@case("send.offsets-increase", rules=("R4.12", "R5.12"))
async def offsets_increase(fixture: Fixture) -> None:
    """In one queue the offsets of serial sends increase by one, and each message is delivered at its receipt's
    offset."""
    topic, consumer = await fixture.subscribed(1)
    sent = await fixture.send(topic, *(f"m{n}" for n in range(50)))
    offsets = [one.receipt.offset for one in sent]
    assert offsets == list(range(offsets[0], offsets[0] + 50))
    deliveries = await consumer.take(50, within=30.0)
    assert {one.id: one.offset for one in deliveries} == {one.id: one.receipt.offset for one in sent}


@case("send.offset-value-unique", rules=("R4.12",))
async def offset_value_unique(fixture: Fixture) -> None:
    """Messages of four producers in one queue have distinct offsets."""
    topic, consumer = await fixture.subscribed(1)

    async def produce(lane: int) -> list[Sent]:
        bodies = (f"{lane}-{n}" for n in range(100))
        return await fixture.send(topic, *bodies, client=await fixture.producer(topic))

    sent = [one for lane in await asyncio.gather(*map(produce, range(4))) for one in lane]
    assert len({one.receipt.offset for one in sent}) == 400
    deliveries = await consumer.take(400, within=60.0)
    assert {(one.id, one.offset) for one in deliveries} == {(one.id, one.receipt.offset) for one in sent}
    assert len(deliveries) == 400


@case(
    "send.body-roundtrip",
    rules=("R4.3",),
    params={
        "binary": bytes(range(256)),
        "1B": b"\0",
        "space": b" ",
        "cjk": "消息队列".encode(),
        "emoji": "🚀📨".encode(),
        "64KiB": bytes(n * 7 % 251 for n in range(65536)),
        "64KiB+1": bytes(n * 7 % 251 for n in range(65537)),
    },
)
async def body_roundtrip(fixture: Fixture, body: bytes) -> None:
    """A body ({}) is delivered unchanged."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, body)
    (delivery,) = await consumer.take(1)
    assert delivery.body == body


@case(
    "send.body-max",
    rules=("R4.1",),
    needs=("type.fifo",),
    params={"NORMAL": "NORMAL", "FIFO": "FIFO"},
    timeout=90.0,
)
async def body_max(fixture: Fixture, kind: str) -> None:
    """A {} message of exactly the largest allowed body is delivered intact; one byte more is
    MESSAGE_BODY_TOO_LARGE."""
    size = int(fixture.number("body.max"))
    group = fixture.fresh("mg") if kind == "FIFO" else None
    topic, consumer = await fixture.subscribed(1, type=kind, ordered=kind == "FIFO")
    body = bytes(1024) + b"\xff" * (size - 1025) + b"."
    (sent,) = await fixture.send(topic, body, group=group)
    (delivery,) = await consumer.take(1, within=30.0)
    assert delivery.id == sent.id
    assert delivery.body == body, "the largest body was changed"
    producer = await fixture.producer(topic)
    response = await producer.send(requests.message(topic, body + b".", group=group))
    assert code_of(response) == "MESSAGE_BODY_TOO_LARGE"
    await fixture.expect_nothing(
        consumer, 1.0, "refused, and stored", sentinel={"group": group} if group else None
    )


@case("send.tag-roundtrip", rules=("R4.1",))
async def tag_roundtrip(fixture: Fixture) -> None:
    """A tag is delivered as sent, and a message without tag has none."""
    topic, consumer = await fixture.subscribed()
    tags = {"ascii": "Tag-A_1", "cjk": "标签", "long": "t" * 128, "none": None}
    for body, tag in tags.items():
        await fixture.send(topic, body, tag=tag)
    deliveries = await consumer.take(4)
    received = {
        one.text: one.message.system_properties.tag if one.message.system_properties.HasField("tag") else None
        for one in deliveries
    }
    assert received == tags


@case("send.keys-roundtrip", rules=("R4.2",))
async def keys_roundtrip(fixture: Fixture) -> None:
    """Keys are delivered as the same list in the same order."""
    topic, consumer = await fixture.subscribed()
    keys = {"zero": [], "one": ["order-1"], "three": ["c", "a", "b"], "cjk": ["订单", "顧客7"]}
    for body, of in keys.items():
        await fixture.send(topic, body, keys=of)
    deliveries = await consumer.take(4)
    assert {one.text: list(one.message.system_properties.keys) for one in deliveries} == keys


@case("send.properties-roundtrip", rules=("R4.1", "R4.2", "R4.4"))
async def properties_roundtrip(fixture: Fixture) -> None:
    """User properties, up to 128 of them and of any script, are delivered as the same map."""
    topic, consumer = await fixture.subscribed()
    maps = {
        "one": {"source": "web"},
        "many": {f"k{n}": f"v{n}" for n in range(128)},
        "odd": {"键": "值", "emoji": "🚀", "percent": "100%", "and": "a&&b", "quotes": "'\"", "eq": "a=b"},
    }
    for body, properties in maps.items():
        await fixture.send(topic, body, properties=properties)
    deliveries = await consumer.take(3)
    received = {
        one.text: {k: v for k, v in one.message.user_properties.items() if k not in LEAKED}
        for one in deliveries
    }
    assert received == maps


@case("send.props-isolated", rules=("R4.3",))
async def props_isolated(fixture: Fixture) -> None:
    """Messages sent one after the other each keep their own properties, tags and keys."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "first", properties={"shared": "1", "only-first": "x"}, tag="one", keys=["k1"])
    await fixture.send(topic, "second", properties={"shared": "2"})
    await fixture.send(topic, "third", properties={"shared": "3"}, tag="three", keys=["k3"])
    deliveries = await consumer.take(3)
    received = {
        one.text: (
            {k: v for k, v in one.message.user_properties.items() if k not in LEAKED},
            one.message.system_properties.tag,
            list(one.message.system_properties.keys),
        )
        for one in deliveries
    }
    assert received == {
        "first": ({"shared": "1", "only-first": "x"}, "one", ["k1"]),
        "second": ({"shared": "2"}, "", []),
        "third": ({"shared": "3"}, "three", ["k3"]),
    }


@case("send.timestamps", rules=("R4.3",))
async def timestamps(fixture: Fixture) -> None:
    """The born time is the sender's, the store time lies between request and response, both hosts are set."""
    topic, consumer = await fixture.subscribed(1)
    born = round(fixture.clock.wall() - 5.0, 3)
    (sent,) = await fixture.send(topic, "m", born_at=born)
    answered = fixture.clock.wall()
    (delivery,) = await consumer.take(1)
    system = delivery.message.system_properties
    early = fixture.number("early")
    assert abs(delivery.born_at - born) < 0.0015, f"born {born:.3f}, delivered with {delivery.born_at:.3f}"
    assert sent.wall - early <= delivery.stored_at <= answered + early, (
        f"stored {delivery.stored_at - sent.wall:+.3f} s from the send, answered {answered - sent.wall:+.3f} s"
    )
    assert system.store_host
    assert system.born_host == "probe"


@case("send.first-attempt-is-1", rules=("R5.6",), params={"normal": False, "ordered": True})
async def first_attempt_is_1(fixture: Fixture, ordered: bool) -> None:
    """A message delivered for the first time to a(n) {} group has delivery attempt 1."""
    topic, consumer = await fixture.subscribed(ordered=ordered)
    await fixture.send(topic, "a", "b", "c")
    deliveries = await consumer.take(3)
    assert [one.attempt for one in deliveries] == [1, 1, 1]


@case("send.batch-mixed-topics", rules=("R4.1",), timeout=90.0)
async def batch_mixed_topics(fixture: Fixture) -> None:
    """One request for two topics, whichever message has the other one, is refused with MESSAGE_CORRUPTED and stores
    nothing."""
    one, two = await fixture.topic(1), await fixture.topic(1)
    readers = [await fixture.consumer(one), await fixture.consumer(two)]
    producer = await fixture.producer(one, two)
    for topics in ((one, two), (one, one, two), (one, two, one)):
        response = await producer.send(*(requests.message(topic, "m") for topic in topics))
        assert code_of(response) == "MESSAGE_CORRUPTED"
        assert not response.entries
    for deliveries in await asyncio.gather(*(fixture.deliveries_within(reader, 5.0) for reader in readers)):
        assert not deliveries, f"a refused request stored {deliveries}"


@case("send.batch-empty", rules=("R4.1",), prepared=())
async def batch_empty(fixture: Fixture) -> None:
    """A request without messages is refused with MESSAGE_CORRUPTED."""
    client = await fixture.client()
    response = await client.send()
    assert code_of(response) == "MESSAGE_CORRUPTED"
    assert not response.entries


@case("send.unknown-topic", rules=("R4.7",), prepared=())
async def unknown_topic(fixture: Fixture) -> None:
    """A send to a topic that does not exist is refused and creates nothing."""
    if fixture.numbers["send.unknown-topic"] == "OK":
        raise NotApplicable("the target creates a topic with its first message")
    topic = fixture.fresh("nowhere")
    client = await fixture.producer(topic)
    response = await client.send(requests.message(topic, "m"))
    # Documented as TOPIC_NOT_FOUND; Apache finds a type conflict first (live-broker-session.md 4.2).
    assert code_of(response) == fixture.numbers["send.unknown-topic"]
    assert not response.entries
    route = await client.query_route(topic)
    assert code_of(route) == "TOPIC_NOT_FOUND", "a refused send created the topic"


_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


@case(
    "send.type-mismatch",
    rules=("R4.5", "R4.6"),
    needs=("type.check", "type.fifo", "type.delay", "type.tx"),
    params={f"{carried}-on-{of}": (carried, of) for of in _TYPES for carried in _TYPES if carried != of},
    timeout=90.0,
)
async def type_mismatch(fixture: Fixture, pair: tuple[str, str]) -> None:
    """A message of the wrong type for its topic ({}) is refused with a type conflict and never delivered."""
    carried, of = pair
    topic, consumer = await fixture.subscribed(1, type=of)
    client = await fixture.producer(topic)
    response = await client.send(fixture.message_of_type(topic, carried, carried))
    assert code_of(response) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert not response.entries
    if of != "TRANSACTION":  # a sentinel would need a commit, which other cases judge
        fields: dict[str, Any] = {"group": "mg"} if of == "FIFO" else {}
        if of == "DELAY":
            fields["deliver_at"] = fixture.clock.wall()
        await fixture.expect_nothing(consumer, 5.0, "refused, and delivered", sentinel=fields)


@case(
    "send.type-match",
    rules=("R4.5",),
    needs=("type.fifo", "type.delay", "type.tx"),
    prepared=("@topic",),
    params={kind: kind for kind in _TYPES},
)
async def type_match(fixture: Fixture, kind: str) -> None:
    """A {} message is accepted by a topic of its type."""
    topic = await fixture.topic(1, type=kind)
    sent = await fixture.send_message(fixture.message_of_type(topic, kind, kind))
    assert sent.receipt.message_id == sent.id


@case("send.topic-isolation", rules=("R5.1",), timeout=90.0)
async def topic_isolation(fixture: Fixture) -> None:
    """Messages of one topic are not delivered to consumers of another."""
    mine, other = await fixture.topic(), await fixture.topic()
    consumer = await fixture.consumer(mine)
    sent = await fixture.send(mine, *(f"mine-{n}" for n in range(10)))
    await fixture.send(other, *(f"other-{n}" for n in range(10)))
    deliveries = await consumer.take(10)
    deliveries += await fixture.deliveries_within(consumer, 5.0)
    once_each(sent, deliveries)
    assert {one.topic for one in deliveries} == {mine}


@case("send.concurrent-producers", rules=("R4.12",), timeout=120.0)
async def concurrent_producers(fixture: Fixture) -> None:
    """Of 800 messages of eight producers exactly the acknowledged ones are delivered."""
    topic, consumer = await fixture.subscribed(8)

    async def produce(lane: int) -> list[Sent]:
        bodies = (f"{lane}-{n}" for n in range(100))
        return await fixture.send(topic, *bodies, client=await fixture.producer(topic))

    lanes = await asyncio.gather(*map(produce, range(8)))
    deliveries = await consumer.take(800, within=60.0)
    deliveries += await fixture.deliveries_within(consumer, QUIET_WINDOW)
    once_each([one for lane in lanes for one in lane], deliveries)
