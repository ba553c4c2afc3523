"""Progress of groups: where they begin, go on, and are moved to, inventory 4.19.

Cases that move a group use one queue, in which a message's place is its number.
"""

from __future__ import annotations

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.fixture import LEASE, SHORT_POLL, Consumer, Sent, Stage, on_stage, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

PREPARED = ("@topic", "@group")
RESET = (*PREPARED, "@reset")
# Between two bursts, so that a time in the middle separates them on any clock.
GAP = 3.0
# Servers flush progress every few seconds: what is younger may be forgotten (live-broker-consumption.md 8).
FLUSH = 6.0


def _bodies(count: int, stem: str = "m") -> list[str]:
    return [f"{stem}{n}" for n in range(count)]


async def _leave(consumer: Consumer) -> None:
    await consumer.client.close()


async def _back(stage: Stage, consumer: Consumer, *, client_id: str | None = None) -> Consumer:
    """A client of the same group after the first one left; with the same id where one is given."""
    if client_id is None:
        return await stage.consumer(consumer.topic, group=consumer.group, prime=False)
    client = ProbeClient(stage.target.endpoint, client_id, stage.clock)
    stage.stack.push_async_callback(client.close)
    await client.present(requests.consumer_settings(consumer.group, {consumer.topic: "*"}, consumer.kind))
    return Consumer(client, consumer.topic, consumer.group, "*", consumer.kind)


@case("offset.new-group-start", rules=("R10.3",), level=Level.INFORMATIONAL, needs=PREPARED)
@on_stage
async def new_group_start(stage: Stage) -> None:
    """Where a group begins that was made after 10 messages were stored."""
    topic = await stage.topic(1)
    await stage.send(topic, *_bodies(10))
    consumer = await stage.consumer(topic, prime=False)
    beside = await stage.sentinel(consumer)
    stage.target.note("found", len(beside))


@case("offset.new-group-after-prime", rules=("R10.3", "R10.4"), needs=PREPARED)
@on_stage
async def new_group_after_prime(stage: Stage) -> None:
    """A group that has asked once gets everything that is sent afterwards."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    sent = await stage.send_all(topic, _bodies(10))
    once_each(sent, await consumer.take(10))


async def _resumed(stage: Stage, *, same_client: bool) -> None:
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(10))
    await consumer.take(10)
    await _leave(consumer)
    sent = await stage.send_all(topic, _bodies(10, "later"))
    after = await _back(stage, consumer, client_id=consumer.client.client_id if same_client else None)
    seen = await after.take(10)
    seen += await stage.nothing_but(after, SHORT_POLL)
    once_each(sent, seen)


@case("offset.resume", rules=("R10.4", "R10.5"), needs=PREPARED)
@on_stage
async def resume(stage: Stage) -> None:
    """A consumer that comes back gets what was sent while it was away, and nothing again."""
    await _resumed(stage, same_client=True)


@case("offset.resume-other-client", rules=("R10.4", "R10.5"), needs=PREPARED)
@on_stage
async def resume_other_client(stage: Stage) -> None:
    """Progress belongs to the group: another client goes on where the first one stopped."""
    await _resumed(stage, same_client=False)


@case("offset.resume-unacked", rules=("R10.4", "R7.1"), needs=PREPARED, timeout=120.0)
@on_stage
async def resume_unacked(stage: Stage) -> None:
    """Of ten messages received the six that were not acked come again as attempt 2, to whoever asks."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(10))
    held = await consumer.take(10, invisible=10.0, settle=False)
    await consumer.ack(*held[:4])
    await consumer.client.vanish()
    consumer.seen.clear()
    after = await _back(stage, consumer)
    within = 10.0 + stage.target.number("revive.high") + PROMPT
    seen = await after.take(6, within=within, poll=20.0)
    assert sorted(one.id for one in seen) == sorted(one.id for one in held[4:])
    assert {one.attempt for one in seen} == {2}


# Moving a group


