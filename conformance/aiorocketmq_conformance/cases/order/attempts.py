"""Ordered groups: attempt ids, changes within a batch, and groups and topics of other kinds: inventory 4.3."""

from __future__ import annotations

import asyncio

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.order.receiving import ORDERED, one_group
from aiorocketmq_conformance.cases.shared.nack import nack
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window


@case("fifo.change-middle", rules=("R8.11", "R8.6"), level=SHOULD, needs=ORDERED, timeout=120.0)
async def change_middle(fixture: Fixture) -> None:
    """With the head acked, the second changed to 2 s and the third, whose lease ends first, to 1 s, none overtakes."""
    consumer, _, _ = await one_group(fixture, 6, shown=True)
    batch = (await consumer.receive(batch=3, invisible=10.0)).deliveries
    assert [one.text for one in batch] == ["m0", "m1", "m2"]
    await consumer.ack(batch[0])
    await nack(consumer, batch[1], 2.0)
    await nack(consumer, batch[2], 1.0)
    order: list[str] = []
    end = fixture.clock.now() + expiry_window(fixture.target, 10.0, ordered=True).high + 20.0 + PROMPT
    while len(set(order)) < 5 and fixture.clock.now() < end:
        answer = await consumer.receive(batch=1, invisible=60.0)
        order += [one.text for one in answer.deliveries]
        await consumer.ack(*answer.deliveries)
    first = list(dict.fromkeys(order))
    assert first == ["m1", "m2", "m3", "m4", "m5"], f"delivered in the order {order}"


@case("fifo.reentrant-attempt-id", rules=("R8.14",), level=SHOULD, needs=ORDERED)
async def reentrant_attempt_id(fixture: Fixture) -> None:
    """A receive repeated with its attempt id returns the same messages at once, and the attempt is not counted."""
    consumer, _, _ = await one_group(fixture, 4, shown=True)
    attempt_id = fixture.fresh("attempt")
    first = await consumer.receive(batch=2, attempt_id=attempt_id, invisible=60.0)
    repeated = await consumer.receive(batch=2, attempt_id=attempt_id, invisible=60.0, poll=10.0)
    assert [one.text for one in first.deliveries] == ["m0", "m1"]
    assert [one.text for one in repeated.deliveries] == ["m0", "m1"]
    assert {one.attempt for one in repeated.deliveries} == {1}
    assert repeated.took < SHORT_POLL + 5 * fixture.clock.traffic.slowest_answer(), (
        f"waited {repeated.took:.1f} s"
    )
    await consumer.ack(*repeated.deliveries)
    assert [one.text for one in await consumer.take(2, batch=1)] == ["m2", "m3"]


@case("fifo.attempt-id-fewer", rules=("R8.14", "R8.4"), level=SHOULD, needs=ORDERED)
async def attempt_id_fewer(fixture: Fixture) -> None:
    """A receive repeated with its attempt id and a smaller batch returns some of the messages again; those of other
    queues stay with it, and a third receive with the id returns all."""
    topic, consumer = await fixture.subscribed(3, type="FIFO", ordered=True)
    for n in range(9):
        await fixture.send(topic, f"m{n}", group=fixture.fresh("mg"))
    attempt_id = fixture.fresh("attempt")
    first = await consumer.receive(batch=16, attempt_id=attempt_id, invisible=60.0)
    (again,) = (await consumer.receive(batch=1, attempt_id=attempt_id, invisible=60.0)).deliveries
    others = (
        await consumer.receive(batch=16, attempt_id=fixture.fresh("attempt"), invisible=60.0)
    ).deliveries
    assert {one.queue for one in others} <= {again.queue}, (
        f"{others} in flight, and delivered with another id"
    )
    third = await consumer.receive(batch=16, attempt_id=attempt_id, invisible=60.0)
    ids = {one.id for one in first.deliveries} - {one.id for one in others}
    assert {one.id for one in third.deliveries} == ids
    assert {one.attempt for one in (again, *third.deliveries)} == {1}


@case("fifo.update-keeps-block", rules=("R8.21", "R8.4"), level=SHOULD, needs=ORDERED, timeout=90.0)
async def update_keeps_block(fixture: Fixture) -> None:
    """A message of an ordered group whose attempts are limited otherwise in the meantime stays in flight, and blocks
    the next one."""
    consumer, _, _ = await one_group(fixture, 2)
    head = await consumer.one(invisible=30.0)
    await fixture.group(consumer.group, ordered=True, max_attempts=7)
    other = await fixture.consumer(consumer.topic, group=consumer.group, prime=False)
    early = await other.receive_for(PROMPT, invisible=10.0)
    assert not early, f"{early} while {head} was in flight"
    await consumer.ack(head)
    assert [one.text for one in await other.take(1)] == ["m1"]


