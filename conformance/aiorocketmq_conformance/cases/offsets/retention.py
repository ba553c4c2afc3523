"""Retention: how long messages are stored, whether consumed or not, inventory 4.18."""

from __future__ import annotations

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import EXTENSION, SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_reader, forward, reading_group
from aiorocketmq_conformance.cases.shared.nack import nack, retry_within
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting, trim
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

KEPT = ("@keep",)
TRIMMED = (*REMOTING, "@trim")
LIVE = ("live-broker-remoting.md 10",)
# Short enough that clients do not expire before their messages (rule R2.15).
RETENTION = 60.0
DAY = 86_400.0
# Servers scan every 10 s (section 11).
CLEANED = 15.0
# Beyond the retention.
OLD = RETENTION + CLEANED


@case("keep.acked-stays", rules=("R11.1",), level=SHOULD, needs=("@reset",))
async def acked_stays(fixture: Fixture) -> None:
    """Messages that one group has acked are available to another that starts at the beginning."""
    topic = await fixture.topic()
    first = await fixture.consumer(topic)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    once_each(sent, await first.take(10))
    second = await fixture.consumer(topic, prime=False)
    await fixture.target.admin.reset_offset(second.group, topic, "beginning")
    once_each(sent, await second.take(10, within=2 * PROMPT))


@case("keep.expires", rules=("R11.1", "R11.2"), level=EXTENSION, needs=(*KEPT, "@reset"), timeout=180.0)
async def expires(fixture: Fixture) -> None:
    """Messages older than the retention are deleted for every group, also for one that starts at the beginning."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await consumer.take(10)
    await fixture.clock.sleep(OLD)
    await fixture.target.admin.delete_expired()
    other = await fixture.consumer(topic, prime=False)
    for reader in (consumer, other):
        await fixture.target.admin.reset_offset(reader.group, topic, "beginning")
        # The second reader receives the first one's sentinel.
        assert {one.text for one in await fixture.sentinel(reader)} <= {"sentinel"}


@case("keep.before-expiry", rules=("R11.1",), level=EXTENSION, needs=KEPT, timeout=180.0)
async def before_expiry(fixture: Fixture) -> None:
    """Messages younger than the retention are kept, also when the broker cleans up."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await fixture.clock.sleep(0.9 * RETENTION)
    await fixture.target.admin.delete_expired()
    once_each(sent, await consumer.take(10))


@case("keep.inflight-over-expiry", rules=("R11.3",), level=EXTENSION, needs=KEPT, timeout=240.0)
async def inflight_over_expiry(fixture: Fixture) -> None:
    """A message deleted while in flight can be acked, and is not redelivered if it is not."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.send(topic, "acked", "dropped")
    acked, _ = await consumer.take(2, invisible=OLD + 10.0, settle=False)
    await fixture.clock.sleep(OLD)
    await fixture.target.admin.delete_expired()
    await consumer.ack(acked)
    await fixture.expect_nothing(consumer, 10.0 + QUIET_WINDOW, "delivered after it was deleted")


@case("keep.unconsumed-deleted", rules=("R11.1",), level=EXTENSION, needs=KEPT, timeout=180.0)
async def unconsumed_deleted(fixture: Fixture) -> None:
    """Messages are deleted although no group has received them."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await fixture.clock.sleep(OLD)
    await fixture.target.admin.delete_expired()
    assert await fixture.sentinel(consumer) == []


@case(
    "keep.unasked",
    rules=("R11.1", "R11.5"),
    level=EXTENSION,
    needs=(*KEPT, "@clock", *REMOTING),
    timeout=2 * DAY,
)
async def unasked(fixture: Fixture) -> None:
    """A broker deletes messages older than the retention by itself, within a day, also if it was shortened after they
    were stored."""
    reader = await over_remoting(fixture)
    await reader.send(3)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.clock.sleep(DAY + OLD)
    assert (await reader.query_offset("BEGINNING"), await reader.query_offset("END")) == (3, 3)


