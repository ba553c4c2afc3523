"""Retention: how long messages stay, whoever has read them, inventory 4.18."""

from __future__ import annotations

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting, trim
from aiorocketmq_conformance.fixture import Stage, on_stage, once_each
from aiorocketmq_conformance.probe.remoting_answers import told
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW

PREPARED = ("@topic", "@group")
KEPT = (*PREPARED, "@keep")
TRIMMED = (*REMOTING, "@trim")
LIVE = ("live-broker-remoting.md 10",)
# Short enough that clients are not forgotten while their messages grow old (rule R2.15).
RETENTION = 60.0
# Beyond the retention: a server looks every 10 s (section 11).
OLD = RETENTION + 15.0


@case("keep.acked-stays", rules=("R11.1",), level=Level.SHOULD, needs=(*PREPARED, "@reset"))
@on_stage
async def acked_stays(stage: Stage) -> None:
    """Messages that one group has acked are there for another that reads from the beginning."""
    topic = await stage.topic()
    first = await stage.consumer(topic)
    sent = await stage.send_all(topic, [f"m{n}" for n in range(10)])
    once_each(sent, await first.take(10))
    second = await stage.consumer(topic, prime=False)
    await stage.target.reset_offset(second.group, topic, "beginning")
    once_each(sent, await second.take(10, within=2 * PROMPT))


@case("keep.expires", rules=("R11.1", "R11.2"), level=Level.EXTENSION, needs=(*KEPT, "@reset"), timeout=180.0)
@on_stage
async def expires(stage: Stage) -> None:
    """What is older than the retention is gone for every group, also for one that reads from the beginning."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.target.keep(RETENTION)
    await stage.send_all(topic, [f"m{n}" for n in range(10)])
    await consumer.take(10)
    await stage.clock.sleep(OLD)
    await stage.target.clean()
    other = await stage.consumer(topic, prime=False)
    for reader in (consumer, other):
        await stage.target.reset_offset(reader.group, topic, "beginning")
        # The second reader finds the first one's sentinel.
        assert {one.text for one in await stage.sentinel(reader)} <= {"sentinel"}


@case("keep.before-expiry", rules=("R11.1",), level=Level.EXTENSION, needs=KEPT, timeout=180.0)
@on_stage
async def before_expiry(stage: Stage) -> None:
    """What is younger than the retention stays, also when the broker cleans up."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.target.keep(RETENTION)
    sent = await stage.send_all(topic, [f"m{n}" for n in range(10)])
    await stage.clock.sleep(0.9 * RETENTION)
    await stage.target.clean()
    once_each(sent, await consumer.take(10))


@case("keep.inflight-over-expiry", rules=("R11.3",), level=Level.EXTENSION, needs=KEPT, timeout=240.0)
@on_stage
async def inflight_over_expiry(stage: Stage) -> None:
    """A message deleted in a consumer's hands can be acked, and comes back to nobody when it is not."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.target.keep(RETENTION)
    await stage.send(topic, "acked", "dropped")
    acked, _ = await consumer.take(2, invisible=OLD + 10.0, settle=False)
    await stage.clock.sleep(OLD)
    await stage.target.clean()
    await consumer.ack(acked)
    seen = await stage.nothing_but(consumer, 10.0 + QUIET_WINDOW)
    assert not seen, f"came back after it was deleted: {seen}"


@case("keep.unconsumed-deleted", rules=("R11.1",), level=Level.EXTENSION, needs=KEPT, timeout=180.0)
@on_stage
async def unconsumed_deleted(stage: Stage) -> None:
    """Nobody's reading keeps a message: what no group has received goes all the same."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.target.keep(RETENTION)
    await stage.send_all(topic, [f"m{n}" for n in range(10)])
    await stage.clock.sleep(OLD)
    await stage.target.clean()
    assert await stage.sentinel(consumer) == []


@case("keep.progress-behind-min", rules=("R5.14", "R11.2"), level=Level.EXTENSION, needs=KEPT, timeout=180.0)
@on_stage
async def progress_behind_min(stage: Stage) -> None:
    """A group that stands before the first message left goes on there without an error."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.target.keep(RETENTION)
    await stage.send(topic, *(f"old{n}" for n in range(10)))
    await consumer.take(2, batch=2)
    await stage.clock.sleep(OLD)
    await stage.target.clean()
    fresh = await stage.send(topic, "new0", "new1", "new2")
    once_each(fresh, await consumer.take(3))


# Over remoting


@case("keep.read-stays", rules=("R11.1",), level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def read_stays(stage: Stage) -> None:
    """Messages that one group has read and committed are there for another."""
    first = await over_remoting(stage)
    sent = await first.send(10)
    assert (await first.pull(0)).next_offset == 10
    await first.store(10)
    second = await over_remoting(stage, topic=first.topic)
    assert (await second.pull(0)).ids == tuple(one.id for one in sent)


async def _trimmed(stage: Stage, committed: int) -> RemotingReader:
    """A group that has committed an offset in a queue of eleven messages, of which the first ten are deleted then."""
    reader = await over_remoting(stage)
    await reader.send(10)
    await reader.store(committed)
    await trim(reader)
    return reader


@case(
    "keep.expires[remoting]",
    rules=("R11.1", "R11.2", *LIVE),
    level=Level.EXTENSION,
    needs=TRIMMED,
    timeout=300.0,
)
@on_stage
async def expires_over_remoting(stage: Stage) -> None:
    """What retention has deleted is gone for every group, and its queue begins behind it."""
    reader = await _trimmed(stage, 10)
    for one in (reader, await over_remoting(stage, topic=reader.topic)):
        assert (await one.place("BEGINNING"), await one.place("END")) == (10, 11)
        page = await one.pull(0)
        assert (page.outcome, page.next_offset) == ("illegal", 10)


@case(
    "keep.before-expiry[remoting]",
    rules=("R11.1",),
    level=Level.EXTENSION,
    needs=(*REMOTING, "@keep"),
    timeout=180.0,
)
@on_stage
async def before_expiry_over_remoting(stage: Stage) -> None:
    """What is younger than the retention stays, also when the broker cleans up."""
    reader = await over_remoting(stage)
    await stage.target.keep(RETENTION)
    sent = await reader.send(10)
    await stage.clock.sleep(0.9 * RETENTION)
    await stage.target.clean()
    assert (await reader.pull(0)).ids == tuple(one.id for one in sent)


@case(
    "keep.progress-behind-min[remoting]",
    rules=("R11.2", *LIVE),
    level=Level.EXTENSION,
    needs=TRIMMED,
    timeout=300.0,
)
@on_stage
async def progress_behind_min_over_remoting(stage: Stage) -> None:
    """A group's offset before the first message left stays, and a pull from it gets the first offset left."""
    reader = await _trimmed(stage, 2)
    assert await reader.stored() == 2
    page = await reader.pull(2)
    assert (page.outcome, page.next_offset) == ("illegal", 10)
    assert (await reader.pull(10)).texts == ("m0",)


@case("keep.new-group-behind-min", rules=LIVE, level=Level.EXTENSION, needs=TRIMMED, timeout=300.0)
@on_stage
async def new_group_behind_min(stage: Stage) -> None:
    """A new group of a queue whose first messages are gone is answered that it has no offset, not 0."""
    reader = await _trimmed(stage, 2)
    other = await over_remoting(stage, topic=reader.topic)
    answer = await other.probe.committed(other.topic, other.group)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND, f"it is answered {told(answer)}"
