"""Delivery of delayed messages: inventory 4.4."""

from __future__ import annotations

import asyncio
from math import floor

from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING
from aiorocketmq_conformance.consumer import LEASE, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, code_of, seconds_of
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window, lag

NEEDS = ("type.delay",)
DAY = 86_400.0


async def prepared(fixture: Fixture, *, queues: int = 1, expression: str = "*") -> tuple[str, Consumer]:
    """Return a fresh DELAY topic and its primed consumer."""
    topic = await fixture.topic(queues, type="DELAY")
    return topic, await fixture.consumer(topic, expression=expression)


async def later(
    fixture: Fixture, topic: str, seconds: float, *bodies: str, tag: str | None = None
) -> list[Sent]:
    """Send messages that are due in `seconds`."""
    return await fixture.send(topic, *bodies, deliver_at=fixture.clock.wall() + seconds, tag=tag)


def due(sent: Sent) -> float:
    """Return when a message is due, in seconds on the case's clock."""
    return seconds_of(sent.message.system_properties.delivery_timestamp) - sent.wall + sent.at


def check_time(fixture: Fixture, sent: Sent, delivery: Delivery) -> None:
    """Assert that a message was delivered at its time; how late it was is noted."""
    target = fixture.target
    late = delivery.at - due(sent)
    target.note(f"late {sent.message.body.decode()}", round(late, 3))
    assert late >= -target.number("early"), f"{-late:.3f} s too early"
    latest = target.number("delay.high") + lag(target)
    assert late <= latest, f"{late:.3f} s late, {latest:.1f} s are allowed"


_SPANS = {"2s": 2.0, "5s": 5.0, "10s": 10.0}


@case("delay.not-before", rules=("R4.19",), needs=NEEDS, params=_SPANS)
async def not_before(fixture: Fixture, seconds: float) -> None:
    """A message that is due in {} is not delivered earlier, although its consumer polls all the time."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, seconds, "m")
    delivery = await consumer.find(sent, within=seconds + 3 * PROMPT)
    early = due(sent) - delivery.at
    assert early <= fixture.number("early"), f"{early:.3f} s too early"


@case("delay.not-late", rules=("R4.19",), needs=NEEDS, params=_SPANS)
async def not_late(fixture: Fixture, seconds: float) -> None:
    """A poll that is open when a message becomes due (after {}) returns it at once."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, seconds, "m")
    delivery = await consumer.find(sent, within=seconds + 3 * PROMPT, poll=20.0)
    check_time(fixture, sent, delivery)


@case("delay.sub-second", rules=("R4.19",), level=SHOULD, needs=NEEDS)
async def sub_second(fixture: Fixture) -> None:
    """Fractions of a second are not rounded down: messages due at x.000, x.300 and x.999 are not delivered
    earlier."""
    topic, consumer = await prepared(fixture)
    base = floor(fixture.clock.wall()) + 4
    sent = [
        (await fixture.send(topic, f".{fraction:.3f}"[2:], deliver_at=base + fraction))[0]
        for fraction in (0.0, 0.3, 0.999)
    ]
    by_id = {one.id: one for one in await consumer.take(3, within=3 * PROMPT)}
    for one in sent:
        check_time(fixture, one, by_id[one.id])


@case(
    "delay.over-remoting",
    rules=("R4.19", "remoting-protocol.md 6.11"),
    level=EXTENSION,
    needs=(*NEEDS, *REMOTING),
)
async def over_remoting(fixture: Fixture) -> None:
    """Over remoting, a delay as a level, in seconds or in milliseconds, or a delivery time, is kept to the fraction."""
    topic, consumer = await prepared(fixture)
    member = fixture.member()
    delays = {
        "level": (5.0, {"DELAY": "2"}),
        "seconds": (4.0, {"TIMER_DELAY_SEC": "4"}),
        "milliseconds": (2.7, {"TIMER_DELAY_MS": "2700"}),
        "time": (3.4, {"TIMER_DELIVER_MS": str(floor(fixture.clock.wall() * 1000) + 3400)}),
    }
    sent_at = {}
    for kind, (_, properties) in delays.items():
        sent_at[kind] = fixture.clock.now()
        answer = await member.send(topic, kind.encode(), {"UNIQ_KEY": requests.message_id(), **properties})
        assert answer.code == ResponseCode.SUCCESS, response_text(answer)
    for delivery in await consumer.take(len(delays), within=5.0 + 3 * PROMPT):
        seconds, _ = delays[delivery.text]
        late = delivery.at - sent_at[delivery.text] - seconds
        assert late >= -fixture.number("early"), f"{delivery.text}: {-late:.3f} s too early"
        latest = fixture.number("delay.high") + lag(fixture.target)
        assert late <= latest, f"{delivery.text}: {late:.3f} s late, {latest:.1f} s are allowed"