@case("keep.dead-letters", rules=("R11.1", "R7.6"), level=EXTENSION, needs=(*KEPT, "dlq"), timeout=180.0)
async def dead_letters_expire(fixture: Fixture) -> None:
    """Dead letters are deleted like other messages."""
    readers = await reading_group(fixture)
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    for text in ("old", "new"):
        await fixture.send(topic, text)
        await forward(consumer, await consumer.one())
        if text == "old":
            await fixture.clock.sleep(OLD)
            await fixture.target.admin.delete_expired()
    reader = await dead_letter_reader(fixture, consumer, readers)
    assert [one.text for one in await reader.receive_for(SHORT_POLL)] == ["new"]


@case("keep.progress-behind-min", rules=("R5.14", "R11.2"), level=EXTENSION, needs=KEPT, timeout=180.0)
async def progress_behind_min(fixture: Fixture) -> None:
    """A group whose progress was deleted continues at the first message left, without an error."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.send(topic, *(f"old{n}" for n in range(10)))
    await consumer.take(2, batch=2)
    await fixture.clock.sleep(OLD)
    await fixture.target.admin.delete_expired()
    fresh = await fixture.send(topic, "new0", "new1", "new2")
    once_each(fresh, await consumer.take(3))


@case(
    "keep.lag-behind-min",
    rules=("R11.2", "R10.4"),
    level=EXTENSION,
    needs=(*KEPT, "@lag", "type.fifo"),
    timeout=180.0,
)
async def lag_behind_min(fixture: Fixture) -> None:
    """What was deleted unread does not count as lag, of a group that reads no more, nor of an ordered one that has
    read on."""
    topic = await fixture.topic(1, type="FIFO")
    consumer = await fixture.consumer(topic, ordered=True)
    idle = await fixture.consumer(topic)
    await fixture.target.admin.set_retention(RETENTION)
    for number in range(6):
        await fixture.send(topic, f"old{number}", group=f"mg{number % 2}")
    await consumer.take(2, batch=2)
    await idle.take(2, batch=2)
    await fixture.clock.sleep(OLD)
    await fixture.target.admin.delete_expired()
    assert await fixture.target.admin.lag(idle.group, topic) == (0, 0)
    fresh = [(await fixture.send(topic, f"new{number}", group="mg0"))[0] for number in range(2)]
    once_each(fresh, await consumer.take(2))
    await consumer.receive(poll=SHORT_POLL)
    assert await fixture.target.admin.lag(consumer.group, topic) == (0, 0)


@case("keep.by-age", rules=("R11.1",), level=EXTENSION, needs=(*KEPT, "@reset"), timeout=180.0)
async def by_age(fixture: Fixture) -> None:
    """Each message is kept for the retention from its own store time, and no longer."""
    topic, consumer = await fixture.subscribed(1)
    sent = []
    for number in range(5):
        sent += await fixture.send(topic, f"m{number}")
        await fixture.clock.sleep(2.0)

    async def left(retention: float) -> list[str]:
        """Return what is left if messages of this age are deleted now."""
        await fixture.target.admin.set_retention(retention)
        await fixture.target.admin.delete_expired()
        await fixture.target.admin.set_retention(DAY)
        await fixture.target.admin.reset_offset(consumer.group, topic, "beginning")
        answer = await consumer.receive(poll=0.0)
        await consumer.ack(*answer.deliveries)
        return [one.id for one in answer.deliveries]

    for kept in range(5, 0, -1):
        # The first message left is 2 s old for each one from it on.
        assert await left(2.0 * kept + 0.5) == [one.id for one in sent[-kept:]]
        assert await left(2.0 * kept - 0.5) == [one.id for one in sent[len(sent) - kept + 1 :]]


@case("keep.redelivered", rules=("R11.3", "R7.2"), level=EXTENSION, needs=KEPT, timeout=240.0)
async def redelivered(fixture: Fixture) -> None:
    """A message that has failed twice is redelivered, although those before it in its queue are deleted meanwhile."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.admin.set_retention(RETENTION)
    await fixture.send(topic, "old0", "old1", "old2")
    await consumer.take(3)
    await fixture.clock.sleep(RETENTION - 10.0)
    (sent,) = await fixture.send(topic, "new")
    await nack(consumer, await consumer.one())
    second = await consumer.one(within=retry_within(fixture), invisible=40.0, poll=20.0)
    await fixture.clock.sleep(OLD - RETENTION + 10.0)
    await fixture.target.admin.delete_expired()
    third = await consumer.one(within=40.0 + retry_within(fixture), poll=20.0)
    assert [(one.id, one.attempt) for one in (second, third)] == [(sent.id, 2), (sent.id, 3)]


