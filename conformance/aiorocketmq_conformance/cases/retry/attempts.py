"""The retry state machine of a group that is not ordered: inventory 4.10."""

from __future__ import annotations

from collections import defaultdict

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_reader, reading_group
from aiorocketmq_conformance.cases.shared.nack import nack, retry_within
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, expiry_window


@case("retry.attempt-steps", rules=("R7.2",), timeout=120.0)
async def attempt_steps(fixture: Fixture) -> None:
    """A message that is repeatedly made visible again is delivered as attempt 1, 2, 3, 4."""
    topic, consumer = await fixture.subscribed()
    await fixture.send(topic, "m")
    attempts = []
    for _ in range(4):
        delivery = await consumer.one(within=retry_within(fixture), poll=20.0)
        attempts.append(delivery.attempt)
        await nack(consumer, delivery)
    await consumer.ack(await consumer.one(within=retry_within(fixture), poll=20.0))
    assert attempts == [1, 2, 3, 4]


def _content(one: Delivery) -> dict[str, object]:
    system = one.message.system_properties
    return {
        "id": one.id,
        "topic": one.topic,
        "body": one.body,
        "tag": system.tag,
        "keys": list(system.keys),
        "properties": dict(one.message.user_properties),
        "born": (one.born_at, system.born_host),
        "message group": system.message_group,
        "type": pb.MessageType.Name(system.message_type),
        "digest": (system.body_digest.type, system.body_digest.checksum),
    }


@case("retry.identity", rules=("R7.1",), needs=("type.fifo",), params={"plain": None, "grouped": "mg"})
async def identity(fixture: Fixture, message_group: str | None) -> None:
    """A redelivered ({}) message has the same id, body, tag, keys, properties, born time and message group."""
    topic, consumer = await fixture.subscribed(1, type="FIFO" if message_group else "NORMAL")
    await fixture.send(
        topic, "the body", tag="t", keys=["k1", "k2"], properties={"a": "1", "b": "值"}, group=message_group
    )
    first = await consumer.one()
    await nack(consumer, first)
    second = await consumer.one(within=retry_within(fixture), poll=20.0)
    await consumer.ack(second)
    assert second.attempt == 2
    assert _content(second) == _content(first)


@case("retry.topic-name-hidden", rules=("R7.1", "R5.6"))
async def topic_name_hidden(fixture: Fixture) -> None:
    """A redelivery has the original topic, not a retry topic."""
    topic, consumer = await fixture.subscribed()
    await fixture.send(topic, "m")
    await nack(consumer, await consumer.one())
    second = await consumer.one(within=retry_within(fixture), poll=20.0)
    await consumer.ack(second)
    assert (second.attempt, second.topic) == (2, topic)


@case(
    "retry.total-attempts",
    rules=("R5.26", "R7.5"),
    needs=("dlq",),
    params={"0": 0, "1": 1, "3": 3},
    timeout=180.0,
)
async def total_attempts(fixture: Fixture, retries: int) -> None:
    """In a group with {} retries a message that always fails is delivered once more than that, then it is a dead
    letter."""
    topic, consumer = await fixture.subscribed(1, max_attempts=retries + 1)
    readers = await reading_group(fixture)
    (sent,) = await fixture.send(topic, "poison")
    attempts = []
    for _ in range(retries + 1):
        delivery = await consumer.one(within=retry_within(fixture), poll=20.0)
        attempts.append(delivery.attempt)
        await nack(consumer, delivery)
    assert attempts == list(range(1, retries + 2))
    more = await fixture.deliveries_within(consumer, QUIET_WINDOW)
    assert not more, f"after {retries + 1} deliveries there was {more}"
    reader = await dead_letter_reader(fixture, consumer, readers)
    dead = await reader.one(within=2 * PROMPT)
    await reader.ack(dead)
    assert (dead.id, dead.body) == (sent.id, b"poison")


@case("retry.success-ends", rules=("R6.8",), timeout=120.0)
async def success_ends(fixture: Fixture) -> None:
    """A message that was acked at attempt 2 is not delivered a third time."""
    topic, consumer = await fixture.subscribed()
    await fixture.send(topic, "m")
    await nack(consumer, await consumer.one())
    second = await consumer.one(within=retry_within(fixture), poll=20.0, invisible=10.0)
    assert second.attempt == 2
    await consumer.ack(second)
    await fixture.expect_settled(consumer, 10.0, "acked at attempt 2")


@case("retry.expiry-counts", rules=("R7.2",), timeout=90.0)
async def expiry_counts(fixture: Fixture) -> None:
    """Each expired lease increments the attempt by one."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    within = expiry_window(fixture.target, 10.0).high + PROMPT
    deliveries = [await consumer.one(invisible=10.0, within=within, poll=20.0) for _ in range(3)]
    await consumer.ack(deliveries[-1])
    assert [one.attempt for one in deliveries] == [1, 2, 3]


@case("retry.nack-counts", rules=("R7.2", "R6.16"))
async def nack_counts(fixture: Fixture) -> None:
    """A change to 0 s increments the attempt by one."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one()
    await nack(consumer, first)
    second = await consumer.one(within=retry_within(fixture), poll=20.0)
    await consumer.ack(second)
    assert (first.attempt, second.attempt) == (1, 2)


