"""Progress of groups: where they start, continue, and are reset to, inventory 4.19.

Cases that reset a group use one queue, in which a message's offset is its number.
"""

from __future__ import annotations

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.nack import nack, retry_within
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

RESET = ("@reset",)
# Between two bursts, so that a time in between separates them on any clock.
GAP = 3.0
# Servers flush progress every few seconds: later changes may be lost (live-broker-consumption.md 8).
FLUSH = 6.0


def _bodies(count: int, stem: str = "m") -> list[str]:
    return [f"{stem}{n}" for n in range(count)]


async def _leave(consumer: Consumer) -> None:
    await consumer.client.close()


async def _back(fixture: Fixture, consumer: Consumer, *, client_id: str | None = None) -> Consumer:
    """Return a client of the same group after the first one left; with the given id."""
    if client_id is None:
        return await fixture.consumer(consumer.topic, group=consumer.group, prime=False)
    client = ProbeClient(fixture.target.endpoint, client_id, fixture.clock)
    fixture.stack.push_async_callback(client.close)
    await client.send_settings(
        requests.consumer_settings(consumer.group, {consumer.topic: "*"}, consumer.kind)
    )
    return Consumer(client, consumer.topic, consumer.group, "*", consumer.kind)


@case("offset.new-group-start", rules=("R10.3",), level=INFORMATIONAL)
async def new_group_start(fixture: Fixture) -> None:
    """Where a group starts that was created after 10 messages were stored is recorded."""
    topic = await fixture.topic(1)
    await fixture.send(topic, *_bodies(10))
    consumer = await fixture.consumer(topic, prime=False)
    others = await fixture.sentinel(consumer)
    fixture.note("found", len(others))


@case("offset.new-group-after-prime", rules=("R10.3", "R10.4"))
async def new_group_after_prime(fixture: Fixture) -> None:
    """A group that has received once gets everything that is sent afterwards."""
    topic, consumer = await fixture.subscribed()
    sent = await fixture.send_all(topic, _bodies(10))
    once_each(sent, await consumer.take(10))


async def _resumed(fixture: Fixture, *, same_client: bool) -> None:
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, _bodies(10))
    await consumer.take(10)
    await _leave(consumer)
    sent = await fixture.send_all(topic, _bodies(10, "later"))
    after = await _back(fixture, consumer, client_id=consumer.client.client_id if same_client else None)
    deliveries = await after.take(10)
    deliveries += await fixture.deliveries_within(after, SHORT_POLL)
    once_each(sent, deliveries)


@case("offset.resume", rules=("R10.4", "R10.5"))
async def resume(fixture: Fixture) -> None:
    """A consumer that returns receives what was sent in its absence, and nothing again."""
    await _resumed(fixture, same_client=True)


@case("offset.resume-other-client", rules=("R10.4", "R10.5"))
async def resume_other_client(fixture: Fixture) -> None:
    """Progress belongs to the group: another client continues where the first one stopped."""
    await _resumed(fixture, same_client=False)


@case("offset.resume-unacked", rules=("R10.4", "R7.1"), timeout=120.0)
async def resume_unacked(fixture: Fixture) -> None:
    """Of ten received messages the six that were not acked are redelivered as attempt 2, to any client of the
    group."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(10))
    leased = await consumer.take(10, invisible=10.0, settle=False)
    await consumer.ack(*leased[:4])
    await consumer.client.disconnect()
    consumer.deliveries.clear()
    after = await _back(fixture, consumer)
    within = 10.0 + fixture.number("revive.high") + PROMPT
    deliveries = await after.take(6, within=within, poll=20.0)
    assert sorted(one.id for one in deliveries) == sorted(one.id for one in leased[4:])
    assert {one.attempt for one in deliveries} == {2}


# Reset of progress


async def _bursts(
    fixture: Fixture, topic: str, first: int, second: int
) -> tuple[list[Sent], float, list[Sent]]:
    """Send two bursts of messages with a pause between them; return both and a time in that pause."""
    before = await fixture.send(topic, *_bodies(first, "first"))
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    return before, middle, await fixture.send(topic, *_bodies(second, "second"))


@case("offset.reset-back-time", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_back_time(fixture: Fixture) -> None:
    """A group that is reset to a time before ten messages it has consumed receives them again."""
    topic, consumer = await fixture.subscribed(1)
    before = fixture.clock.wall()
    sent = await fixture.send(topic, *_bodies(10))
    await consumer.take(10)
    await fixture.target.admin.reset_offset(consumer.group, topic, before - 1.0)
    once_each(sent, await consumer.take(10, within=2 * PROMPT))


@case("offset.reset-forward", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_forward(fixture: Fixture) -> None:
    """A group that is reset to the present skips its backlog, and receives everything that is sent later."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(30))
    await fixture.clock.sleep(GAP)
    await fixture.target.admin.reset_offset(consumer.group, topic, fixture.clock.wall())
    assert await fixture.sentinel(consumer) == []


