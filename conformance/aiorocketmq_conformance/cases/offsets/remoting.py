"""Progress of groups over remoting: where they begin, go on and are moved to, and what is refused."""

from __future__ import annotations

import asyncio

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Stage, on_stage
from aiorocketmq_conformance.probe.clock import within
from aiorocketmq_conformance.probe.remoting_answers import Progress, number, told
from aiorocketmq_conformance.tolerances import PROMPT, wake

LIVE = ("live-broker-remoting.md 5",)
PULLS = ("live-broker-remoting.md 4", "remoting-protocol.md 6.8")
RESET = (*REMOTING, "@reset")
MOVED = ("R10.6", *LIVE, "remoting-protocol.md 6.19")
# Between two bursts, so that a time in the middle separates them on any clock.
GAP = 3.0


async def _reader(stage: Stage) -> RemotingReader:
    reader = await over_remoting(stage)
    await reader.send(5)
    return reader


@case("pull.young-queue-start", rules=(*LIVE, "R10.3"), level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def young_queue_start(stage: Stage) -> None:
    """A new group begins a young queue at 0, unless it asks to be told that nothing is written down."""
    reader = await _reader(stage)
    usual = await reader.probe.committed(reader.topic, reader.group)
    assert usual.code == ResponseCode.SUCCESS, f"it is answered {told(usual)}"
    assert number(usual, "offset") == 0
    plain = await reader.probe.committed(reader.topic, reader.group, setZeroIfNotFound="false")
    assert plain.code == ResponseCode.QUERY_NOT_FOUND, f"it is answered {told(plain)}"


@case("pull.time-bounds", rules=(*LIVE, "R10.7"), level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def time_bounds(stage: Stage) -> None:
    """A time before all messages has the offset of the first one, a time after all that of the end."""
    reader = await _reader(stage)
    now = stage.clock.wall()
    assert await reader.place("TIMESTAMP", now - 3600.0) == 0
    assert await reader.place("TIMESTAMP", now + 3600.0) == 5


@case(
    "offset.reset-one-group[remoting]",
    rules=("R10.6",),
    level=Level.MUST,
    needs=(*REMOTING, "@reset"),
)
@on_stage
async def reset_one_group(stage: Stage) -> None:
    """Moving one group leaves what another has committed."""
    moved = await over_remoting(stage)
    other = await over_remoting(stage, topic=moved.topic)
    await moved.send(7)
    for reader in (moved, other):
        await reader.store(5)
    await stage.target.reset_offset(moved.group, moved.topic, "beginning")
    assert (await moved.stored(), await other.stored()) == (0, 5)


@case("pull.groups-woken", rules=("live-broker-remoting.md 4",), level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def groups_woken(stage: Stage) -> None:
    """A message ends the waiting pulls of all three groups that hold its queue."""
    first = await over_remoting(stage)
    readers = [first, *[await over_remoting(stage, topic=first.topic) for _ in range(2)]]
    waiting = [asyncio.create_task(reader.pull(0, poll=15.0)) for reader in readers]
    await stage.clock.sleep(3.0)
    (sent,) = await first.send(1)
    for page in await asyncio.gather(*waiting):
        assert page.ids == (sent.id,)
        wake(stage.target).check(page.at - sent.acked_at, "a waiting pull was answered")


# What does not exist


@case("pull.unknown-topic", rules=PULLS, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def unknown_topic(stage: Stage) -> None:
    """A pull of a topic that does not exist is refused as such, and creates none."""
    reader = await _reader(stage)
    name = stage.target.fresh("topic")
    for _ in range(2):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, named=name)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST, f"it is answered {answer.name}: {answer.remark}"
        assert not answer.records


@case("pull.unknown-queue", rules=PULLS, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def unknown_queue(stage: Stage) -> None:
    """A pull of a queue that a topic does not have is refused, and brings nothing of another queue."""
    reader = await _reader(stage)
    for queue in (1, 9):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, queue=queue)
        # Brokers before 5.3.3 have no code for it.
        refusals = {ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR}
        assert answer.code in refusals, f"it is answered {answer.name}: {answer.remark}"
        assert not answer.records


@case("pull.unknown-group", rules=PULLS, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def unknown_group(stage: Stage) -> None:
    """A pull of a group that does not exist is served, and creates the group, which may commit from then on."""
    known = await _reader(stage)
    reader = await over_remoting(stage, topic=known.topic, group=stage.target.fresh("group"))
    page = await reader.pull(0)
    assert (page.outcome, page.next_offset) == ("found", 5)
    await reader.store(3)
    assert (await reader.stored(), await known.stored()) == (3, 0)


@case(
    "pull.commit-unknown",
    rules=LIVE,
    level=Level.EXTENSION,
    needs=REMOTING,
    params={
        "group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "topic": ResponseCode.TOPIC_NOT_EXIST,
    },
)
@on_stage
async def commit_unknown(stage: Stage, code: ResponseCode) -> None:
    """A commit for a {} that does not exist is refused as such."""
    reader = await _reader(stage)
    name = stage.target.fresh("unknown")
    if code == ResponseCode.TOPIC_NOT_EXIST:
        answer = await reader.probe.commit(reader.topic, reader.group, 3, named=name)
    else:
        answer = await reader.probe.commit(reader.topic, name, 3)
    assert answer.code == code, f"it is answered {told(answer)}"


# Progress


@case("pull.commit-carried", rules=PULLS, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def commit_carried(stage: Stage) -> None:
    """A pull stores the offset that it carries, also a smaller one, and none where it carries none."""
    reader = await _reader(stage)
    for commit, stored in ((4, 4), (2, 2), (None, 2)):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, commit=commit)
        assert len(answer.records) == 5
        assert await reader.stored() == stored


@case(
    "offset.queue-resume",
    rules=("R10.4", *LIVE),
    level=Level.EXTENSION,
    needs=REMOTING,
    params={"same": True, "other": False},
)
@on_stage
async def queue_resume(stage: Stage, is_same: bool) -> None:
    """A group goes on where it has committed after its member left, with the {} client: nothing is read again."""
    reader = await _reader(stage)
    await reader.join()
    page = await reader.pull(0)
    assert page.next_offset == 5
    await reader.store(5)
    await reader.leave()
    later = await reader.send(5)
    client_id = reader.probe.client_id if is_same else None
    again = await over_remoting(stage, topic=reader.topic, group=reader.group, client_id=client_id)
    await again.join()
    stored = await again.stored()
    assert stored == 5
    assert (await again.pull(stored)).ids == tuple(one.id for one in later)


@case("offset.lag-zero[remoting]", rules=LIVE, level=Level.SHOULD, needs=REMOTING)
@on_stage
async def lag_zero(stage: Stage) -> None:
    """A group that has committed the end of its queue has nothing before it."""
    reader = await _reader(stage)
    await reader.store(5)
    assert await reader.probe.progress(reader.topic, reader.group) == {0: Progress(5, 5)}


@case("offset.lag-counts[remoting]", rules=LIVE, level=Level.SHOULD, needs=REMOTING)
@on_stage
async def lag_counts(stage: Stage) -> None:
    """What a group has before it counts from where it has committed, not from what it has pulled."""
    reader = await _reader(stage)
    await reader.store(2)
    assert (await reader.pull(2)).next_offset == 5
    await reader.send(1)
    assert await reader.probe.progress(reader.topic, reader.group) == {0: Progress(2, 6)}


# Moving a group


async def _bursts(stage: Stage) -> tuple[RemotingReader, float]:
    """A group that has read and committed two bursts of five messages, and a time between them."""
    reader = await _reader(stage)
    await stage.clock.sleep(GAP / 2)
    middle = stage.clock.wall()
    await stage.clock.sleep(GAP / 2)
    await reader.send(5)
    await reader.store(10)
    return reader, middle


@case("offset.reset-back-time[remoting]", rules=("R10.7", *MOVED), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_back_time(stage: Stage) -> None:
    """A group that is moved to a time before all messages goes on at the first one."""
    reader, middle = await _bursts(stage)
    await stage.target.reset_offset(reader.group, reader.topic, middle - 3600.0)
    assert await reader.stored() == 0


@case("offset.reset-forward[remoting]", rules=("R10.7", *MOVED), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_forward(stage: Stage) -> None:
    """A group that is moved to the end goes on behind all messages."""
    reader, _ = await _bursts(stage)
    await reader.store(3)
    await stage.target.reset_offset(reader.group, reader.topic, "end")
    assert await reader.stored() == 10


@case("offset.reset-middle[remoting]", rules=("R10.7", *MOVED), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_middle(stage: Stage) -> None:
    """A group that is moved to a time between two bursts goes on at the second one, at most one message beside."""
    reader, middle = await _bursts(stage)
    await stage.target.reset_offset(reader.group, reader.topic, middle)
    assert await reader.stored() in {4, 5, 6}


@case("offset.reset-repeat[remoting]", rules=("R10.7", *MOVED), level=Level.SHOULD, needs=RESET)
@on_stage
async def reset_repeat(stage: Stage) -> None:
    """Of three moves in a row the last one counts."""
    reader, middle = await _bursts(stage)
    for place in ("end", "beginning", middle):
        await stage.target.reset_offset(reader.group, reader.topic, place)
    assert await reader.stored() in {4, 5, 6}


async def _running(stage: Stage) -> RemotingReader:
    """A member that has read five messages and committed four, whose group is moved to the first one."""
    reader = await _reader(stage)
    await reader.join()
    await reader.store(4)
    assert (await reader.pull(4)).next_offset == 5
    await reader.probe.reset(reader.topic, reader.group)
    return reader


async def _moved(reader: RemotingReader, position: int) -> int | None:
    """The offset that a member at `position` is moved to, by its next pull or a request; AssertionError if by none."""
    page = await reader.pull(position, poll=1.0)
    if page.outcome == "illegal":
        return page.next_offset
    try:
        return (await within(reader.stage.clock, PROMPT, reader.probe.moved()))[0]
    except TimeoutError:
        raise AssertionError("the member was not notified of the move") from None


@case("offset.reset-running", rules=MOVED, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def reset_running(stage: Stage) -> None:
    """A member whose group is moved gets the new offset with its next pull or in a request, and commits from there."""
    reader = await _running(stage)
    assert await _moved(reader, 5) == 0
    assert (await reader.pull(0)).texts == ("m0", "m1", "m2", "m3", "m4")
    await reader.store(2)
    assert await reader.stored() == 2


@case("offset.reset-late-commit", rules=MOVED, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def reset_late_commit(stage: Stage) -> None:
    """A commit by a member that does not know of a move yet does not undo the move."""
    reader = await _running(stage)
    await reader.store(5)
    assert await reader.stored() == 0


@case(
    "offset.reset-locked",
    rules=("R8.20", *MOVED),
    level=Level.EXTENSION,
    needs=REMOTING,
    params={"back": 0.0, "forward": None},
)
@on_stage
async def reset_locked(stage: Stage, to: float | None) -> None:
    """A member that holds the lock of a queue in which its group is moved ({}) keeps it, and reads on there."""
    reader, _ = await _bursts(stage)
    other = stage.member()
    for member in (reader.probe, other):
        await member.join(reader.group, reader.topic)
    await reader.store(3)
    assert await reader.probe.lock(reader.group, reader.topic, 0) == [0]
    await reader.probe.reset(reader.topic, reader.group, to)
    position = 10 if to is None else 0
    assert await _moved(reader, 3) == position
    assert await other.lock(reader.group, reader.topic, 0) == []
    await reader.send(2)
    everything = [*range(5), *range(5), *range(2)]
    assert (await reader.pull(position)).texts == tuple(f"m{n}" for n in everything[position:])
