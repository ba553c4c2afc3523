"""Retries with several consumers, filters and fresh messages: inventory 4.10, the S and I rows."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_reader, reading_group
from aiorocketmq_conformance.cases.shared.nack import exhaust, nack, retry_within
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, expiry_window


@case("retry.any-consumer", rules=("R7.1", "R7.2"), level=SHOULD, timeout=90.0)
async def any_consumer(fixture: Fixture) -> None:
    """When the consumer of a message vanishes, another one of its group receives it as attempt 2."""
    topic = await fixture.topic(1)
    owner = await fixture.consumer(topic)
    other = await fixture.consumer(topic, group=owner.group, prime=False)
    await fixture.send(topic, "m")
    leased = await owner.one(invisible=10.0)
    owner.deliveries.clear()  # it can no longer be acknowledged
    await owner.client.disconnect()
    window = expiry_window(fixture.target, 10.0)
    redelivery = await other.one(until=leased.at + window.high + PROMPT, poll=20.0)
    assert (redelivery.id, redelivery.attempt) == (leased.id, 2)
    await other.ack(redelivery)


@case("retry.sql-kept", rules=("R5.22",), level=SHOULD, needs=("filter.sql",), timeout=90.0)
async def sql_kept(fixture: Fixture) -> None:
    """SQL filters apply to redeliveries as to first deliveries, also those of other consumers of the group."""
    topic, consumer = await fixture.subscribed(1)
    sql = pb.FilterExpression(type=pb.FilterType.SQL, expression="price > 10")
    await fixture.send(topic, "cheap", properties={"price": "5"})
    (dear,) = await fixture.send(topic, "dear", properties={"price": "50"})
    first = await consumer.one(expression=sql)
    await nack(consumer, first)
    second = await consumer.one(expression=sql, within=retry_within(fixture), poll=20.0)
    assert [(one.id, one.attempt) for one in (first, second)] == [(dear.id, 1), (dear.id, 2)]
    await nack(consumer, second)
    other = pb.FilterExpression(type=pb.FilterType.SQL, expression="price < 10")
    deliveries = await consumer.receive_for(max(SHORT_POLL, fixture.number("nack.high")), expression=other)
    assert not deliveries, f"delivered against the filter: {deliveries}"


@case("retry.filter-changed", rules=("R5.22",), level=INFORMATIONAL, timeout=90.0)
async def filter_changed(fixture: Fixture) -> None:
    """A failed message that the group's new filter does not select is not redelivered."""
    topic, consumer = await fixture.subscribed(1, expression="a")
    await fixture.send(topic, "m", tag="a")
    await nack(consumer, await consumer.one())
    await consumer.client.send_settings(
        requests.consumer_settings(consumer.group, {topic: "b"}, pb.ClientType.SIMPLE_CONSUMER)
    )
    consumer.expression = "b"
    deliveries = await consumer.receive_for(retry_within(fixture), settle=True)
    fixture.note("outcome", "delivered" if deliveries else "dropped")
    assert not deliveries, f"delivered against the new filter: {deliveries}"


