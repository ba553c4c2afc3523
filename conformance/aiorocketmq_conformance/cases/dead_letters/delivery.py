"""When a message becomes a dead letter, what it keeps, who can receive it: inventory 4.12."""

from __future__ import annotations

from typing import Any

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import (
    dead_letter_reader,
    dead_letter_topic,
    dead_letters,
    failing_consumer,
    forward,
    reading_group,
)
from aiorocketmq_conformance.cases.shared.nack import exhaust, nack, retry_within
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, expiry_window, wake_window

LIMITED = ("dlq",)


@case("dlq.after-limit", rules=("R5.26", "R7.5"), needs=LIMITED, timeout=120.0)
async def after_limit(fixture: Fixture) -> None:
    """A message that has used up its attempts is in the group's dead-letter topic within 30 s."""
    consumer, readers = await failing_consumer(fixture, retries=1)
    (sent,) = await fixture.send(consumer.topic, "poison")
    await exhaust(fixture, consumer, 2)
    failed = fixture.clock.now()
    (dead,) = await dead_letters(fixture, consumer, readers)
    assert (dead.id, dead.body) == (sent.id, b"poison")
    moved = dead.stored_at - fixture.clock.wall() + fixture.clock.now() - failed
    fixture.note("moved_after", round(moved, 3))
    assert moved <= 30.0, f"became a dead letter only {moved:.1f} s after its last failure"


@case("dlq.once", rules=("R5.26",), needs=LIMITED, timeout=180.0)
async def once(fixture: Fixture) -> None:
    """Twenty messages that always fail, received by two consumers, become twenty dead letters, each once."""
    one, readers = await failing_consumer(fixture, retries=1)
    two = await fixture.consumer(one.topic, group=one.group, prime=False)
    sent = await fixture.send_all(one.topic, [f"m{n}" for n in range(20)])
    failures = 0
    end = fixture.clock.now() + 2 * retry_within(fixture) + PROMPT
    while failures < 40 and fixture.clock.now() < end:
        for consumer in (one, two):
            for delivery in (await consumer.receive(batch=7)).deliveries:
                await nack(consumer, delivery)
                failures += 1
    assert failures == 40, f"{failures} deliveries of 20 messages with two attempts each"
    dead = await dead_letters(fixture, one, readers, 20)
    reader = await dead_letter_reader(fixture, one, readers)
    dead += await reader.receive_for(SHORT_POLL, settle=True)
    assert sorted(each.id for each in dead) == sorted(each.id for each in sent)


@case("dlq.limit-lowered", rules=("R5.26", "R2.12"), level=SHOULD, needs=LIMITED, timeout=180.0)
async def limit_lowered(fixture: Fixture) -> None:
    """When a group's attempts are limited to what a message has had already, it is not delivered again and becomes a
    dead letter; one with an attempt left has it."""
    consumer, readers = await failing_consumer(fixture, retries=4)
    (spent,) = await fixture.send(consumer.topic, "spent")
    await exhaust(fixture, consumer, 1)
    (left,) = await fixture.send(consumer.topic, "left")
    for one in await consumer.take(2, within=retry_within(fixture), settle=False, invisible=60.0):
        await nack(consumer, one)
    await fixture.group(consumer.group, max_attempts=2)
    successor = await fixture.consumer(consumer.topic, group=consumer.group, prime=False)
    last = await successor.one(within=retry_within(fixture), poll=20.0, invisible=60.0)
    others = await successor.receive_for(SHORT_POLL)
    assert [(one.id, one.attempt) for one in (last, *others)] == [(left.id, 2)], f"{others} were delivered"
    await nack(successor, last)
    dead = await dead_letters(fixture, successor, readers, 2)
    assert {one.id for one in dead} == {spent.id, left.id}


@case("dlq.not-before", rules=("R5.26", "R7.5"), needs=LIMITED, timeout=180.0)
async def not_before(fixture: Fixture) -> None:
    """With three retries there is a fourth delivery, and an ack of it prevents a dead letter."""
    consumer, readers = await failing_consumer(fixture, retries=3)
    saved, lost = await fixture.send(consumer.topic, "saved", "lost")
    attempts: dict[str, list[int]] = {saved.id: [], lost.id: []}
    end = fixture.clock.now() + 4 * retry_within(fixture)
    while len(attempts[saved.id]) + len(attempts[lost.id]) < 8 and fixture.clock.now() < end:
        for one in (await consumer.receive(poll=20.0)).deliveries:
            attempts[one.id].append(one.attempt)
            if (one.id, one.attempt) == (saved.id, 4):
                await consumer.ack(one)
            else:
                await nack(consumer, one)
    assert attempts == {saved.id: [1, 2, 3, 4], lost.id: [1, 2, 3, 4]}
    (dead,) = await dead_letters(fixture, consumer, readers)
    assert dead.id == lost.id, "succeeded at its last attempt, and became a dead letter"


