"""Retention: how long messages stay, whoever has read them, inventory 4.18."""

from __future__ import annotations

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import EXTENSION, SHOULD, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting, trim
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.remoting_answers import told
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

KEPT = ("@keep",)
TRIMMED = (*REMOTING, "@trim")
LIVE = ("live-broker-remoting.md 10",)
# Short enough that clients are not forgotten while their messages grow old (rule R2.15).
RETENTION = 60.0
# Beyond the retention: a server looks every 10 s (section 11).
OLD = RETENTION + 15.0


@case("keep.acked-stays", rules=("R11.1",), level=SHOULD, needs=("@reset",))
async def acked_stays(fixture: Fixture) -> None:
    """Messages that one group has acked are there for another that reads from the beginning."""
    topic = await fixture.topic()
    first = await fixture.consumer(topic)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    once_each(sent, await first.take(10))
    second = await fixture.consumer(topic, prime=False)
    await fixture.target.reset_offset(second.group, topic, "beginning")
    once_each(sent, await second.take(10, within=2 * PROMPT))


@case("keep.expires", rules=("R11.1", "R11.2"), level=EXTENSION, needs=(*KEPT, "@reset"), timeout=180.0)
async def expires(fixture: Fixture) -> None:
    """What is older than the retention is gone for every group, also for one that reads from the beginning."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.keep(RETENTION)
    await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await consumer.take(10)
    await fixture.clock.sleep(OLD)
    await fixture.target.clean()
    other = await fixture.consumer(topic, prime=False)
    for reader in (consumer, other):
        await fixture.target.reset_offset(reader.group, topic, "beginning")
        # The second reader finds the first one's sentinel.
        assert {one.text for one in await fixture.sentinel(reader)} <= {"sentinel"}


@case("keep.before-expiry", rules=("R11.1",), level=EXTENSION, needs=KEPT, timeout=180.0)
async def before_expiry(fixture: Fixture) -> None:
    """What is younger than the retention stays, also when the broker cleans up."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.keep(RETENTION)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await fixture.clock.sleep(0.9 * RETENTION)
    await fixture.target.clean()
    once_each(sent, await consumer.take(10))


@case("keep.inflight-over-expiry", rules=("R11.3",), level=EXTENSION, needs=KEPT, timeout=240.0)
async def inflight_over_expiry(fixture: Fixture) -> None:
    """A message deleted in a consumer's hands can be acked, and comes back to nobody when it is not."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.keep(RETENTION)
    await fixture.send(topic, "acked", "dropped")
    acked, _ = await consumer.take(2, invisible=OLD + 10.0, settle=False)
    await fixture.clock.sleep(OLD)
    await fixture.target.clean()
    await consumer.ack(acked)
    await fixture.expect_nothing(consumer, 10.0 + QUIET_WINDOW, "came back after it was deleted")


@case("keep.unconsumed-deleted", rules=("R11.1",), level=EXTENSION, needs=KEPT, timeout=180.0)
async def unconsumed_deleted(fixture: Fixture) -> None:
    """Nobody's reading keeps a message: what no group has received goes all the same."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.keep(RETENTION)
    await fixture.send_all(topic, [f"m{n}" for n in range(10)])
    await fixture.clock.sleep(OLD)
    await fixture.target.clean()
    assert await fixture.sentinel(consumer) == []


@case("keep.progress-behind-min", rules=("R5.14", "R11.2"), level=EXTENSION, needs=KEPT, timeout=180.0)
async def progress_behind_min(fixture: Fixture) -> None:
    """A group that stands before the first message left goes on there without an error."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.target.keep(RETENTION)
    await fixture.send(topic, *(f"old{n}" for n in range(10)))
    await consumer.take(2, batch=2)
    await fixture.clock.sleep(OLD)
    await fixture.target.clean()
    fresh = await fixture.send(topic, "new0", "new1", "new2")
    once_each(fresh, await consumer.take(3))


# Over remoting


@case("keep.read-stays", rules=("R11.1",), level=EXTENSION, needs=REMOTING)
async def read_stays(fixture: Fixture) -> None:
    """Messages that one group has read and committed are there for another."""
    first = await over_remoting(fixture)
    sent = await first.send(10)
    assert (await first.pull(0)).next_offset == 10
    await first.store(10)
    second = await over_remoting(fixture, topic=first.topic)
    assert (await second.pull(0)).ids == tuple(one.id for one in sent)


async def _trimmed(fixture: Fixture, committed: int) -> RemotingReader:
    """A group that has committed an offset in a queue of eleven messages, of which the first ten are deleted then."""
    reader = await over_remoting(fixture)
    await reader.send(10)
    await reader.store(committed)
    await trim(reader)
    return reader


@case(
    "keep.expires[remoting]", rules=("R11.1", "R11.2", *LIVE), level=EXTENSION, needs=TRIMMED, timeout=300.0
)
async def expires_over_remoting(fixture: Fixture) -> None:
    """What retention has deleted is gone for every group, and its queue begins behind it."""
    reader = await _trimmed(fixture, 10)
    for one in (reader, await over_remoting(fixture, topic=reader.topic)):
        assert (await one.place("BEGINNING"), await one.place("END")) == (10, 11)
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
    """What is younger than the retention stays, also when the broker cleans up."""
    reader = await over_remoting(fixture)
    await fixture.target.keep(RETENTION)
    sent = await reader.send(10)
    await fixture.clock.sleep(0.9 * RETENTION)
    await fixture.target.clean()
    assert (await reader.pull(0)).ids == tuple(one.id for one in sent)


@case(
    "keep.progress-behind-min[remoting]",
    rules=("R11.2", *LIVE),
    level=EXTENSION,
    needs=TRIMMED,
    timeout=300.0,
)
async def progress_behind_min_over_remoting(fixture: Fixture) -> None:
    """A group's offset before the first message left stays, and a pull from it gets the first offset left."""
    reader = await _trimmed(fixture, 2)
    assert await reader.stored() == 2
    page = await reader.pull(2)
    assert (page.outcome, page.next_offset) == ("illegal", 10)
    assert (await reader.pull(10)).texts == ("m0",)


@case("keep.new-group-behind-min", rules=LIVE, level=EXTENSION, needs=TRIMMED, timeout=300.0)
async def new_group_behind_min(fixture: Fixture) -> None:
    """A new group of a queue whose first messages are gone is answered that it has no offset, not 0."""
    reader = await _trimmed(fixture, 2)
    other = await over_remoting(fixture, topic=reader.topic)
    answer = await other.probe.committed(other.topic, other.group)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND, f"it is answered {told(answer)}"