@case(
    "keep.in-message-group",
    rules=("R8.4", "R11.3"),
    level=EXTENSION,
    needs=(*KEPT, "type.fifo"),
    timeout=300.0,
)
async def in_message_group(fixture: Fixture) -> None:
    """A message group whose first messages are deleted, leased, waiting or not yet read, continues with the first one
    left, as attempt 1, and in order, for each of two groups."""
    # Of messages of which so many are too old, how many of the first are leased at the deletion, and what their
    # consumer has done by then.
    for old, leased, done in (
        (1, 0, ""),
        (1, 1, ""),
        (2, 1, ""),
        (2, 2, ""),
        (2, 2, "the first released"),
        (3, 0, ""),
        (3, 1, "acked"),
    ):
        topic, one = await fixture.subscribed(1, type="FIFO", ordered=True)
        consumers = (one, await fixture.consumer(topic, ordered=True))
        await fixture.target.admin.set_retention(RETENTION)
        await fixture.send(topic, *(f"old{n}" for n in range(old)), group="g")
        await fixture.clock.sleep(RETENTION - 10.0)
        held = [
            await consumer.take(leased, batch=leased, settle=False, invisible=60.0) if leased else []
            for consumer in consumers
        ]
        fresh = await fixture.send(topic, "new0", "new1", "new2", group="g")
        for consumer, messages in zip(consumers, held, strict=True):
            if done == "acked":
                assert not (await consumer.receive()).deliveries, "delivered behind an un-acked head"
                await consumer.ack(*messages)
            elif done:
                await nack(consumer, messages[0])
        await fixture.clock.sleep(OLD - RETENTION + 10.0)
        await fixture.target.admin.delete_expired()
        for consumer in consumers:
            for sent in fresh:
                delivery = await consumer.one(within=60.0)
                await consumer.ack(delivery)
                assert (delivery.id, delivery.attempt) == (sent.id, 1), (
                    f"{delivery} instead of {sent.message.body!r}: {old} old, {leased} leased, {done}"
                )


# Over remoting


@case("keep.disk-full", rules=("11", "R11.5"), level=EXTENSION, needs=("@disk",))
async def disk_full(fixture: Fixture) -> None:
    """While the disk is more than 90 % full, sends are refused and messages are delivered; then sends are accepted
    again. The same a second time."""
    topic, consumer = await fixture.subscribed(1)
    for turn in ("first", "second"):
        await fixture.target.admin.set_disk_used(0.9)
        await fixture.send(topic, f"{turn}, at the limit")
        await fixture.target.admin.set_disk_used(0.91)
        reply = await consumer.client.send(requests.message(topic, "refused"))
        assert code_of(reply) == "INTERNAL_SERVER_ERROR", (
            f"a send to a full disk was answered {code_of(reply)}"
        )
        assert [one.text for one in await consumer.take(1)] == [f"{turn}, at the limit"]
        await fixture.target.admin.set_disk_used(0.5)
        await fixture.send(topic, f"{turn}, with room")
        assert [one.text for one in await consumer.take(1)] == [f"{turn}, with room"]


