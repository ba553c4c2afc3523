"""Receives at the edges of what may be asked: inventory 4.8, the rows about limits, filters and permissions."""

from __future__ import annotations

import asyncio

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.fixture import EMPTY, LEASE, SHORT_POLL, Stage, answered, on_stage, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT, empty_poll

PREPARED = ("@topic", "@group")


@case("simple.await-zero", rules=("R5.17", "R5.1"), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def await_zero(stage: Stage) -> None:
    """A receive that is not willing to wait is answered empty, at the latest after the server's least poll."""
    consumer = await stage.consumer(await stage.topic())
    answer = await consumer.receive(poll=0.0)
    assert answered(answer) in EMPTY
    assert not answer.deliveries
    stage.target.note("took", round(answer.took, 3))
    high = empty_poll(stage.target, stage.target.number("poll.min")).high
    assert answer.took <= high, f"took {answer.took:.1f} s"


@case("simple.await-wakes-filter", rules=("R5.18", "R5.22"), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def await_wakes_filter(stage: Stage) -> None:
    """A long poll for one tag is not ended by a message of another, and is by one of its own."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic, expression="b")
    waiting = stage.background(consumer.receive(poll=15.0))
    await stage.clock.sleep(2.0)
    await stage.send(topic, "a", tag="a")
    await stage.clock.sleep(2.0)
    (wanted,) = await stage.send(topic, "b", tag="b")
    answer = await waiting
    # Servers may end a poll empty for a message whose tag only has the same hash; these two do not.
    assert [one.id for one in answer.deliveries] == [wanted.id]
    await consumer.ack(*answer.deliveries)


@case("simple.deadline-too-short", rules=("R5.1", "R1.1"), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def deadline_too_short(stage: Stage) -> None:
    """A poll of 10 s under a deadline of 2 s is refused or answered before the deadline, and nothing is lost by it."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    answer = await consumer.receive(poll=10.0, deadline=2.0)
    stage.target.note("answer", answer.error or code_name(answer.code))
    if answer.error is None:
        assert answered(answer) in EMPTY | {"ILLEGAL_POLLING_TIME", "BAD_REQUEST"}
    assert answer.error in {None, "DEADLINE_EXCEEDED"}, f"the stream ended with {answer.error}"
    (sent,) = await stage.send(topic, "m")
    assert [one.id for one in await consumer.take(1, within=2 * PROMPT + LEASE)] == [sent.id]


@case("simple.batch-zero", rules=("R5.3",), level=Level.INFORMATIONAL, needs=PREPARED)
@on_stage
async def batch_zero(stage: Stage) -> None:
    """A receive of no messages is answered as empty, although some are there."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    answer = await consumer.receive(batch=0)
    stage.target.note("answer", answer.error or code_name(answer.code))
    assert not answer.deliveries, "asked for none, and got some"
    assert answered(answer) in EMPTY


@case("simple.batch-huge", rules=("R5.3",), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def batch_huge(stage: Stage) -> None:
    """A receive of 100,000 is answered with at most the advertised batch."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    sent = await stage.send_all(topic, [f"m{n}" for n in range(40)])
    answer = await consumer.receive(batch=100_000)
    assert answered(answer) == "OK"
    assert 1 <= len(answer.deliveries) <= stage.target.number("batch.max")
    await consumer.ack(*answer.deliveries)
    rest = await consumer.take(40 - len(answer.deliveries), within=2 * PROMPT)
    once_each(sent, [*answer.deliveries, *rest])


@case(
    "simple.invisible-min",
    rules=("R5.1",),
    level=Level.SHOULD,
    needs=PREPARED,
    params={"zero": 0.0, "below": None},
)
@on_stage
async def invisible_min(stage: Stage, seconds: float | None) -> None:
    """A lease below the declared least ({}) is refused with ILLEGAL_INVISIBLE_TIME, and takes nothing."""
    least = stage.target.number("invisible.min")
    asked = least - 0.001 if seconds is None else seconds
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    (sent,) = await stage.send(topic, "m")
    answer = await consumer.receive(invisible=asked)
    assert answered(answer) == "ILLEGAL_INVISIBLE_TIME", f"a lease of {asked:g} s answered {answered(answer)}"
    assert [(one.id, one.attempt) for one in await consumer.take(1)] == [(sent.id, 1)]


@case("simple.invisible-max", rules=("R5.1",), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def invisible_max(stage: Stage) -> None:
    """A lease a millisecond above the declared most is refused with ILLEGAL_INVISIBLE_TIME, and takes nothing."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    (sent,) = await stage.send(topic, "m")
    answer = await consumer.receive(invisible=stage.target.number("invisible.max") + 0.001)
    assert answered(answer) == "ILLEGAL_INVISIBLE_TIME"
    assert [(one.id, one.attempt) for one in await consumer.take(1)] == [(sent.id, 1)]


@case(
    "simple.invisible-bounds-ok",
    rules=("R5.1",),
    level=Level.SHOULD,
    needs=PREPARED,
    params={"min": "invisible.min", "max": "invisible.max"},
)
@on_stage
async def invisible_bounds_ok(stage: Stage, bound: str) -> None:
    """A lease of exactly the declared bound ({}) is granted."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    (sent,) = await stage.send(topic, "m")
    (seen,) = await consumer.take(1, invisible=stage.target.number(bound))
    assert seen.id == sent.id


@case("simple.group-disabled", rules=("R5.1",), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def group_disabled(stage: Stage) -> None:
    """A group that may not consume is refused every receive, and goes on where it stood when it may again."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    (sent,) = await stage.send(topic, "m")
    await stage.target.create_group(consumer.group, consume_enabled=False)
    end = stage.clock.now() + PROMPT
    while answered(answer := await consumer.receive()) in EMPTY and stage.clock.now() < end:
        assert not answer.deliveries, "delivered to a group that may not consume"
    stage.target.note("answer", answered(answer))
    assert answered(answer) not in EMPTY, f"answered {answered(answer)} for {PROMPT:g} s"
    assert not answer.deliveries
    await stage.target.create_group(consumer.group)
    end = stage.clock.now() + 2 * PROMPT
    while not (answer := await consumer.receive()).deliveries and stage.clock.now() < end:
        await stage.clock.sleep(0.5)
    await consumer.ack(*answer.deliveries)
    assert [(one.id, one.attempt) for one in answer.deliveries] == [(sent.id, 1)]


@case("simple.unreadable-topic", rules=("R5.1",), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def unreadable_topic(stage: Stage) -> None:
    """A receive from a topic that may only be written is refused with FORBIDDEN."""
    topic = await stage.target.create_topic(permission="w", queues=1)
    consumer = await stage.consumer(topic, prime=False)
    await stage.send(topic, "m")
    answer = await consumer.receive()
    assert answered(answer) == "FORBIDDEN"
    assert not answer.deliveries


@case("simple.no-settings", rules=("R5.1",), level=Level.INFORMATIONAL, needs=PREPARED)
@on_stage
async def no_settings(stage: Stage) -> None:
    """A receive of a client that never sent settings is refused as of an unknown client, within its deadline."""
    topic = await stage.topic(1)
    group = await stage.target.create_group()
    await stage.send(topic, "m")
    client = await stage.client()
    answer = await client.receive(topic, group)
    told = answer.error or code_name(answer.code)
    stage.target.note("answer", told)
    assert told == "UNRECOGNIZED_CLIENT_TYPE", f"answered {told}"


@case("simple.poll-flood", rules=("R5.17",), level=Level.EXTENSION, needs=PREPARED, timeout=90.0)
@on_stage
async def poll_flood(stage: Stage) -> None:
    """Two hundred parked polls of one group are each answered empty, refused as too many, or bring the one message."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    polls = [stage.background(consumer.client.receive(topic, consumer.group)) for _ in range(200)]
    await stage.clock.sleep(1.0)
    (sent,) = await stage.send(topic, "m")
    answers = await asyncio.gather(*polls)
    seen = [one for answer in answers for one in answer.deliveries]
    codes = {answer.error or code_name(answer.code) for answer in answers}
    stage.target.note("codes", ", ".join(sorted(codes)))
    assert codes <= EMPTY | {"TOO_MANY_REQUESTS"}, f"answered {codes}"
    assert [one.id for one in seen] == [sent.id], f"200 polls and one message: {seen}"
    await consumer.ack(*seen)


@case("simple.resubscribe", rules=("R2.2", "R5.22"), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def resubscribe(stage: Stage) -> None:
    """After its filter was replaced by another tag a consumer gets that tag only: the old one is not added to it."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic, expression="a")
    await stage.send(topic, "a1", tag="a")
    assert [one.text for one in await consumer.take(1)] == ["a1"]
    await consumer.client.present(
        requests.consumer_settings(consumer.group, {topic: "b"}, pb.ClientType.SIMPLE_CONSUMER)
    )
    consumer.expression = "b"
    for body in ("a2", "b1", "a3", "b2"):
        await stage.send(topic, body, tag=body[0])
    seen = [one.text for one in await consumer.take(2)]
    seen += [one.text for one in await stage.nothing_but(consumer, SHORT_POLL, sentinel={"tag": "b"})]
    assert sorted(seen) == ["b1", "b2"]


@case("simple.many-topics", rules=("R5.1", "R5.13"), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def many_topics(stage: Stage) -> None:
    """One group reads three topics in turn, and each gives all of its own messages."""
    first = await stage.consumer(await stage.topic())
    consumers = [
        first,
        *[await stage.consumer(await stage.topic(), group=first.group, prime=False) for _ in range(2)],
    ]
    sent = [await stage.send(one.topic, *(f"m{n}" for n in range(20))) for one in consumers]
    for _ in range(12):
        for consumer in consumers:
            await consumer.ack(*(await consumer.receive(batch=5)).deliveries)
        if all(len(consumer.seen) >= 20 for consumer in consumers):
            break
    for consumer, mine in zip(consumers, sent, strict=True):
        once_each(mine, consumer.seen)
