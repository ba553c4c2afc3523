"""Message fields and topic types: inventory 4.2, the S, I and X rows without batches."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import DIGESTS, code_of
from aiorocketmq_conformance.tolerances import PROMPT


@case("send.digest", rules=("R5.6",), level=SHOULD, params={"1B": 1, "4KiB": 4096, "1MiB": 1 << 20})
async def digest(fixture: Fixture, size: int) -> None:
    """A delivered body ({}) has a matching digest of a known kind."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, bytes(n % 251 for n in range(size)))
    (delivery,) = await consumer.take(1)
    digest_field = delivery.message.system_properties.body_digest
    assert digest_field.type in DIGESTS, f"a digest of kind {digest_field.type}"
    assert digest_field.checksum.upper() == DIGESTS[digest_field.type](delivery.body).upper()


@case("send.digest-wrong", rules=("R4.1",), level=INFORMATIONAL)
async def digest_wrong(fixture: Fixture) -> None:
    """A message whose digest does not match its body is refused."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    message = fixture.message(topic, "m")
    message.system_properties.body_digest.type = pb.DigestType.MD5
    message.system_properties.body_digest.checksum = "0" * 32
    code = code_of(await producer.send(message))
    fixture.note("answer", code)
    assert code != "OK", "a wrong digest was accepted"


@case("send.gzip-flag", rules=("R4.3",), level=SHOULD)
async def gzip_flag(fixture: Fixture) -> None:
    """A compressed body is delivered unchanged with its encoding."""
    topic, consumer = await fixture.subscribed(1)
    body = gzip.compress(b"long " * 500)
    message = fixture.message(topic, body)
    message.system_properties.body_encoding = pb.Encoding.GZIP
    await fixture.send_message(message)
    (delivery,) = await consumer.take(1)
    encoding = pb.Encoding.Name(delivery.message.system_properties.body_encoding)
    assert (delivery.body == body, encoding) == (True, "GZIP"), (
        f"{len(delivery.body)} bytes with encoding {encoding}"
    )


@case(
    "send.message-type-echo",
    rules=("R4.5", "R5.6"),
    level=SHOULD,
    needs=("type.fifo", "type.delay"),
    params={kind: kind for kind in ("NORMAL", "FIFO", "DELAY")},
    timeout=90.0,
)
async def message_type_echo(fixture: Fixture, kind: str) -> None:
    """A {} message is delivered with its type."""
    topic, consumer = await fixture.subscribed(1, type=kind)
    due = fixture.clock.wall() + 2.0
    fields: dict[str, dict[str, Any]] = {"FIFO": {"group": "mg"}, "DELAY": {"deliver_at": due}}
    await fixture.send(topic, "m", **fields.get(kind, {}))
    (delivery,) = await consumer.take(1, within=fixture.number("delay.high") + PROMPT)
    assert pb.MessageType.Name(delivery.message.system_properties.message_type) == kind


@case("send.trace-context", rules=("R4.4",), level=SHOULD)
async def trace_context(fixture: Fixture) -> None:
    """A trace context is delivered as it was sent."""
    topic, consumer = await fixture.subscribed(1)
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = fixture.message(topic, "m")
    message.system_properties.trace_context = context
    await fixture.send_message(message)
    (delivery,) = await consumer.take(1)
    assert delivery.message.system_properties.trace_context == context


@case("send.type-mixed", rules=("R3.4", "R4.5"), level=SHOULD, needs=("type.mixed",), timeout=90.0)
async def type_mixed(fixture: Fixture) -> None:
    """A mixed topic accepts normal, ordered and delayed messages, each delivered as its type requires."""
    topic, consumer = await fixture.subscribed(1, type="MIXED")
    due = fixture.clock.wall() + 3.0
    sent = await fixture.send(topic, "NORMAL")
    sent += await fixture.send(topic, "FIFO", group="mg")
    sent += await fixture.send(topic, "DELAY", deliver_at=due)
    deliveries = await consumer.take(3, within=fixture.number("delay.high") + PROMPT)
    once_each(sent, deliveries)
    assert {
        one.text: pb.MessageType.Name(one.message.system_properties.message_type) for one in deliveries
    } == {kind: kind for kind in ("NORMAL", "FIFO", "DELAY")}
    (late,) = [one for one in deliveries if one.text == "DELAY"]
    early = fixture.number("early")
    assert fixture.clock.wall() - fixture.clock.now() + late.at >= due - early, "the delayed one was early"


@case("send.no-writable-queue", rules=("R4.7",), level=SHOULD)
async def no_writable_queue(fixture: Fixture) -> None:
    """A send to a read-only topic is refused with FORBIDDEN, and nothing is stored."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.create_topic(topic, queues=1, permission="r")
    producer = await fixture.producer(topic)
    end = fixture.clock.now() + 3 * PROMPT
    while True:
        response = await producer.send(fixture.message(topic, "m"))
        code = code_of(response)
        # A proxy may cache the topic's old permission for a while.
        if code != "OK" or fixture.clock.now() > end:
            break
        await fixture.clock.sleep(1.0)
    assert code == "FORBIDDEN", f"answered with {code}"
    stored = len(await consumer.receive_for(SHORT_POLL, settle=True))
    fixture.note("stored_before", stored)


@case("send.same-id-twice", rules=("R4.1",), level=INFORMATIONAL)
async def same_id_twice(fixture: Fixture) -> None:
    """Two messages with one id are delivered once."""
    topic, consumer = await fixture.subscribed(1)
    twice = requests.message_id()
    for _ in range(2):
        await fixture.send(topic, "m", id=twice)
    deliveries = await fixture.deliveries_within(consumer, SHORT_POLL)
    fixture.note("deliveries", len(deliveries))
    assert len(deliveries) == 1, f"delivered {len(deliveries)} times"


@case("send.spread", rules=("R4.9",), level=SHOULD, timeout=120.0)
async def spread(fixture: Fixture) -> None:
    """400 messages of one producer without message group are evenly spread over eight queues."""
    topic, consumer = await fixture.subscribed(8)
    await fixture.send_all(topic, [f"m{n}" for n in range(400)], concurrency=8)
    queues = Counter(one.queue for one in await consumer.take(400, within=60.0))
    fixture.note("least", min(queues.values()))
    assert len(queues) == 8, f"400 messages are in {len(queues)} of eight queues"
    assert min(queues.values()) >= 12, f"a queue got {min(queues.values())} of 400"


@case("send.order-per-producer", rules=("R4.12", "R5.13"), level=SHOULD)
async def order_per_producer(fixture: Fixture) -> None:
    """A group that is not ordered, receiving one by one, gets first deliveries of one queue in the order of
    offsets."""
    topic, consumer = await fixture.subscribed(1)
    sent = await fixture.send(topic, *(f"m{n}" for n in range(50)))
    deliveries = [one for _ in range(50) for one in await consumer.take(1, batch=1)]
    assert [one.id for one in deliveries] == [one.id for one in sent]


@case(
    "send.late-store-time", rules=("R4.3",), level=INFORMATIONAL, params={"past": -3600.0, "future": 3600.0}
)
async def late_store_time(fixture: Fixture, skew: float) -> None:
    """A born time one hour in the {} is delivered unchanged and has no effect on the time of delivery."""
    topic, consumer = await fixture.subscribed(1)
    born = round(fixture.clock.wall() + skew, 3)
    await fixture.send(topic, "m", born_at=born)
    (delivery,) = await consumer.take(1)
    assert abs(delivery.born_at - born) < 0.0015
    assert abs(delivery.stored_at - fixture.clock.wall()) < 2 * PROMPT
