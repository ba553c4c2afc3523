"""Ordered groups: attempt ids, changes inside a batch, and groups and topics of other kinds: inventory 4.3."""

from __future__ import annotations

import asyncio

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.order.receiving import ORDERED, one_group
from aiorocketmq_conformance.cases.shared.nack import give_back
from aiorocketmq_conformance.fixture import SHORT_POLL, Stage, on_stage
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT, expiry


@case("fifo.change-middle", rules=("R8.11", "R8.6"), level=Level.SHOULD, needs=ORDERED, timeout=120.0)
@on_stage
async def change_middle(stage: Stage) -> None:
    """With the head acked, the second changed to 2 s and the third left, nothing passes these, and they keep order."""
    consumer, _, _ = await one_group(stage, 6, shown=True)
    batch = (await consumer.receive(batch=3, invisible=10.0)).deliveries
    assert [one.text for one in batch] == ["m0", "m1", "m2"]
    await consumer.ack(batch[0])
    await give_back(consumer, batch[1], 2.0)
    seen: list[str] = []
    end = stage.clock.now() + expiry(stage.target, 10.0, ordered=True).high + 20.0 + PROMPT
    while len(set(seen)) < 5 and stage.clock.now() < end:
        answer = await consumer.receive(batch=1, invisible=60.0)
        seen += [one.text for one in answer.deliveries]
        await consumer.ack(*answer.deliveries)
    first = list(dict.fromkeys(seen))
    assert first == ["m1", "m2", "m3", "m4", "m5"], f"delivered in the order {seen}"


@case("fifo.reentrant-attempt-id", rules=("R8.14",), level=Level.SHOULD, needs=ORDERED)
@on_stage
async def reentrant_attempt_id(stage: Stage) -> None:
    """A receive repeated with its attempt id brings the same messages at once, and the attempt is not counted."""
    consumer, _, _ = await one_group(stage, 4, shown=True)
    attempt_id = stage.target.fresh("attempt")
    first = await consumer.receive(batch=2, attempt_id=attempt_id, invisible=60.0)
    again = await consumer.receive(batch=2, attempt_id=attempt_id, invisible=60.0, poll=10.0)
    assert [one.text for one in first.deliveries] == ["m0", "m1"]
    assert [one.text for one in again.deliveries] == ["m0", "m1"]
    assert {one.attempt for one in again.deliveries} == {1}
    assert again.took < SHORT_POLL + 5 * stage.clock.traffic.slowest_answer(), f"waited {again.took:.1f} s"
    await consumer.ack(*again.deliveries)
    assert [one.text for one in await consumer.take(2, batch=1)] == ["m2", "m3"]


@case("fifo.new-attempt-id-blocked", rules=("R8.14", "R8.4"), level=Level.SHOULD, needs=ORDERED, timeout=90.0)
@on_stage
async def new_attempt_id_blocked(stage: Stage) -> None:
    """A receive with another attempt id gets nothing while the first one's messages are in flight."""
    consumer, _, _ = await one_group(stage, 2)
    first = await consumer.one(attempt_id=stage.target.fresh("attempt"), invisible=10.0)
    second = await consumer.one(attempt_id=stage.target.fresh("attempt"), poll=20.0, within=2 * PROMPT)
    assert (first.text, second.text, second.attempt) == ("m0", "m0", 2)
    expiry(stage.target, 10.0, ordered=True).check_return(first, second)
    await consumer.ack(second)
    await consumer.take(1, batch=1)


@case("fifo.other-group-same-queue", rules=("R8.2",), level=Level.INFORMATIONAL, needs=ORDERED, timeout=90.0)
@on_stage
async def other_group_same_queue(stage: Stage) -> None:
    """A message group goes on while another on the same queue waits for its head."""
    topic = await stage.topic(1, type="FIFO")
    consumer = await stage.consumer(topic, ordered=True)
    await stage.send(topic, "a0", "a1", group=stage.target.fresh("mg"))
    head = await consumer.one(invisible=30.0)
    await stage.send(topic, "b0", group=stage.target.fresh("mg"))
    beside = await consumer.watch(2 * SHORT_POLL, batch=1, settle=True)
    await consumer.ack(head)
    grain = "group" if [one.text for one in beside] == ["b0"] else "queue"
    stage.target.note("order.grain", grain)
    assert grain == "group", f"an un-acked message blocks its whole queue: {beside}"


@case("fifo.unordered-group", rules=("R8.1", "R5.12"), level=Level.SHOULD, needs=ORDERED)
@on_stage
async def unordered_group(stage: Stage) -> None:
    """A group that is not ordered gets the later messages of a message group while the first is in flight."""
    topic = await stage.topic(4, type="FIFO")
    consumer = await stage.consumer(topic)
    await stage.send(topic, *(f"m{n}" for n in range(10)), group=stage.target.fresh("mg"))
    held = await consumer.one(invisible=60.0)
    rest = await consumer.take(9, batch=3)
    assert stage.clock.now() < held.at + 60.0, "the others came only after the first one's lease"
    assert {one.text for one in [held, *rest]} == {f"m{n}" for n in range(10)}
    await consumer.ack(held)


@case("fifo.plain-topic-ordered-group", rules=("R8.1", "R8.4"), level=Level.SHOULD, needs=ORDERED)
@on_stage
async def plain_topic_ordered_group(stage: Stage) -> None:
    """An ordered group reads a topic of one queue without message groups in the order of its offsets."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic, ordered=True)
    sent = await stage.send(topic, *(f"m{n}" for n in range(20)))
    seen = [one for _ in range(20) for one in await consumer.take(1, batch=1)]
    assert [one.id for one in seen] == [one.id for one in sent]
    assert {one.attempt for one in seen} == {1}


@case("fifo.missing-group", rules=("R4.5", "R4.6"), level=Level.SHOULD, needs=(*ORDERED, "type.check"))
@on_stage
async def missing_group(stage: Stage) -> None:
    """A message without message group is refused by an ordered topic with MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    topic = await stage.topic(4, type="FIFO")
    producer = await stage.producer(topic)
    response = await producer.send(requests.message(topic, "m", born_at=stage.clock.wall()))
    assert code_name(response.status.code) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case(
    "fifo.queue-count-change",
    rules=("R8.17", "R4.8"),
    level=Level.INFORMATIONAL,
    needs=ORDERED,
    timeout=150.0,
)
@on_stage
async def queue_count_change(stage: Stage) -> None:
    """The order of message groups outlasts a growth of their topic from two queues to six."""
    topic = await stage.topic(2, type="FIFO")
    consumer = await stage.consumer(topic, ordered=True)
    groups = [stage.target.fresh("mg") for _ in range(6)]

    async def produce() -> None:
        for n in range(20):
            if n == 10:
                await stage.target.create_topic(topic, type="FIFO", queues=6)
            await asyncio.gather(*(stage.send(topic, str(n), group=group) for group in groups))
            await stage.clock.sleep(0.2)

    producing = stage.background(produce())
    seen = await consumer.take(120, batch=8, within=60.0)
    await producing
    wrong = [
        group
        for group in groups
        if [int(one.text) for one in seen if one.message_group == group] != list(range(20))
    ]
    stage.target.note("out_of_order", len(wrong))
    assert not wrong, f"{len(wrong)} of 6 message groups changed their order"