@case("keep.disk-critical", rules=("11", "R11.2"), level=EXTENSION, needs=("@disk", *REMOTING), timeout=600.0)
async def disk_critical(fixture: Fixture) -> None:
    """While the disk is more than 85 % full, also when it is full, the oldest messages are deleted before they expire;
    at 86 % sends are accepted, and the newest message always stays."""
    reader = await over_remoting(fixture)
    await reader.send(20)
    first: int | None = 0
    for share in (0.85, 0.95, 0.86):
        await fixture.target.admin.set_disk_used(share)
        await fixture.clock.sleep(CLEANED)
        before, first = first, await reader.query_offset("BEGINNING")
        assert before is not None
        assert first in (range(1) if share == 0.85 else range(before + 1, 20)), (
            f"{share:.0%}: {before}, {first}"
        )
    await reader.send(1)
    await fixture.clock.sleep(21 * CLEANED)
    assert [await reader.query_offset("BEGINNING"), await reader.query_offset("END")] == [20, 21]


@case("keep.read-stays", rules=("R11.1",), level=EXTENSION, needs=REMOTING)
async def read_stays(fixture: Fixture) -> None:
    """Messages that one group has read and committed are available to another."""
    first = await over_remoting(fixture)
    sent = await first.send(10)
    assert (await first.pull(0)).next_offset == 10
    await first.commit(10)
    second = await over_remoting(fixture, topic=first.topic)
    assert (await second.pull(0)).ids == tuple(one.id for one in sent)


async def _trimmed(fixture: Fixture, committed: int) -> RemotingReader:
    """Return a group with a committed offset in a queue of eleven messages, of which the first ten were then
    deleted."""
    reader = await over_remoting(fixture)
    await reader.send(10)
    await reader.commit(committed)
    await trim(reader)
    return reader


@case(
    "keep.expires[remoting]", rules=("R11.1", "R11.2", *LIVE), level=EXTENSION, needs=TRIMMED, timeout=300.0
)
async def expires_over_remoting(fixture: Fixture) -> None:
    """Messages deleted by retention are unavailable to every group, and the queue starts after them."""
    reader = await _trimmed(fixture, 10)
    for one in (reader, await over_remoting(fixture, topic=reader.topic)):
        assert (await one.query_offset("BEGINNING"), await one.query_offset("END")) == (10, 11)
        page = await one.pull(0)
        assert (page.outcome, page.next_offset) == ("illegal", 10)


@case(
    "keep.before-expiry[remoting]",
    rules=("R11.1",),
    level=EXTENSION,
    needs=(*REMOTING, "@keep"),
    timeout=180.0,
)
async def before_expiry_over_remoting(fixture: Fixture) -> None:
    """Messages younger than the retention are kept, also when the broker cleans up; when all are deleted, the offsets
    of their queue go on."""
    reader = await over_remoting(fixture)
    await fixture.target.admin.set_retention(RETENTION)
    sent = await reader.send(10)
    await fixture.clock.sleep(0.9 * RETENTION)
    await fixture.target.admin.delete_expired()
    assert (await reader.pull(0)).ids == tuple(one.id for one in sent)
    await fixture.clock.sleep(OLD - 0.9 * RETENTION)
    await fixture.target.admin.delete_expired()
    assert (await reader.query_offset("BEGINNING"), await reader.query_offset("END")) == (10, 10)


@case(
    "keep.progress-behind-min[remoting]",
    rules=("R11.2", *LIVE),
    level=EXTENSION,
    needs=TRIMMED,
    timeout=300.0,
)
async def progress_behind_min_over_remoting(fixture: Fixture) -> None:
    """A committed offset before the first message left is kept, and a pull from it gets the first offset left."""
    reader = await _trimmed(fixture, 2)
    assert await reader.committed() == 2
    assert (await reader.probe.pull(reader.topic, reader.group, 10)).span == (10, 11)
    page = await reader.pull(2)
    assert (page.outcome, page.next_offset) == ("illegal", 10)
    assert (await reader.pull(10)).texts == ("m0",)


@case("keep.new-group-behind-min", rules=LIVE, level=EXTENSION, needs=TRIMMED, timeout=300.0)
async def new_group_behind_min(fixture: Fixture) -> None:
    """A new group of a queue whose first messages were deleted has no committed offset, not 0."""
    reader = await _trimmed(fixture, 2)
    other = await over_remoting(fixture, topic=reader.topic)
    answer = await other.probe.committed(other.topic, other.group)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND, f"answered with {response_text(answer)}"