async def _bursts(stage: Stage, topic: str, first: int, second: int) -> tuple[list[Sent], float, list[Sent]]:
    """Two bursts of messages with a pause between them, and a time in that pause."""
    before = await stage.send(topic, *_bodies(first, "first"))
    await stage.clock.sleep(GAP / 2)
    middle = stage.clock.wall()
    await stage.clock.sleep(GAP / 2)
    return before, middle, await stage.send(topic, *_bodies(second, "second"))


@case("offset.reset-back-time", rules=("R10.6", "R10.7"), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_back_time(stage: Stage) -> None:
    """A group that is moved to a time before ten messages it has consumed gets them again."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    before = stage.clock.wall()
    sent = await stage.send(topic, *_bodies(10))
    await consumer.take(10)
    await stage.target.reset_offset(consumer.group, topic, before - 1.0)
    once_each(sent, await consumer.take(10, within=2 * PROMPT))


@case("offset.reset-forward", rules=("R10.6", "R10.7"), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_forward(stage: Stage) -> None:
    """A group that is moved to now gets nothing of its backlog, and everything that comes."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(30))
    await stage.clock.sleep(GAP)
    await stage.target.reset_offset(consumer.group, topic, stage.clock.wall())
    assert await stage.sentinel(consumer) == []


@case("offset.reset-middle", rules=("R10.6", "R10.7"), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_middle(stage: Stage) -> None:
    """A group that is moved to a time between two bursts gets the second one, at most one message more or less."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    _, middle, second = await _bursts(stage, topic, 10, 10)
    await stage.target.reset_offset(consumer.group, topic, middle)
    seen = await stage.sentinel(consumer)
    expected, got = {one.id for one in second}, {one.id for one in seen}
    assert len(expected ^ got) <= 1, f"{len(got)} messages, {len(expected & got)} of the second burst"


@case("offset.reset-inflight-ack", rules=("R10.6",), level=Level.SHOULD, needs=RESET, timeout=120.0)
@on_stage
async def reset_inflight_ack(stage: Stage) -> None:
    """Acks of what was in flight before a move back take nothing of what is read again."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    _, middle, second = await _bursts(stage, topic, 4, 6)
    held = await consumer.take(10, settle=False)
    await stage.target.reset_offset(consumer.group, topic, middle)
    # Whether these are OK or refused is the server's choice (consumption 7).
    await consumer.client.ack(topic, consumer.group, *held)
    seen = await consumer.take(6, within=2 * PROMPT)
    seen += await stage.nothing_but(consumer, LEASE + stage.target.number("revive.high"))
    again = {one.id for one in second}
    assert again <= {one.id for one in seen}, f"{len(seen)} of 6 were read again"
    once_each(second, seen)


async def _ordered(stage: Stage) -> tuple[str, Consumer]:
    topic = await stage.topic(1, type="FIFO")
    return topic, await stage.consumer(topic, ordered=True)


async def _grouped(stage: Stage, topic: str, count: int, stem: str) -> None:
    await stage.send(topic, *_bodies(count, stem), group="g")


@case("offset.reset-ordered", rules=("R8.20", "R10.6"), level=Level.SHOULD, needs=(*RESET, "type.fifo"))
@on_stage
async def reset_ordered(stage: Stage) -> None:
    """An ordered group that is moved is not blocked by the batch in flight, and reads on in order."""
    topic, consumer = await _ordered(stage)
    await _grouped(stage, topic, 2, "first")
    await stage.clock.sleep(GAP / 2)
    middle = stage.clock.wall()
    await stage.clock.sleep(GAP / 2)
    await _grouped(stage, topic, 8, "second")
    await consumer.take(1, invisible=60.0, settle=False)
    await stage.target.reset_offset(consumer.group, topic, middle)
    seen = await consumer.take(8, within=2 * PROMPT)
    assert [one.text for one in seen] == _bodies(8, "second")


@case(
    "offset.reset-future-ordered", rules=("R8.20", "R10.6"), level=Level.SHOULD, needs=(*RESET, "type.fifo")
)
@on_stage
async def reset_future_ordered(stage: Stage) -> None:
    """An ordered group that is moved past its backlog gets the next message, and nothing of the batch in flight."""
    topic, consumer = await _ordered(stage)
    await _grouped(stage, topic, 10, "old")
    await consumer.take(1, invisible=60.0, settle=False)
    await stage.target.reset_offset(consumer.group, topic, "end")
    assert await stage.sentinel(consumer, sentinel={"group": "g"}) == []


@case("offset.reset-repeat", rules=("R10.6",), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_repeat(stage: Stage) -> None:
    """Of three moves in a row the last one counts."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    _, middle, second = await _bursts(stage, topic, 5, 5)
    for place in ("end", "beginning", middle):
        await stage.target.reset_offset(consumer.group, topic, place)
    seen = await stage.sentinel(consumer)
    assert len({one.id for one in second} ^ {one.id for one in seen}) <= 1, f"{len(seen)} messages, not 5"


@case("offset.reset-one-group", rules=("R10.6",), needs=RESET)
@on_stage
async def reset_one_group(stage: Stage) -> None:
    """Moving one group moves no other."""
    topic = await stage.topic(1)
    moved = await stage.consumer(topic)
    other = await stage.consumer(topic)
    sent = await stage.send(topic, *_bodies(10))
    for consumer in (moved, other):
        await consumer.take(10)
    await stage.target.reset_offset(moved.group, topic, "beginning")
    once_each(sent, await moved.take(10, within=2 * PROMPT))
    assert await stage.nothing_but(other, SHORT_POLL) == []


@case("offset.reset-not-retry", rules=("R10.6",), level=Level.INFORMATIONAL, needs=RESET, timeout=120.0)
@on_stage
async def reset_not_retry(stage: Stage) -> None:
    """Whether messages that wait for their next attempt still come when the group was moved past them."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "waits")
    first = await consumer.one(invisible=10.0)
    await stage.target.reset_offset(consumer.group, topic, "end")
    seen = await stage.nothing_but(consumer, 10.0 + QUIET_WINDOW)
    stage.target.note("came", first.id in {one.id for one in seen})


# Lag, and what outlives a restart


@case("offset.lag-zero", rules=("R10.4",), level=Level.SHOULD, needs=(*PREPARED, "@lag"))
@on_stage
async def lag_zero(stage: Stage) -> None:
    """A group that has acked everything has nothing before it and nothing in flight."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(10))
    await consumer.take(10)
    assert await stage.target.lag(consumer.group, topic) == (0, 0)


@case("offset.lag-counts", rules=("R10.4",), level=Level.SHOULD, needs=(*PREPARED, "@lag"))
@on_stage
async def lag_counts(stage: Stage) -> None:
    """Three messages in flight and seven not yet read are told as that."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(10))
    held: list[Delivery] = await consumer.take(3, batch=3, settle=False)
    assert await stage.target.lag(consumer.group, topic) == (7, 3)
    await consumer.ack(*held)


@case("offset.restart", rules=("R10.4", "R12.7"), needs=(*PREPARED, "@restart"), timeout=400.0)
@on_stage
async def restart(stage: Stage) -> None:
    """After a restart nothing that was acked before the last flush comes again, and nothing is lost."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(50))
    lease = 30.0 + stage.target.number("restart.high")
    acked = await consumer.take(20, batch=20)
    held = await consumer.take(30, batch=30, invisible=lease, settle=False)
    consumer.seen.clear()
    await stage.clock.sleep(FLUSH)
    await stage.target.restart()
    after = await _back(stage, consumer)
    within = lease + stage.target.number("revive.high") + 2 * PROMPT
    seen = await after.take(30, within=within, poll=20.0)
    assert not {one.id for one in acked} & {one.id for one in seen}, "what was acked came again"
    assert {one.id for one in held} == {one.id for one in seen}
