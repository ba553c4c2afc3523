"""Progress of groups: where they begin, go on, and are moved to, inventory 4.19.

Cases that move a group use one queue, in which a message's place is its number.
"""

from __future__ import annotations

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

RESET = ("@reset",)
# Between two bursts, so that a time in the middle separates them on any clock.
GAP = 3.0
# Servers flush progress every few seconds: what is younger may be forgotten (live-broker-consumption.md 8).
FLUSH = 6.0


def _bodies(count: int, stem: str = "m") -> list[str]:
    return [f"{stem}{n}" for n in range(count)]


async def _leave(consumer: Consumer) -> None:
    await consumer.client.close()


async def _back(fixture: Fixture, consumer: Consumer, *, client_id: str | None = None) -> Consumer:
    """A client of the same group after the first one left; with the same id where one is given."""
    if client_id is None:
        return await fixture.consumer(consumer.topic, group=consumer.group, prime=False)
    client = ProbeClient(fixture.target.endpoint, client_id, fixture.clock)
    fixture.stack.push_async_callback(client.close)
    await client.present(requests.consumer_settings(consumer.group, {consumer.topic: "*"}, consumer.kind))
    return Consumer(client, consumer.topic, consumer.group, "*", consumer.kind)


@case("offset.new-group-start", rules=("R10.3",), level=INFORMATIONAL)
async def new_group_start(fixture: Fixture) -> None:
    """Where a group begins that was made after 10 messages were stored."""
    topic = await fixture.topic(1)
    await fixture.send(topic, *_bodies(10))
    consumer = await fixture.consumer(topic, prime=False)
    beside = await fixture.sentinel(consumer)
    fixture.note("found", len(beside))


@case("offset.new-group-after-prime", rules=("R10.3", "R10.4"))
async def new_group_after_prime(fixture: Fixture) -> None:
    """A group that has asked once gets everything that is sent afterwards."""
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
    seen = await after.take(10)
    seen += await fixture.deliveries_within(after, SHORT_POLL)
    once_each(sent, seen)


@case("offset.resume", rules=("R10.4", "R10.5"))
async def resume(fixture: Fixture) -> None:
    """A consumer that comes back gets what was sent while it was away, and nothing again."""
    await _resumed(fixture, same_client=True)


@case("offset.resume-other-client", rules=("R10.4", "R10.5"))
async def resume_other_client(fixture: Fixture) -> None:
    """Progress belongs to the group: another client goes on where the first one stopped."""
    await _resumed(fixture, same_client=False)


@case("offset.resume-unacked", rules=("R10.4", "R7.1"), timeout=120.0)
async def resume_unacked(fixture: Fixture) -> None:
    """Of ten messages received the six that were not acked come again as attempt 2, to whoever asks."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(10))
    held = await consumer.take(10, invisible=10.0, settle=False)
    await consumer.ack(*held[:4])
    await consumer.client.vanish()
    consumer.seen.clear()
    after = await _back(fixture, consumer)
    within = 10.0 + fixture.number("revive.high") + PROMPT
    seen = await after.take(6, within=within, poll=20.0)
    assert sorted(one.id for one in seen) == sorted(one.id for one in held[4:])
    assert {one.attempt for one in seen} == {2}


# Moving a group


async def _bursts(
    fixture: Fixture, topic: str, first: int, second: int
) -> tuple[list[Sent], float, list[Sent]]:
    """Two bursts of messages with a pause between them, and a time in that pause."""
    before = await fixture.send(topic, *_bodies(first, "first"))
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    return before, middle, await fixture.send(topic, *_bodies(second, "second"))


@case("offset.reset-back-time", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_back_time(fixture: Fixture) -> None:
    """A group that is moved to a time before ten messages it has consumed gets them again."""
    topic, consumer = await fixture.subscribed(1)
    before = fixture.clock.wall()
    sent = await fixture.send(topic, *_bodies(10))
    await consumer.take(10)
    await fixture.target.reset_offset(consumer.group, topic, before - 1.0)
    once_each(sent, await consumer.take(10, within=2 * PROMPT))


@case("offset.reset-forward", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_forward(fixture: Fixture) -> None:
    """A group that is moved to now gets nothing of its backlog, and everything that comes."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(30))
    await fixture.clock.sleep(GAP)
    await fixture.target.reset_offset(consumer.group, topic, fixture.clock.wall())
    assert await fixture.sentinel(consumer) == []


@case("offset.reset-middle", rules=("R10.6", "R10.7"), level=SHOULD, needs=RESET)
async def reset_middle(fixture: Fixture) -> None:
    """A group that is moved to a time between two bursts gets the second one, at most one message more or less."""
    topic, consumer = await fixture.subscribed(1)
    _, middle, second = await _bursts(fixture, topic, 10, 10)
    await fixture.target.reset_offset(consumer.group, topic, middle)
    seen = await fixture.sentinel(consumer)
    expected, got = {one.id for one in second}, {one.id for one in seen}
    assert len(expected ^ got) <= 1, f"{len(got)} messages, {len(expected & got)} of the second burst"


