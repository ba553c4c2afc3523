"""Receives at the limits of their parameters: inventory 4.8, the rows about limits, filters and permissions."""

from __future__ import annotations

import asyncio

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import EMPTY, LEASE, SHORT_POLL, answered
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT, empty_poll_window


@case("simple.await-zero", rules=("R5.17", "R5.1"), level=SHOULD)
async def await_zero(fixture: Fixture) -> None:
    """A receive without poll time is answered empty, at the latest after the server's minimum poll."""
    consumer = await fixture.consumer(await fixture.topic())
    answer = await consumer.receive(poll=0.0)
    assert answered(answer) in EMPTY
    assert not answer.deliveries
    fixture.note("took", round(answer.took, 3))
    high = empty_poll_window(fixture.target, fixture.number("poll.min")).high
    assert answer.took <= high, f"took {answer.took:.1f} s"


@case("simple.await-wakes-filter", rules=("R5.18", "R5.22"), level=SHOULD, timeout=90.0)
async def await_wakes_filter(fixture: Fixture) -> None:
    """A long poll for one tag is completed by a message of that tag only."""
    topic, consumer = await fixture.subscribed(1, expression="b")
    waiting = fixture.background(consumer.receive(poll=15.0))
    await fixture.clock.sleep(2.0)
    await fixture.send(topic, "a", tag="a")
    await fixture.clock.sleep(2.0)
    (matching,) = await fixture.send(topic, "b", tag="b")
    answer = await waiting
    # Servers may complete a poll empty for a tag with the same hash; these two have different ones.
    assert [one.id for one in answer.deliveries] == [matching.id]
    await consumer.ack(*answer.deliveries)


@case("simple.waiters-by-end", rules=("R5.18",), level=SHOULD)
async def waiters_by_end(fixture: Fixture) -> None:
    """Of several polls of a group that wait, a message completes the one that would end first, whoever asked first."""
    topic, first = await fixture.subscribed(1)
    consumers = [first, *[await fixture.consumer(topic, group=first.group, prime=False) for _ in range(2)]]
    lengths = (19.0, 11.0, 15.0)
    polls = {
        length: fixture.background(each.receive(poll=length))
        for length, each in zip(lengths, consumers, strict=True)
    }
    await fixture.clock.sleep(2.0)
    for length in sorted(lengths):
        (sent,) = await fixture.send(topic, f"{length:g} s")
        answer = await polls[length]
        assert [one.id for one in answer.deliveries] == [sent.id], (
            f"the poll of {length:g} s had {answer.deliveries}"
        )


@case("simple.deadline-too-short", rules=("R5.1", "R1.1"), level=SHOULD)
async def deadline_too_short(fixture: Fixture) -> None:
    """A poll of 10 s with a deadline of 2 s is refused or answered before the deadline, and no message is lost."""
    topic, consumer = await fixture.subscribed()
    answer = await consumer.receive(poll=10.0, deadline=2.0)
    fixture.note("answer", answer.error or code_name(answer.code))
    if answer.error is None:
        assert answered(answer) in EMPTY | {"ILLEGAL_POLLING_TIME", "BAD_REQUEST"}
    assert answer.error in {None, "DEADLINE_EXCEEDED"}, f"the stream ended with {answer.error}"
    (sent,) = await fixture.send(topic, "m")
    assert [one.id for one in await consumer.take(1, within=2 * PROMPT + LEASE)] == [sent.id]


@case("simple.poll-of-deadline", rules=("R2.13", "5.1 row 3"), level=SHOULD)
async def poll_of_deadline(fixture: Fixture) -> None:
    """A receive without a poll time waits for its deadline less half of the request timeout in its settings."""
    _, consumer = await fixture.subscribed(1)
    for deadline in (9.0, 15.0):
        answer = await consumer.receive(poll=None, deadline=deadline)
        assert not answer.deliveries
        assert answered(answer) in EMPTY
        # The probe's settings name 3 s.
        empty_poll_window(fixture.target, deadline - 1.5).check(answer.took, "an empty receive ended")