_RICH: dict[str, Any] = {"tag": "t", "keys": ["k1", "k2"], "properties": {"a": "1", "b": "值"}}


async def _rich_dead_letter(fixture: Fixture) -> tuple[Sent, Delivery, str]:
    consumer, readers = await failing_consumer(fixture, retries=1)
    (sent,) = await fixture.send(consumer.topic, "the body", **_RICH)
    await exhaust(fixture, consumer, 2)
    (dead,) = await dead_letters(fixture, consumer, readers)
    return sent, dead, consumer.topic


@case("dlq.content", rules=("R7.6", "R6.18"), needs=LIMITED, params={"message": None}, timeout=120.0)
async def content(fixture: Fixture, _: None) -> None:
    """A dead letter has the id, body, tag, keys and properties of its message (the {} itself)."""
    sent, dead, _topic = await _rich_dead_letter(fixture)
    system = dead.message.system_properties
    properties = {key: dead.message.user_properties.get(key) for key in ("a", "b")}
    assert (dead.id, dead.body, system.tag) == (sent.id, b"the body", "t")
    assert list(system.keys) == ["k1", "k2"]
    assert properties == _RICH["properties"]


@case("dlq.content", rules=("R6.18",), needs=LIMITED, params={"origin": None}, timeout=120.0)
async def content_origin(fixture: Fixture, _: None) -> None:
    """A dead letter has the topic and message id of its origin (its {})."""
    sent, dead, topic = await _rich_dead_letter(fixture)
    origin = dead.message.system_properties.dead_letter_queue
    assert (origin.topic, origin.message_id) == (topic, sent.id)


@case("dlq.consumable", rules=("R7.6", "R6.8"), needs=LIMITED, timeout=150.0)
async def consumable(fixture: Fixture) -> None:
    """A dead letter is consumed like any message: it is redelivered unless it is acked."""
    consumer, readers = await failing_consumer(fixture, retries=0)
    (sent,) = await fixture.send(consumer.topic, "poison")
    await exhaust(fixture, consumer, 1)
    await consumer.receive_for(fixture.number("nack.high") + SHORT_POLL)
    reader = await dead_letter_reader(fixture, consumer, readers)
    first = await reader.one(invisible=10.0)
    second = await reader.one(within=expiry_window(fixture.target, 10.0).high + PROMPT, poll=20.0)
    assert (first.id, second.id) == (sent.id, sent.id)
    assert second.attempt == first.attempt + 1
    expiry_window(fixture.target, 10.0).check_return(first, second)
    await reader.ack(second)
    third = await reader.receive_for(fixture.number("revive.high") + SHORT_POLL)
    assert not third, f"acked, and delivered again: {third}"


@case("dlq.wakes", rules=("R7.6", "R5.20"), level=SHOULD, needs=LIMITED)
async def wakes(fixture: Fixture) -> None:
    """A dead letter completes a receive that waits for one at once."""
    readers = await reading_group(fixture)
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "first", "second")
    first, second = await consumer.take(2, settle=False)
    await forward(consumer, first)
    reader = await dead_letter_reader(fixture, consumer, readers)
    await reader.take(1, within=2 * PROMPT)
    waiting = fixture.background(reader.receive(poll=15.0))
    await fixture.clock.sleep(3.0)
    assert not waiting.done(), "the poll ended before there was another dead letter"
    await forward(consumer, second)
    moved = fixture.clock.now()
    answer = await waiting
    assert [one.id for one in answer.deliveries] == [second.id]
    wake_window(fixture.target).check(answer.deliveries[0].at - moved, "the waiting poll was answered")
    await reader.ack(*answer.deliveries)


@case("dlq.gone-from-source", rules=("R5.26", "R7.6"), needs=LIMITED, timeout=150.0)
async def gone_from_source(fixture: Fixture) -> None:
    """A message that became a dead letter is not delivered to its group again."""
    consumer, readers = await failing_consumer(fixture, retries=1)
    (sent,) = await fixture.send(consumer.topic, "poison")
    await exhaust(fixture, consumer, 2)
    (dead,) = await dead_letters(fixture, consumer, readers)
    assert dead.id == sent.id
    redelivered = await fixture.deliveries_within(consumer, QUIET_WINDOW)
    more = [one for one in consumer.deliveries if one.id == sent.id][2:] + redelivered
    assert not more, f"a dead letter, and delivered again: {more}"