@case("delay.past", rules=("R4.18",), needs=NEEDS, params={"-20s": -20.0, "epoch": None})
async def past(fixture: Fixture, seconds: float | None) -> None:
    """A message with a delivery time in the past ({}) is delivered at once, with type DELAY and without recall
    handle."""
    topic, consumer = await prepared(fixture)
    at = 0.01 if seconds is None else fixture.clock.wall() + seconds
    (sent,) = await fixture.send(topic, "m", deliver_at=at)
    delivery = await consumer.find(sent, within=PROMPT)
    assert delivery.at - sent.acked_at <= 3.0 + lag(fixture.target), (
        f"delivered after {delivery.at - sent.acked_at:.1f} s"
    )
    assert delivery.message.system_properties.message_type == pb.MessageType.DELAY
    assert not sent.receipt.recall_handle, "there is nothing to recall, but a recall handle"


@case("delay.horizon-accept", rules=("4.1",), level=SHOULD, needs=NEEDS)
async def horizon_accept(fixture: Fixture) -> None:
    """A delivery time almost 24 hours ahead is accepted, also of a message that was created an hour ago, and it is not
    visible before."""
    topic, consumer = await prepared(fixture)
    await later(fixture, topic, DAY - 60.0, "m")
    now = fixture.clock.wall()
    await fixture.send(topic, "old", deliver_at=now + DAY - 60.0, born_at=now - 3600.0)
    await fixture.expect_nothing(consumer, 10.0, sentinel={"deliver_at": fixture.clock.wall()})


@case("delay.horizon-refuse", rules=("4.1",), level=SHOULD, needs=NEEDS)
async def horizon_refuse(fixture: Fixture) -> None:
    """A delivery time more than 24 hours ahead is refused with ILLEGAL_DELIVERY_TIME, and nothing is stored."""
    topic, consumer = await prepared(fixture)
    producer = await fixture.producer(topic)
    message = requests.message(topic, "m", deliver_at=fixture.clock.wall() + DAY + 5.0)
    reply = await producer.send(message)
    assert code_of(reply) == "ILLEGAL_DELIVERY_TIME"
    await fixture.expect_nothing(consumer, 3.0, sentinel={"deliver_at": fixture.clock.wall()})


@case("delay.due-order", rules=("R4.22",), needs=NEEDS)
async def due_order(fixture: Fixture) -> None:
    """Messages are delivered in the order of their delivery times, not of their sends."""
    topic, consumer = await prepared(fixture)
    for seconds in (9.0, 3.0, 6.0):
        await later(fixture, topic, seconds, f"{seconds:g}")
    deliveries = await consumer.take(3, within=4 * PROMPT)
    assert [one.text for one in deliveries] == ["3", "6", "9"]


@case("delay.same-due-100", rules=("R4.23",), needs=NEEDS, timeout=120.0)
async def same_due(fixture: Fixture) -> None:
    """A hundred messages of one delivery time are all delivered, each once, none before it."""
    topic, consumer = await prepared(fixture, queues=4)
    at = fixture.clock.wall() + 6.0
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(100)], deliver_at=at)
    deliveries = await consumer.take(100, within=6.0 + 5 * PROMPT)
    once_each(sent, deliveries)
    times = {one.id: due(one) for one in sent}
    early = max(times[one.id] - one.at for one in deliveries)
    assert early <= fixture.number("early"), f"delivered {early:.3f} s too early"


@case("delay.async", rules=("R4.19",), needs=NEEDS)
async def concurrent(fixture: Fixture) -> None:
    """Concurrently sent messages with different delivery times are each delivered at their own."""
    topic, consumer = await prepared(fixture, queues=4)
    spans = [2.0, 3.0, 4.0, 5.0]
    sent = [
        one
        for group in await asyncio.gather(*(later(fixture, topic, span, f"{span:g}") for span in spans))
        for one in group
    ]
    by_id = {one.id: one for one in await consumer.take(4, within=4 * PROMPT, poll=5.0)}
    for one in sent:
        check_time(fixture, one, by_id[one.id])