@case("retry.fairness", rules=("R5.9",), level=SHOULD, timeout=120.0)
async def fairness(fixture: Fixture) -> None:
    """With 100 failed messages waiting both fresh and failed ones are delivered: neither starve."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, [f"old{n}" for n in range(100)])
    for one in await consumer.take(100, settle=False, invisible=60.0):
        await nack(consumer, one)
    await fixture.clock.sleep(fixture.number("nack.high"))
    await fixture.send_all(topic, [f"new{n}" for n in range(100)])
    kinds: list[str] = []
    while len(kinds) < 200:
        answer = await consumer.receive(batch=1)
        assert answer.deliveries, f"{len(kinds)} of 200, then an empty answer"
        kinds += [one.text[:3] for one in answer.deliveries]
        await consumer.ack(*answer.deliveries)
    fixture.note("retries_in_first_90", kinds[:90].count("old"))
    assert kinds.count("old") == kinds.count("new") == 100
    # Servers check retries first in one receive of five, at random: 90 receives suffice.
    assert "old" in kinds[:90], "no failed message was delivered before all fresh ones"
    assert "new" in kinds[:90], "no fresh message was delivered before all failed ones"


async def _wait_for_limit(fixture: Fixture, consumer: Consumer, attempts: int) -> None:
    """Wait until the server's settings contain the new limit: a proxy may cache a group's settings for 20 s
    (R3.9)."""
    settings = requests.consumer_settings(
        consumer.group, {consumer.topic: "*"}, pb.ClientType.SIMPLE_CONSUMER
    )
    end = fixture.clock.now() + 60.0
    while (await consumer.client.send_settings(settings)).backoff_policy.max_attempts != attempts:
        assert fixture.clock.now() < end, "settings still have the old limit after 60 s"
        await fixture.clock.sleep(2.0)


@case("retry.limit-lowered", rules=("R5.26", "R7.5"), level=SHOULD, needs=("dlq",), timeout=150.0)
async def limit_lowered(fixture: Fixture) -> None:
    """When a group's limit is lowered below a message's attempt, the message is not redelivered."""
    topic, consumer = await fixture.subscribed(1, max_attempts=17)
    readers = await reading_group(fixture)
    (sent,) = await fixture.send(topic, "poison")
    deliveries = await exhaust(fixture, consumer, 2)
    third = await consumer.one(within=retry_within(fixture), poll=20.0, invisible=120.0)
    assert [one.attempt for one in [*deliveries, third]] == [1, 2, 3]
    await fixture.group(consumer.group, max_attempts=2)
    await _wait_for_limit(fixture, consumer, 2)
    await nack(consumer, third)
    await fixture.expect_nothing(consumer, QUIET_WINDOW, "three deliveries, a limit of two, and one more")
    reader = await dead_letter_reader(fixture, consumer, readers)
    (dead,) = await reader.take(1, within=2 * PROMPT)
    assert dead.id == sent.id


@case(
    "retry.delayed-and-tx",
    rules=("R7.1", "R7.2"),
    level=SHOULD,
    needs=("type.delay",),
    params={"DELAY": "DELAY"},
    timeout=90.0,
)
async def delayed_and_tx(fixture: Fixture, kind: str) -> None:
    """A {} message that fails is redelivered as attempt 2 after the requested time, without a second delay."""
    topic, consumer = await fixture.subscribed(1, type=kind)
    (sent,) = await fixture.send(topic, "m", deliver_at=fixture.clock.wall() + 3.0)
    first = await consumer.one(poll=20.0, within=fixture.number("delay.high") + PROMPT)
    await nack(consumer, first)
    second = await consumer.one(within=retry_within(fixture), poll=20.0)
    assert [(one.id, one.attempt) for one in (first, second)] == [(sent.id, 1), (sent.id, 2)]
    await consumer.ack(second)


@case("retry.suspend-not-counted", rules=("R6.15",), level=EXTENSION, needs=("suspend",), timeout=90.0)
async def suspend_not_counted(fixture: Fixture) -> None:
    """A message made visible again with the suspend flag is redelivered with the same attempt, unless its lease is
    changed without the flag afterwards; so is one at its last attempt."""
    for changes, attempt, limit in ((1, 1, 16), (2, 2, 16), (1, 1, 1)):
        topic, consumer = await fixture.subscribed(1, max_attempts=limit)
        await fixture.send(topic, "m")
        first = await consumer.one()
        response = await consumer.client.change_invisible(first, 1.0, suspend=True)
        assert code_of(response) == "OK"
        if changes == 2:
            response = await consumer.client.change_invisible(first, 1.0, handle=response.receipt_handle)
            assert code_of(response) == "OK"
        second = await consumer.one(within=retry_within(fixture) + SHORT_POLL, poll=20.0)
        assert (second.id, second.attempt) == (first.id, attempt), (
            f"{second} after {changes} changes, with {limit} attempts"
        )
        await consumer.ack(second)