@case("retry.others-flow", rules=("R5.9", "R5.12"), timeout=90.0)
async def others_flow(fixture: Fixture) -> None:
    """While one message of a queue fails repeatedly, fifty others are delivered and acked."""
    topic, consumer = await fixture.subscribed(1)
    (poison,) = await fixture.send(topic, "poison")
    leased = await consumer.one(invisible=60.0)
    first_half = await fixture.send(topic, *(f"m{n}" for n in range(25)))
    deliveries = await consumer.take(25, batch=8, within=30.0)
    assert fixture.clock.now() < leased.at + 60.0, "the others were delivered only after the message's lease"
    done = {one.id for one in deliveries}
    assert done == {one.id for one in first_half}
    await nack(consumer, leased)
    good = first_half + await fixture.send(topic, *(f"m{n}" for n in range(25, 50)))
    attempts = [leased.attempt]
    end = fixture.clock.now() + 2 * retry_within(fixture)
    while (len(done) < 50 or len(attempts) < 3) and fixture.clock.now() < end:
        answer = await consumer.receive(batch=8)
        for one in answer.deliveries:
            if one.id == poison.id:
                attempts.append(one.attempt)
                await nack(consumer, one)
            else:
                done.add(one.id)
                await consumer.ack(one)
    assert done == {one.id for one in good}, f"{50 - len(done)} of 50 did not get past a failing message"
    assert attempts[:3] == [1, 2, 3], "the failing message was not redelivered"


@case("retry.per-group", rules=("R7.2", "R10.1"), timeout=90.0)
async def per_group(fixture: Fixture) -> None:
    """Failures in one group do not affect another, which receives attempt 1, once."""
    topic = await fixture.topic(1)
    failing, other = await fixture.consumer(topic), await fixture.consumer(topic)
    (sent,) = await fixture.send(topic, "m")
    for _ in range(2):
        await nack(failing, await failing.one(within=retry_within(fixture), poll=20.0))
    deliveries = await other.take(1)
    assert [(one.id, one.attempt) for one in deliveries] == [(sent.id, 1)]
    third = await failing.one(within=retry_within(fixture), poll=20.0)
    await failing.ack(third)
    assert third.attempt == 3
    await fixture.expect_nothing(other, SHORT_POLL, "another group's failures were delivered here")


@case("retry.filter-kept", rules=("R5.22",), timeout=90.0)
async def filter_kept(fixture: Fixture) -> None:
    """Tag filters apply to redeliveries as to first deliveries."""
    topic, consumer = await fixture.subscribed(1, expression="wanted || also")
    (unwanted,) = await fixture.send(topic, "no", tag="unwanted")
    (matching,) = await fixture.send(topic, "yes", tag="wanted")
    first = await consumer.one()
    assert first.id == matching.id
    await nack(consumer, first)
    second = await consumer.one(within=retry_within(fixture), poll=20.0)
    assert (second.id, second.attempt) == (matching.id, 2)
    assert second.message.system_properties.tag == "wanted"
    await nack(consumer, second)
    # A consumer of the same group with another filter must not receive messages that wait for a retry.
    stranger = await fixture.consumer(topic, group=consumer.group, expression="other", prime=False)
    await fixture.expect_nothing(
        stranger, _stranger_window(fixture), "delivered against the filter", sentinel={"tag": "other"}
    )
    assert unwanted.id not in {one.id for one in consumer.deliveries}


def _stranger_window(fixture: Fixture) -> float:
    return max(SHORT_POLL, fixture.number("nack.high"))


@case("retry.no-regress", rules=("R7.2", "R7.3"), timeout=120.0)
async def no_regress(fixture: Fixture) -> None:
    """With any mix of nacks and expired leases attempts count each message's deliveries in each group."""
    topic = await fixture.topic()
    groups = [await fixture.consumer(topic), await fixture.consumer(topic)]
    sent = await fixture.send(topic, *(f"m{n}" for n in range(8)))
    number = {one.id: n for n, one in enumerate(sent)}
    end = fixture.clock.now() + 10.0 + 3 * fixture.number("revive.high") + 2 * PROMPT
    for offset, consumer in enumerate(groups):
        done: set[str] = set()
        while len(done) < 8 and fixture.clock.now() < end:
            for one in (await consumer.receive(batch=3, invisible=10.0)).deliveries:
                match (number[one.id] + offset + one.attempt) % 3:
                    case 0:
                        await nack(consumer, one)
                    case 1 if one.attempt < 3:
                        pass  # its lease expires
                    case _:
                        await consumer.ack(one)
                        done.add(one.id)
        history: dict[str, list[int]] = defaultdict(list)
        for one in consumer.deliveries:
            history[one.id].append(one.attempt)
        assert len(done) == 8, f"{8 - len(done)} of 8 messages were not delivered until done"
        for attempts in history.values():
            assert attempts == list(range(1, len(attempts) + 1)), f"attempts {attempts}"
        fixture.note(f"deliveries_{offset}", sum(map(len, history.values())))