@case("simple.batch-zero", rules=("R5.3",), level=INFORMATIONAL)
async def batch_zero(fixture: Fixture) -> None:
    """A receive with batch size 0 is answered as empty, although messages are available."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    answer = await consumer.receive(batch=0)
    fixture.note("answer", answer.error or code_name(answer.code))
    assert not answer.deliveries, "received messages with batch size 0"
    assert answered(answer) in EMPTY


@case("simple.batch-huge", rules=("R5.3",), level=SHOULD)
async def batch_huge(fixture: Fixture) -> None:
    """A receive of 100,000 is answered with at most the advertised batch."""
    topic, consumer = await fixture.subscribed(1)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(40)])
    answer = await consumer.receive(batch=100_000)
    assert answered(answer) == "OK"
    assert 1 <= len(answer.deliveries) <= fixture.number("batch.max")
    await consumer.ack(*answer.deliveries)
    rest = await consumer.take(40 - len(answer.deliveries), within=2 * PROMPT)
    once_each(sent, [*answer.deliveries, *rest])


@case("simple.invisible-min", rules=("R5.1",), level=SHOULD, params={"zero": 0.0, "below": None})
async def invisible_min(fixture: Fixture, seconds: float | None) -> None:
    """A lease below the declared minimum ({}) is refused with ILLEGAL_INVISIBLE_TIME, and leases nothing."""
    least = fixture.number("invisible.min")
    lease = least - 0.001 if seconds is None else seconds
    topic, consumer = await fixture.subscribed()
    (sent,) = await fixture.send(topic, "m")
    answer = await consumer.receive(invisible=lease)
    assert answered(answer) == "ILLEGAL_INVISIBLE_TIME", (
        f"a lease of {lease:g} s was answered with {answered(answer)}"
    )
    assert [(one.id, one.attempt) for one in await consumer.take(1)] == [(sent.id, 1)]


@case("simple.invisible-max", rules=("R5.1",), level=SHOULD)
async def invisible_max(fixture: Fixture) -> None:
    """A lease a millisecond above the declared maximum is refused with ILLEGAL_INVISIBLE_TIME, and leases nothing."""
    topic, consumer = await fixture.subscribed()
    (sent,) = await fixture.send(topic, "m")
    answer = await consumer.receive(invisible=fixture.number("invisible.max") + 0.001)
    assert answered(answer) == "ILLEGAL_INVISIBLE_TIME"
    assert [(one.id, one.attempt) for one in await consumer.take(1)] == [(sent.id, 1)]


@case(
    "simple.invisible-bounds-ok",
    rules=("R5.1",),
    level=SHOULD,
    params={"min": "invisible.min", "max": "invisible.max"},
)
async def invisible_bounds_ok(fixture: Fixture, bound: str) -> None:
    """A lease of exactly the declared limit ({}) is granted."""
    topic, consumer = await fixture.subscribed()
    (sent,) = await fixture.send(topic, "m")
    (delivery,) = await consumer.take(1, invisible=fixture.number(bound))
    assert delivery.id == sent.id


@case("simple.group-disabled", rules=("R5.1",), level=SHOULD)
async def group_disabled(fixture: Fixture) -> None:
    """Receives of a group with consumption disabled are refused; once enabled, it continues at its progress."""
    topic, consumer = await fixture.subscribed(1)
    (sent,) = await fixture.send(topic, "m")
    await fixture.group(consumer.group, consume_enabled=False)
    end = fixture.clock.now() + PROMPT
    while answered(answer := await consumer.receive()) in EMPTY and fixture.clock.now() < end:
        assert not answer.deliveries, "delivered to a group that may not consume"
    fixture.note("answer", answered(answer))
    assert answered(answer) not in EMPTY, f"answered with {answered(answer)} for {PROMPT:g} s"
    assert not answer.deliveries
    await fixture.group(consumer.group)
    end = fixture.clock.now() + 2 * PROMPT
    while not (answer := await consumer.receive()).deliveries and fixture.clock.now() < end:
        await fixture.clock.sleep(0.5)
    await consumer.ack(*answer.deliveries)
    assert [(one.id, one.attempt) for one in answer.deliveries] == [(sent.id, 1)]


@case("simple.unreadable-topic", rules=("R5.1",), level=SHOULD)
async def unreadable_topic(fixture: Fixture) -> None:
    """A receive from a write-only topic is refused with FORBIDDEN."""
    topic = await fixture.target.create_topic(permission="w", queues=1)
    consumer = await fixture.consumer(topic, prime=False)
    await fixture.send(topic, "m")
    answer = await consumer.receive()
    assert answered(answer) == "FORBIDDEN"
    assert not answer.deliveries


@case("simple.no-settings", rules=("R5.1",), level=INFORMATIONAL)
async def no_settings(fixture: Fixture) -> None:
    """A receive of a client that never sent settings is refused within its deadline."""
    topic = await fixture.topic(1)
    group = await fixture.group()
    await fixture.send(topic, "m")
    client = await fixture.client()
    answer = await client.receive(topic, group)
    code = answer.error or code_name(answer.code)
    fixture.note("answer", code)
    assert code == "UNRECOGNIZED_CLIENT_TYPE", f"answered with {code}"


@case("simple.poll-flood", rules=("R5.17",), level=EXTENSION, timeout=90.0)
async def poll_flood(fixture: Fixture) -> None:
    """Two hundred parked polls of one group are each answered empty, refused as too many, or return the one
    message."""
    topic, consumer = await fixture.subscribed(1)
    polls = [fixture.background(consumer.client.receive(topic, consumer.group)) for _ in range(200)]
    await fixture.clock.sleep(1.0)
    (sent,) = await fixture.send(topic, "m")
    answers = await asyncio.gather(*polls)
    deliveries = [one for answer in answers for one in answer.deliveries]
    codes = {answer.error or code_name(answer.code) for answer in answers}
    fixture.note("codes", ", ".join(sorted(codes)))
    assert codes <= EMPTY | {"TOO_MANY_REQUESTS"}, f"answered with {codes}"
    assert [one.id for one in deliveries] == [sent.id], f"200 polls and one message: {deliveries}"
    await consumer.ack(*deliveries)


@case("simple.resubscribe", rules=("R2.2", "R5.22"), level=SHOULD, timeout=90.0)
async def resubscribe(fixture: Fixture) -> None:
    """After its filter was replaced a consumer receives the new tag only: filters are not merged."""
    topic, consumer = await fixture.subscribed(1, expression="a")
    await fixture.send(topic, "a1", tag="a")
    assert [one.text for one in await consumer.take(1)] == ["a1"]
    await consumer.client.send_settings(
        requests.consumer_settings(consumer.group, {topic: "b"}, pb.ClientType.SIMPLE_CONSUMER)
    )
    consumer.expression = "b"
    for body in ("a2", "b1", "a3", "b2"):
        await fixture.send(topic, body, tag=body[0])
    texts = [one.text for one in await consumer.take(2)]
    texts += [
        one.text for one in await fixture.deliveries_within(consumer, SHORT_POLL, sentinel={"tag": "b"})
    ]
    assert sorted(texts) == ["b1", "b2"]


@case("simple.many-topics", rules=("R5.1", "R5.13"), level=SHOULD, timeout=90.0)
async def many_topics(fixture: Fixture) -> None:
    """One group that receives from three topics in turn gets all messages of each."""
    first = await fixture.consumer(await fixture.topic())
    consumers = [
        first,
        *[await fixture.consumer(await fixture.topic(), group=first.group, prime=False) for _ in range(2)],
    ]
    sent = [await fixture.send(one.topic, *(f"m{n}" for n in range(20))) for one in consumers]
    for _ in range(12):
        for consumer in consumers:
            await consumer.ack(*(await consumer.receive(batch=5)).deliveries)
        if all(len(consumer.deliveries) >= 20 for consumer in consumers):
            break
    for consumer, mine in zip(consumers, sent, strict=True):
        once_each(mine, consumer.deliveries)
