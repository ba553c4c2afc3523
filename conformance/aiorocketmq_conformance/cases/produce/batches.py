"""Sends of several messages in one request: the batch rows of inventory 4.2."""

from __future__ import annotations

from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of, entry_codes
from aiorocketmq_conformance.tolerances import PROMPT

NEEDS = ("batch-send",)


@case("send.batch-same-topic", rules=("R4.15", "R4.17"), level=SHOULD, needs=NEEDS)
async def same_topic(fixture: Fixture) -> None:
    """Ten messages of one request are all delivered, in order, from consecutive offsets of one queue."""
    topic, consumer = await fixture.subscribed(4)
    producer = await fixture.producer(topic)
    batch = [fixture.message(topic, f"m{n}") for n in range(10)]
    reply = await producer.send(*batch)
    assert code_of(reply) == "OK"
    deliveries = await consumer.take(10, within=30.0)
    assert [one.text for one in deliveries] == [f"m{n}" for n in range(10)]
    assert len({one.queue for one in deliveries}) == 1, "the batch was spread over queues"
    offsets = [one.offset for one in deliveries]
    assert offsets == list(range(offsets[0], offsets[0] + 10))


@case("send.batch-receipts", rules=("R4.15",), level=SHOULD, needs=(*NEEDS, "batch.receipt=each"))
async def receipts(fixture: Fixture) -> None:
    """The response to a batch has an entry for each message, in order, with its id and offset."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    batch = [fixture.message(topic, f"m{n}") for n in range(10)]
    reply = await producer.send(*batch)
    assert set(entry_codes(reply)) == {"OK"}
    ids = [message.system_properties.message_id for message in batch]
    assert [entry.message_id for entry in reply.entries] == ids
    offsets = [entry.offset for entry in reply.entries]
    assert offsets == list(range(offsets[0], offsets[0] + 10))


@case("send.batch-receipt-one", rules=("R4.15",), level=SHOULD, needs=(*NEEDS, "batch.receipt=one"))
async def receipt_one(fixture: Fixture) -> None:
    """The single entry of the response to a batch is OK and has the offset of the first message."""
    topic, consumer = await fixture.subscribed(1)
    producer = await fixture.producer(topic)
    reply = await producer.send(*(fixture.message(topic, f"m{n}") for n in range(10)))
    (entry,) = reply.entries
    assert code_of(entry) == "OK"
    deliveries = await consumer.take(10, within=30.0)
    assert entry.offset == min(one.offset for one in deliveries)


@case("send.batch-own-fields", rules=("R4.15",), level=SHOULD, needs=NEEDS)
async def own_fields(fixture: Fixture) -> None:
    """Each message of a batch keeps its own id, tag, keys and properties."""
    topic, consumer = await fixture.subscribed(1)
    producer = await fixture.producer(topic)
    batch = [
        fixture.message(
            topic,
            f"m{n}",
            tag=f"t{n}",
            keys=[f"k{n}"],
            properties={"common": str(n), f"own{n}": "x"},
        )
        for n in range(3)
    ]
    await producer.send(*batch)
    deliveries = await consumer.take(3, within=30.0)
    for n, (sent, got) in enumerate(zip(batch, deliveries, strict=True)):
        system = got.message.system_properties
        assert (got.text, got.id) == (f"m{n}", sent.system_properties.message_id)
        assert (system.tag, list(system.keys)) == (f"t{n}", [f"k{n}"])
        assert dict(got.message.user_properties) == {"common": str(n), f"own{n}": "x"}


@case("send.batch-one-bad", rules=("4.1",), level=SHOULD, needs=NEEDS)
async def one_bad(fixture: Fixture) -> None:
    """A batch with one illegal message, the first, middle or last, is refused as a whole: nothing is delivered."""
    topic, consumer = await fixture.subscribed(1)
    producer = await fixture.producer(topic)
    rows: dict[str, dict[str, Any]] = {
        "ILLEGAL_MESSAGE_ID": {"id": ""},
        "ILLEGAL_MESSAGE_TAG": {"tag": "a|b"},
        "ILLEGAL_MESSAGE_KEY": {"keys": ["k", " "]},
        "ILLEGAL_MESSAGE_PROPERTY_KEY": {"properties": {"a": "b", "UNIQ_KEY": "v"}},
        "MESSAGE_PROPERTIES_TOO_LARGE": {"properties": {f"p{n}": "v" for n in range(129)}},
    }
    for code, fields in rows.items():
        for place in range(3):
            batch = [fixture.message(topic, f"m{n}", **(fields if n == place else {})) for n in range(3)]
            reply = await producer.send(*batch)
            assert code_of(reply) == code, f"{fields} at place {place} was answered with {code_of(reply)}"
            assert not reply.entries, "a refused request has entries"
    await fixture.expect_nothing(consumer, PROMPT)


# On a server that accepts such a batch its timer may die, and with it every delayed message and redelivery of others.
@case("send.batch-delayed", rules=("R4.16",), level=SHOULD, needs=(*NEEDS, "type.delay", "batch-delays"))
async def delayed(fixture: Fixture) -> None:
    """A batch of delayed messages is refused, or each of them is delivered at its own time."""
    topic, consumer = await fixture.subscribed(1, type="DELAY")
    producer = await fixture.producer(topic)
    began, now = fixture.clock.wall(), fixture.clock.now()
    spans = (3.0, 6.0)
    reply = await producer.send(
        *(requests.message(topic, f"{span:g}", deliver_at=began + span, born_at=began) for span in spans)
    )
    fixture.note("answer", code_of(reply))
    if fixture.target.has("recall") and code_of(reply) == "OK" and len(reply.entries) == len(spans):
        assert all(entry.recall_handle for entry in reply.entries), "a receipt without recall handle"
    at = {"deliver_at": began}
    if reply.status.code != pb.Code.OK:
        await fixture.expect_nothing(consumer, 10.0, "refused, but delivered", sentinel=at)
        return
    deliveries = await consumer.take(2, within=4 * PROMPT)
    assert sorted(one.text for one in deliveries) == ["3", "6"]
    for one in deliveries:
        late = one.at - now - float(one.text)
        assert -fixture.number("early") <= late <= fixture.number("delay.high") + 2.0, (
            f"{one} was delivered {late:.1f} s late"
        )


@case("send.batch-half", rules=("R4.16",), level=SHOULD, needs=(*NEEDS, "type.tx"))
async def transactional(fixture: Fixture) -> None:
    """A batch of transactional messages is refused, or not delivered before its transactions are committed."""
    topic, consumer = await fixture.subscribed(1, type="TRANSACTION")
    producer = await fixture.producer(topic)
    half = pb.MessageType.TRANSACTION
    reply = await producer.send(*(fixture.message(topic, f"m{n}", kind=half) for n in range(2)))
    fixture.note("answer", code_of(reply))
    assert not await consumer.receive_for(PROMPT), "delivered before the transactions ended"


@case("send.batch-empty-second", rules=("4.1",), level=SHOULD, needs=NEEDS)
async def empty_second(fixture: Fixture) -> None:
    """An empty body anywhere in a batch refuses all of it with MESSAGE_BODY_EMPTY."""
    topic, consumer = await fixture.subscribed(1)
    producer = await fixture.producer(topic)
    good, empty = (fixture.message(topic, body) for body in ("m", ""))
    reply = await producer.send(good, empty)
    assert code_of(reply) == "MESSAGE_BODY_EMPTY"
    await fixture.expect_nothing(consumer, 3.0)