@case("delay.fields", rules=("R4.21",), needs=NEEDS)
async def fields(fixture: Fixture) -> None:
    """A delayed message is delivered with its delivery time, type DELAY, attempt 1, its id, tag and body."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 2.0, "body", tag="a")
    delivery = await consumer.find(sent, within=3 * PROMPT)
    system = delivery.message.system_properties
    requested = sent.message.system_properties.delivery_timestamp
    # Servers store milliseconds.
    due_at = seconds_of(system.delivery_timestamp)
    assert abs(due_at - seconds_of(requested)) <= 0.002, f"delivered with {due_at}, sent with {requested}"
    assert system.message_type == pb.MessageType.DELAY
    assert (delivery.attempt, delivery.text, system.tag) == (1, "body", "a")
    assert delivery.stored_at >= due_at - fixture.number("early"), "stored before it was due"


@case("delay.other-traffic", rules=("R4.18", "R4.19"), needs=NEEDS)
async def other_traffic(fixture: Fixture) -> None:
    """Messages that are due are not blocked by one that is not."""
    topic, consumer = await prepared(fixture)
    (waiting,) = await later(fixture, topic, 8.0, "later")
    prompt = await later(fixture, topic, -1.0, "now", "now too")
    deliveries = await consumer.take(2, within=PROMPT)
    once_each(prompt, deliveries)
    assert max(one.at for one in deliveries) < due(waiting), "delayed by the message that waits"
    once_each([waiting], await consumer.take(1, within=8.0 + 2 * PROMPT))


@case(
    "delay.missing-time",
    rules=("R4.6",),
    level=SHOULD,
    needs=("type.delay", "type.check"),
    prepared=("@topic",),
)
async def missing_time(fixture: Fixture) -> None:
    """A DELAY topic refuses messages without a delivery time."""
    topic = await fixture.topic(1, type="DELAY")
    producer = await fixture.producer(topic)
    reply = await producer.send(fixture.message(topic, "m"))
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("delay.filter", rules=("5.6", "R4.21"), level=SHOULD, needs=NEEDS)
async def filtered(fixture: Fixture) -> None:
    """A consumer's filter applies to delayed messages."""
    topic, consumer = await prepared(fixture, expression="a")
    (matching,) = await later(fixture, topic, 3.0, "wanted", tag="a")
    await later(fixture, topic, 3.0, "unwanted", tag="b")
    deliveries = await consumer.receive_for(8.0 + fixture.number("delay.high"), settle=True)
    once_each([matching], deliveries)
    check_time(fixture, matching, deliveries[0])


@case("delay.retry-after-due", rules=("R7.1", "R4.21"), needs=NEEDS, timeout=120.0)
async def retry_after_due(fixture: Fixture) -> None:
    """A delayed message that is not acked is redelivered as attempt 2 when its lease expires, without another
    delay."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 5.0, "m")
    first = await consumer.find(sent, within=3 * PROMPT, invisible=10.0)
    redelivery = await consumer.find(sent, within=4 * PROMPT)
    assert (first.attempt, redelivery.attempt) == (1, 2)
    expiry_window(fixture.target, 10.0).check_return(first, redelivery)
    await consumer.ack(redelivery)
    at = {"deliver_at": fixture.clock.wall()}
    await fixture.expect_nothing(consumer, 12.0, "delivered a third time", sentinel=at)


@case("delay.restart", rules=("R4.19", "11"), needs=(*NEEDS, "@restart"), timeout=300.0)
async def restart(fixture: Fixture) -> None:
    """A delayed message survives a restart of the broker: it is delivered once, and not before its time."""
    topic, consumer = await prepared(fixture)
    seconds = 20.0 + fixture.number("restart.high") * 0.1
    (sent,) = await later(fixture, topic, seconds, "m")
    await fixture.target.restart()
    successor = await fixture.consumer(topic, group=consumer.group, prime=False)
    allowed = seconds + fixture.number("restart.high") + 4 * PROMPT
    delivery = await successor.find(sent, within=allowed)
    assert due(sent) - delivery.at <= fixture.number("early"), "delivered before its time"
    await successor.ack(delivery)
    await fixture.expect_nothing(successor, 5.0, sentinel={"deliver_at": fixture.clock.wall()})


@case("delay.new-group-later", rules=("R10.3",), level=INFORMATIONAL, needs=NEEDS)
async def new_group_later(fixture: Fixture) -> None:
    """A group created after a delayed message was delivered to another one still receives it."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 1.0, "m")
    await consumer.ack(await consumer.find(sent, within=3 * PROMPT))
    newcomer = await fixture.consumer(topic, prime=False)
    once_each([sent], await newcomer.take(1, within=PROMPT, invisible=LEASE))


@case("delay.long", rules=("R4.19",), level=SHOULD, needs=NEEDS, timeout=300.0)
async def long(fixture: Fixture) -> None:
    """A message that is due in 150 seconds is delivered then, not early and not late."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 150.0, "m")
    delivery = await consumer.find(sent, within=150.0 + 3 * PROMPT, poll=20.0)
    check_time(fixture, sent, delivery)