@case("dlq.per-group", rules=("R7.6", "R10.1"), needs=LIMITED, timeout=150.0)
async def per_group(fixture: Fixture) -> None:
    """Dead letters of one group are separate from those of other groups of the topic."""
    failing, readers = await failing_consumer(fixture, retries=0)
    fine = await fixture.consumer(failing.topic, max_attempts=1)
    also = await fixture.consumer(failing.topic, max_attempts=1)
    (sent,) = await fixture.send(failing.topic, "poison")
    await fine.ack(await fine.one())
    await exhaust(fixture, failing, 1)
    (dead,) = await dead_letters(fixture, failing, readers)
    assert dead.id == sent.id
    # A second group fails, too: each has its own dead letter, and the group without failures none.
    others = await reading_group(fixture)
    await exhaust(fixture, also, 1)
    (second,) = await dead_letters(fixture, also, others)
    assert second.id == sent.id
    reader = await dead_letter_reader(fixture, failing, readers)
    more = await reader.receive_for(SHORT_POLL)
    assert not more, f"another group's dead letter among these: {more}"
    unused = await fixture.client()
    assert code_of(await unused.query_route(dead_letter_topic(fine.group))) == "TOPIC_NOT_FOUND"


@case("dlq.simple-consumer", rules=("R5.26", "R7.5"), needs=LIMITED, timeout=180.0)
async def simple_consumer(fixture: Fixture) -> None:
    """Expired leases count as failures: after the last one the message is a dead letter."""
    consumer, readers = await failing_consumer(fixture, retries=1)
    (sent,) = await fixture.send(consumer.topic, "never acked")
    within = expiry_window(fixture.target, 10.0).high + PROMPT
    deliveries = [await consumer.one(invisible=10.0, within=within, poll=20.0) for _ in range(2)]
    assert [one.attempt for one in deliveries] == [1, 2]
    await fixture.clock.sleep(10.0)
    (dead,) = await dead_letters(fixture, consumer, readers)
    assert dead.id == sent.id


@case(
    "dlq.no-poll-no-move",
    rules=("R5.27",),
    level=INFORMATIONAL,
    needs=(*LIMITED, "type.fifo"),
    timeout=150.0,
    params={"normal": False, "ordered": True},
)
async def no_poll_no_move(fixture: Fixture, ordered: bool) -> None:
    """A message of a group ({}) without attempts left becomes a dead letter although no consumer receives from its
    topic."""
    consumer, _ = await failing_consumer(fixture, retries=1, ordered=ordered)
    await fixture.send(consumer.topic, "poison", group="g" if ordered else None)
    await exhaust(fixture, consumer, 2)
    await fixture.clock.sleep(30.0)
    route = await consumer.client.query_route(dead_letter_topic(consumer.group))
    moved = code_of(route) == "OK"
    fixture.note("moved", moved)
    assert moved, "it waits for the next receive"


async def _reader_after_restart(fixture: Fixture, failing: Consumer, readers: str) -> Consumer:
    """Return the reader; retried while a separate proxy does not reach the broker yet and so knows no group."""
    end = fixture.clock.now() + 6 * PROMPT
    while True:
        try:
            return await dead_letter_reader(fixture, failing, readers)
        except StreamEnded:
            if fixture.clock.now() > end:
                raise
        await fixture.clock.sleep(1.0)


@case("dlq.restart", rules=("R12.7",), level=SHOULD, needs=(*LIMITED, "@restart"), timeout=400.0)
async def restart(fixture: Fixture) -> None:
    """Dead letters survive a restart of the broker."""
    consumer, readers = await failing_consumer(fixture, retries=0)
    sent = await fixture.send(consumer.topic, *(f"m{n}" for n in range(5)))
    failed = await consumer.take(5, settle=False)
    for one in failed:
        await nack(consumer, one)
    await consumer.receive_for(fixture.number("nack.high") + 2 * SHORT_POLL)
    await fixture.clock.sleep(6.0)  # progress since the last flush may be lost (live-broker-consumption.md 8)
    await fixture.target.restart()
    reader = await _reader_after_restart(fixture, consumer, readers)
    dead = await reader.take(5, within=60.0)
    assert sorted(one.id for one in dead) == sorted(one.id for one in sent)


@case("dlq.outlives-group", rules=("R7.6",), level=SHOULD, needs=(*LIMITED, "@delete"), timeout=120.0)
async def outlives_group(fixture: Fixture) -> None:
    """The dead letters of a group can still be consumed after the group was deleted."""
    readers = await reading_group(fixture)
    topic, consumer = await fixture.subscribed(1)
    (sent,) = await fixture.send(topic, "m")
    await forward(consumer, await consumer.one())
    reader = await dead_letter_reader(fixture, consumer, readers)
    await fixture.target.admin.delete_group(consumer.group)
    assert [one.id for one in await reader.take(1, within=30.0)] == [sent.id]