@case("offset.reset-middle", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_middle(fixture: Fixture) -> None:
    """A group that is reset to a time between two bursts receives the second one from every queue, as exactly as
    declared, whatever it had received before."""
    queues = 5
    for received in (0, 13):
        topic, consumer = await fixture.subscribed(queues)
        _, middle, second = await _bursts(fixture, topic, 20, 20)
        await consumer.take(received, batch=1)
        await fixture.target.admin.reset_offset(consumer.group, topic, middle)
        deliveries = await fixture.deliveries_within(consumer, PROMPT)
        expected, got = {one.id for one in second}, {one.id for one in deliveries}
        wrong = len(expected ^ got)
        assert wrong <= queues * fixture.number("offset.slack"), (
            f"{len(got)} messages, {len(expected & got)} of the second burst"
        )


@case("offset.reset-inflight-ack", rules=("R10.6",), level=SHOULD, needs=RESET, timeout=120.0)
async def reset_inflight_ack(fixture: Fixture) -> None:
    """Acks of messages in flight before a reset to an earlier time do not affect their redelivery; those of another
    topic are as good as before."""
    topic, consumer = await fixture.subscribed(1)
    other = await fixture.consumer(await fixture.topic(1), group=consumer.group)
    await fixture.send(other.topic, "kept")
    kept = await other.one()
    _, middle, second = await _bursts(fixture, topic, 4, 6)
    leased = await consumer.take(10, settle=False)
    await fixture.target.admin.reset_offset(consumer.group, topic, middle)
    await other.ack(kept)
    # Servers may accept or refuse these (consumption 7).
    await consumer.client.ack(topic, consumer.group, *leased)
    deliveries = await consumer.take(6, within=2 * PROMPT)
    deliveries += await fixture.deliveries_within(consumer, LEASE + fixture.number("revive.high"))
    second_ids = {one.id for one in second}
    assert second_ids <= {one.id for one in deliveries}, f"{len(deliveries)} of 6 were redelivered"
    once_each(second, deliveries)


async def _ordered(fixture: Fixture) -> tuple[str, Consumer]:
    topic = await fixture.topic(1, type="FIFO")
    return topic, await fixture.consumer(topic, ordered=True)


async def _grouped(fixture: Fixture, topic: str, count: int, stem: str) -> None:
    await fixture.send(topic, *_bodies(count, stem), group="g")


@case("offset.reset-ordered", rules=("R8.20", "R10.6"), level=SHOULD, needs=(*RESET, "type.fifo"))
async def reset_ordered(fixture: Fixture) -> None:
    """An ordered group that is reset is not blocked by its in-flight batch, and continues in order."""
    topic, consumer = await _ordered(fixture)
    await _grouped(fixture, topic, 2, "first")
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    await _grouped(fixture, topic, 8, "second")
    await consumer.take(1, invisible=60.0, settle=False)
    await fixture.target.admin.reset_offset(consumer.group, topic, middle)
    deliveries = await consumer.take(8, within=2 * PROMPT)
    assert [one.text for one in deliveries] == _bodies(8, "second")


@case("offset.reset-attempts-ordered", rules=("R8.20", "R8.13"), level=SHOULD, needs=(*RESET, "type.fifo"))
async def reset_attempts_ordered(fixture: Fixture) -> None:
    """An ordered group that is reset receives all from there as attempt 1, whatever was in flight or had failed."""
    topic, consumer = await _ordered(fixture)
    before = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    await _grouped(fixture, topic, 3, "m")
    failed = await consumer.one()
    for _ in range(2):
        await nack(consumer, failed)
        failed = await consumer.one(invisible=60.0, within=retry_within(fixture))
    assert failed.attempt == 3
    await fixture.target.admin.reset_offset(consumer.group, topic, before)
    deliveries = [one for _ in range(3) for one in await consumer.take(1, batch=1, within=2 * PROMPT)]
    assert [(one.text, one.attempt) for one in deliveries] == [(text, 1) for text in _bodies(3, "m")]


@case("offset.reset-future-ordered", rules=("R8.20", "R10.6"), level=SHOULD, needs=(*RESET, "type.fifo"))
async def reset_future_ordered(fixture: Fixture) -> None:
    """An ordered group that is reset past its backlog receives the next message, and nothing of its in-flight
    batch."""
    topic, consumer = await _ordered(fixture)
    await _grouped(fixture, topic, 10, "old")
    await consumer.take(1, invisible=60.0, settle=False)
    await fixture.target.admin.reset_offset(consumer.group, topic, "end")
    assert await fixture.sentinel(consumer, sentinel={"group": "g"}) == []


@case("offset.reset-repeat", rules=("R10.6",), level=SHOULD, needs=RESET)
async def reset_repeat(fixture: Fixture) -> None:
    """Of three resets in a row the last one counts."""
    topic, consumer = await fixture.subscribed(1)
    _, middle, second = await _bursts(fixture, topic, 5, 5)
    for place in ("end", "beginning", middle):
        await fixture.target.admin.reset_offset(consumer.group, topic, place)
    deliveries = await fixture.sentinel(consumer)
    assert len({one.id for one in second} ^ {one.id for one in deliveries}) <= 1, (
        f"{len(deliveries)} messages, not 5"
    )


@case("offset.reset-one-group", rules=("R10.6",), needs=RESET)
async def reset_one_group(fixture: Fixture) -> None:
    """A reset of one group does not affect others."""
    topic = await fixture.topic(1)
    moved = await fixture.consumer(topic)
    other = await fixture.consumer(topic)
    sent = await fixture.send(topic, *_bodies(10))
    for consumer in (moved, other):
        await consumer.take(10)
    await fixture.target.admin.reset_offset(moved.group, topic, "beginning")
    once_each(sent, await moved.take(10, within=2 * PROMPT))
    await fixture.expect_nothing(other, SHORT_POLL)


@case("offset.reset-not-retry", rules=("R10.6",), level=INFORMATIONAL, needs=RESET, timeout=120.0)
async def reset_not_retry(fixture: Fixture) -> None:
    """Whether messages that wait for a retry are delivered after a reset past them is recorded."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "waits")
    first = await consumer.one(invisible=10.0)
    await fixture.target.admin.reset_offset(consumer.group, topic, "end")
    deliveries = await fixture.deliveries_within(consumer, 10.0 + QUIET_WINDOW)
    fixture.note("delivered", first.id in {one.id for one in deliveries})


# Lag, and restarts


@case("offset.lag-zero", rules=("R10.4",), level=SHOULD, needs=("@lag",))
async def lag_zero(fixture: Fixture) -> None:
    """A group that has acked everything has no lag and nothing in flight."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, _bodies(10))
    await consumer.take(10)
    assert await fixture.target.admin.lag(consumer.group, topic) == (0, 0)


@case("offset.lag-counts", rules=("R10.4",), level=SHOULD, needs=("@lag",))
async def lag_counts(fixture: Fixture) -> None:
    """Three messages in flight and seven not yet received are counted as such, also in queues not read so far."""
    topic, group = await fixture.topic(5), await fixture.group()
    await fixture.send_all(topic, _bodies(10))
    consumer = await fixture.consumer(topic, group=group, prime=False)
    leased: list[Delivery] = await consumer.take(3, batch=3, settle=False)
    assert await fixture.target.admin.lag(consumer.group, topic) == (7, 3)
    await consumer.ack(*leased)


@case("offset.lag-filtered", rules=("R10.4",), level=SHOULD, needs=("@lag", "type.fifo"))
async def lag_filtered(fixture: Fixture) -> None:
    """What a filter of an ordered group has left out does not count as lag once all that is wanted is acked."""
    topic = await fixture.topic(1, type="FIFO")
    group = await fixture.group(ordered=True)
    consumer = await fixture.consumer(topic, group=group, prime=False, expression="a")
    for number, tag in enumerate("abab"):
        await fixture.send(topic, f"m{number}", tag=tag, group="mg")
    await consumer.take(2)
    await consumer.receive(poll=SHORT_POLL)
    waiting, in_flight = await fixture.target.admin.lag(group, topic)
    assert (waiting, in_flight) == (0, 0), f"a lag of {waiting}, and {in_flight} in flight"


@case("offset.restart", rules=("R10.4", "R12.7"), needs=("@restart",), timeout=400.0)
async def restart(fixture: Fixture) -> None:
    """After a restart no message acked before the last flush is redelivered, and none is lost."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(50))
    lease = 30.0 + fixture.number("restart.high")
    acked = await consumer.take(20, batch=20)
    leased = await consumer.take(30, batch=30, invisible=lease, settle=False)
    consumer.deliveries.clear()
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _back(fixture, consumer)
    within = lease + fixture.number("revive.high") + 2 * PROMPT
    deliveries = await after.take(30, within=within, poll=20.0)
    assert not {one.id for one in acked} & {one.id for one in deliveries}, "an acked message was redelivered"
    assert {one.id for one in leased} == {one.id for one in deliveries}