@case("offset.reset-inflight-ack", rules=("R10.6",), level=SHOULD, needs=RESET, timeout=120.0)
async def reset_inflight_ack(fixture: Fixture) -> None:
    """Acks of what was in flight before a move back take nothing of what is read again."""
    topic, consumer = await fixture.subscribed(1)
    _, middle, second = await _bursts(fixture, topic, 4, 6)
    held = await consumer.take(10, settle=False)
    await fixture.target.reset_offset(consumer.group, topic, middle)
    # Whether these are OK or refused is the server's choice (consumption 7).
    await consumer.client.ack(topic, consumer.group, *held)
    seen = await consumer.take(6, within=2 * PROMPT)
    seen += await fixture.deliveries_within(consumer, LEASE + fixture.number("revive.high"))
    again = {one.id for one in second}
    assert again <= {one.id for one in seen}, f"{len(seen)} of 6 were read again"
    once_each(second, seen)


async def _ordered(fixture: Fixture) -> tuple[str, Consumer]:
    topic = await fixture.topic(1, type="FIFO")
    return topic, await fixture.consumer(topic, ordered=True)


async def _grouped(fixture: Fixture, topic: str, count: int, stem: str) -> None:
    await fixture.send(topic, *_bodies(count, stem), group="g")


@case("offset.reset-ordered", rules=("R8.20", "R10.6"), level=SHOULD, needs=(*RESET, "type.fifo"))
async def reset_ordered(fixture: Fixture) -> None:
    """An ordered group that is moved is not blocked by the batch in flight, and reads on in order."""
    topic, consumer = await _ordered(fixture)
    await _grouped(fixture, topic, 2, "first")
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    await _grouped(fixture, topic, 8, "second")
    await consumer.take(1, invisible=60.0, settle=False)
    await fixture.target.reset_offset(consumer.group, topic, middle)
    seen = await consumer.take(8, within=2 * PROMPT)
    assert [one.text for one in seen] == _bodies(8, "second")


@case("offset.reset-future-ordered", rules=("R8.20", "R10.6"), level=SHOULD, needs=(*RESET, "type.fifo"))
async def reset_future_ordered(fixture: Fixture) -> None:
    """An ordered group that is moved past its backlog gets the next message, and nothing of the batch in flight."""
    topic, consumer = await _ordered(fixture)
    await _grouped(fixture, topic, 10, "old")
    await consumer.take(1, invisible=60.0, settle=False)
    await fixture.target.reset_offset(consumer.group, topic, "end")
    assert await fixture.sentinel(consumer, sentinel={"group": "g"}) == []


@case("offset.reset-repeat", rules=("R10.6",), level=SHOULD, needs=RESET)
async def reset_repeat(fixture: Fixture) -> None:
    """Of three moves in a row the last one counts."""
    topic, consumer = await fixture.subscribed(1)
    _, middle, second = await _bursts(fixture, topic, 5, 5)
    for place in ("end", "beginning", middle):
        await fixture.target.reset_offset(consumer.group, topic, place)
    seen = await fixture.sentinel(consumer)
    assert len({one.id for one in second} ^ {one.id for one in seen}) <= 1, f"{len(seen)} messages, not 5"


@case("offset.reset-one-group", rules=("R10.6",), needs=RESET)
async def reset_one_group(fixture: Fixture) -> None:
    """Moving one group moves no other."""
    topic = await fixture.topic(1)
    moved = await fixture.consumer(topic)
    other = await fixture.consumer(topic)
    sent = await fixture.send(topic, *_bodies(10))
    for consumer in (moved, other):
        await consumer.take(10)
    await fixture.target.reset_offset(moved.group, topic, "beginning")
    once_each(sent, await moved.take(10, within=2 * PROMPT))
    await fixture.expect_nothing(other, SHORT_POLL)


@case("offset.reset-not-retry", rules=("R10.6",), level=INFORMATIONAL, needs=RESET, timeout=120.0)
async def reset_not_retry(fixture: Fixture) -> None:
    """Whether messages that wait for their next attempt still come when the group was moved past them."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "waits")
    first = await consumer.one(invisible=10.0)
    await fixture.target.reset_offset(consumer.group, topic, "end")
    seen = await fixture.deliveries_within(consumer, 10.0 + QUIET_WINDOW)
    fixture.note("came", first.id in {one.id for one in seen})


# Lag, and what outlives a restart


@case("offset.lag-zero", rules=("R10.4",), level=SHOULD, needs=("@lag",))
async def lag_zero(fixture: Fixture) -> None:
    """A group that has acked everything has nothing before it and nothing in flight."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, _bodies(10))
    await consumer.take(10)
    assert await fixture.target.lag(consumer.group, topic) == (0, 0)


@case("offset.lag-counts", rules=("R10.4",), level=SHOULD, needs=("@lag",))
async def lag_counts(fixture: Fixture) -> None:
    """Three messages in flight and seven not yet read are told as that."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(10))
    held: list[Delivery] = await consumer.take(3, batch=3, settle=False)
    assert await fixture.target.lag(consumer.group, topic) == (7, 3)
    await consumer.ack(*held)


@case("offset.restart", rules=("R10.4", "R12.7"), needs=("@restart",), timeout=400.0)
async def restart(fixture: Fixture) -> None:
    """After a restart nothing that was acked before the last flush comes again, and nothing is lost."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send_all(topic, _bodies(50))
    lease = 30.0 + fixture.number("restart.high")
    acked = await consumer.take(20, batch=20)
    held = await consumer.take(30, batch=30, invisible=lease, settle=False)
    consumer.seen.clear()
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _back(fixture, consumer)
    within = lease + fixture.number("revive.high") + 2 * PROMPT
    seen = await after.take(30, within=within, poll=20.0)
    assert not {one.id for one in acked} & {one.id for one in seen}, "what was acked came again"
    assert {one.id for one in held} == {one.id for one in seen}