@case("fifo.new-attempt-id-blocked", rules=("R8.14", "R8.4"), level=SHOULD, needs=ORDERED, timeout=90.0)
async def new_attempt_id_blocked(fixture: Fixture) -> None:
    """A receive with another attempt id returns nothing while the first one's messages are in flight."""
    consumer, _, _ = await one_group(fixture, 2)
    first = await consumer.one(attempt_id=fixture.fresh("attempt"), invisible=10.0)
    second = await consumer.one(attempt_id=fixture.fresh("attempt"), poll=20.0, within=2 * PROMPT)
    assert (first.text, second.text, second.attempt) == ("m0", "m0", 2)
    expiry_window(fixture.target, 10.0, ordered=True).check_return(first, second)
    await consumer.ack(second)
    await consumer.take(1, batch=1)


@case("fifo.other-group-same-queue", rules=("R8.2",), level=INFORMATIONAL, needs=ORDERED, timeout=90.0)
async def other_group_same_queue(fixture: Fixture) -> None:
    """A message group is delivered while another in the same queue is blocked by its head."""
    topic, consumer = await fixture.subscribed(1, type="FIFO", ordered=True)
    await fixture.send(topic, "a0", "a1", group=fixture.fresh("mg"))
    head = await consumer.one(invisible=30.0)
    await fixture.send(topic, "b0", group=fixture.fresh("mg"))
    others = await consumer.receive_for(2 * SHORT_POLL, batch=1, settle=True)
    await consumer.ack(head)
    grain = "group" if [one.text for one in others] == ["b0"] else "queue"
    fixture.note("order.grain", grain)
    assert grain == "group", f"an un-acked message blocks its whole queue: {others}"


@case("fifo.unordered-group", rules=("R8.1", "R5.12"), level=SHOULD, needs=ORDERED)
async def unordered_group(fixture: Fixture) -> None:
    """A group that is not ordered receives later messages of a message group while the first is in flight."""
    topic, consumer = await fixture.subscribed(4, type="FIFO")
    await fixture.send(topic, *(f"m{n}" for n in range(10)), group=fixture.fresh("mg"))
    leased = await consumer.one(invisible=60.0)
    rest = await consumer.take(9, batch=3)
    assert fixture.clock.now() < leased.at + 60.0, (
        "the others were delivered only after the first one's lease"
    )
    assert {one.text for one in [leased, *rest]} == {f"m{n}" for n in range(10)}
    await consumer.ack(leased)


@case("fifo.plain-topic-ordered-group", rules=("R8.1", "R8.4"), level=SHOULD, needs=ORDERED)
async def plain_topic_ordered_group(fixture: Fixture) -> None:
    """An ordered group receives messages of one queue without message groups in the order of their offsets."""
    topic, consumer = await fixture.subscribed(1, ordered=True)
    sent = await fixture.send(topic, *(f"m{n}" for n in range(20)))
    deliveries = [one for _ in range(20) for one in await consumer.take(1, batch=1)]
    assert [one.id for one in deliveries] == [one.id for one in sent]
    assert {one.attempt for one in deliveries} == {1}


@case("fifo.missing-group", rules=("R4.5", "R4.6"), level=SHOULD, needs=(*ORDERED, "type.check"))
async def missing_group(fixture: Fixture) -> None:
    """A message without message group is refused by an ordered topic with MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    topic = await fixture.topic(4, type="FIFO")
    producer = await fixture.producer(topic)
    response = await producer.send(fixture.message(topic, "m"))
    assert code_of(response) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("fifo.queue-count-change", rules=("R8.17", "R4.8"), level=INFORMATIONAL, needs=ORDERED, timeout=150.0)
async def queue_count_change(fixture: Fixture) -> None:
    """Message groups stay in order when their topic grows from two queues to six."""
    topic, consumer = await fixture.subscribed(2, type="FIFO", ordered=True)
    groups = [fixture.fresh("mg") for _ in range(6)]

    async def produce() -> None:
        for n in range(20):
            if n == 10:
                await fixture.target.create_topic(topic, type="FIFO", queues=6)
            await asyncio.gather(*(fixture.send(topic, str(n), group=group) for group in groups))
            await fixture.clock.sleep(0.2)

    producing = fixture.background(produce())
    deliveries = await consumer.take(120, batch=8, within=60.0)
    await producing
    wrong = [
        group
        for group in groups
        if [int(one.text) for one in deliveries if one.message_group == group] != list(range(20))
    ]
    fixture.note("out_of_order", len(wrong))
    assert not wrong, f"{len(wrong)} of 6 message groups changed their order"
