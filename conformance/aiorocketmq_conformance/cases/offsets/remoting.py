"""Progress of groups over remoting: where they start, continue and are reset to, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiorocketmq._remoting.codes import RequestCode, ResponseCode

from aiorocketmq_conformance.case import EXTENSION, MUST, SHOULD, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.clock import within
from aiorocketmq_conformance.probe.remoting_answers import Progress, number, response_text
from aiorocketmq_conformance.tolerances import PROMPT, wake_window

LIVE = ("live-broker-remoting.md 5",)
PULLS = ("live-broker-remoting.md 4", "remoting-protocol.md 6.8")
RESET = (*REMOTING, "@reset")
MOVED = ("R10.6", *LIVE, "remoting-protocol.md 6.19")
# Between two bursts, so that a time in between separates them on any clock.
GAP = 3.0


async def _reader(fixture: Fixture) -> RemotingReader:
    reader = await over_remoting(fixture)
    await reader.send(5)
    return reader


@case("pull.young-queue-start", rules=(*LIVE, "R10.3"), level=EXTENSION, needs=REMOTING)
async def young_queue_start(fixture: Fixture) -> None:
    """A new group starts a young queue at 0, unless it asks for an error if nothing is committed."""
    reader = await _reader(fixture)
    usual = await reader.probe.committed(reader.topic, reader.group)
    assert usual.code == ResponseCode.SUCCESS, f"answered with {response_text(usual)}"
    assert number(usual, "offset") == 0
    plain = await reader.probe.committed(reader.topic, reader.group, setZeroIfNotFound="false")
    assert plain.code == ResponseCode.QUERY_NOT_FOUND, f"answered with {response_text(plain)}"


@case("pull.time-bounds", rules=(*LIVE, "R10.7"), level=EXTENSION, needs=REMOTING)
async def time_bounds(fixture: Fixture) -> None:
    """A time before all messages has the offset of the first one, a time after all that of the end; with the upper
    bound, that of the last message stored until then, or of the first one."""
    before = int(fixture.clock.wall() * 1000 + 0.01) / 1000
    reader = await _reader(fixture)
    now = fixture.clock.wall()
    assert await reader.query_offset("TIMESTAMP", now - 3600.0) == 0
    assert await reader.query_offset("TIMESTAMP", now + 3600.0) == 5
    for seconds, last in ((3600.0, 4), (-3600.0, 0)):
        assert await reader.probe.offset_at(reader.topic, now + seconds, boundaryType="UPPER") == last
    if fixture.number("offset.slack") == 0:
        # Where exact times are known: they were stored at this one.
        assert await reader.probe.offset_at(reader.topic, before, boundaryType="UPPER") == 4


@case("offset.reset-one-group[remoting]", rules=("R10.6",), level=MUST, needs=(*REMOTING, "@reset"))
async def reset_one_group(fixture: Fixture) -> None:
    """A reset of one group does not change the committed offset of another."""
    moved = await over_remoting(fixture)
    other = await over_remoting(fixture, topic=moved.topic)
    await moved.send(7)
    for reader in (moved, other):
        await reader.commit(5)
    await fixture.target.admin.reset_offset(moved.group, moved.topic, "beginning")
    assert (await moved.committed(), await other.committed()) == (0, 5)


@case("pull.groups-woken", rules=("live-broker-remoting.md 4",), level=EXTENSION, needs=REMOTING)
async def groups_woken(fixture: Fixture) -> None:
    """A message completes the waiting pulls of all three groups at its queue."""
    first = await over_remoting(fixture)
    readers = [first, *[await over_remoting(fixture, topic=first.topic) for _ in range(2)]]
    waiting = [asyncio.create_task(reader.pull(0, poll=15.0)) for reader in readers]
    await fixture.clock.sleep(3.0)
    (sent,) = await first.send(1)
    for page in await asyncio.gather(*waiting):
        assert page.ids == (sent.id,)
        wake_window(fixture.target).check(page.at - sent.acked_at, "a waiting pull was answered")


@case("pull.beside-receive", rules=("live-broker-remoting.md 4", "R5.18"), level=EXTENSION, needs=REMOTING)
async def beside_receive(fixture: Fixture) -> None:
    """A message completes both a waiting pull and a waiting receive of another group."""
    topic, consumer = await fixture.subscribed(1)
    reader = await over_remoting(fixture, topic=topic)
    waiting = (
        fixture.background(consumer.receive(poll=15.0)),
        fixture.background(reader.pull(0, poll=15.0)),
    )
    await fixture.clock.sleep(3.0)
    (sent,) = await fixture.send(topic, "m")
    received, page = await waiting[0], await waiting[1]
    assert [one.id for one in received.deliveries] == [sent.id]
    assert page.ids == (sent.id,)
    for at in (received.deliveries[0].at, page.at):
        wake_window(fixture.target).check(at - sent.acked_at, "a waiting consumer was answered")


@case("pull.answer-size", rules=PULLS, level=EXTENSION, needs=REMOTING)
async def answer_size(fixture: Fixture) -> None:
    """A pull returns as many messages as fit 256 KiB, and one larger message alone."""
    reader = await over_remoting(fixture)
    sizes = (100_000, 100_000, 100_000, 300_000, 100)
    for size in sizes:
        await fixture.send_over(reader.probe, reader.topic, b"m" * size)
    await reader.wait_visible(len(sizes))
    offset = 0
    for count in (2, 1, 1, 1):
        answer = await reader.probe.pull(reader.topic, reader.group, offset)
        assert [len(record.body) for record in answer.records] == [*sizes[offset : offset + count]]
        offset += count
        assert answer.next_offset == offset


# Unknown names


@case("pull.unknown-topic", rules=PULLS, level=EXTENSION, needs=REMOTING)
async def unknown_topic(fixture: Fixture) -> None:
    """A pull of a topic that does not exist is refused as such, and creates none."""
    reader = await _reader(fixture)
    name = fixture.fresh("topic")
    for _ in range(2):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, named=name)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST, (
            f"was answered with {answer.name}: {answer.remark}"
        )
        assert not answer.records


@case("pull.unknown-queue", rules=PULLS, level=EXTENSION, needs=REMOTING)
async def unknown_queue(fixture: Fixture) -> None:
    """A pull of a queue that a topic does not have is refused, and returns nothing of another queue."""
    reader = await _reader(fixture)
    for queue in (1, 9):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, queue=queue)
        # Brokers before 5.3.3 have no code for it.
        refusals = {ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR}
        assert answer.code in refusals, f"was answered with {answer.name}: {answer.remark}"
        assert not answer.records


@case("pull.unknown-group", rules=PULLS, level=EXTENSION, needs=REMOTING)
async def unknown_group(fixture: Fixture) -> None:
    """A pull of an unknown group is served, and creates the group, which can commit from then on."""
    existing = await _reader(fixture)
    reader = await over_remoting(fixture, topic=existing.topic, group=fixture.fresh("group"))
    page = await reader.pull(0)
    assert (page.outcome, page.next_offset) == ("found", 5)
    await reader.commit(3)
    assert (await reader.committed(), await existing.committed()) == (3, 0)


@case(
    "pull.commit-unknown",
    rules=LIVE,
    level=EXTENSION,
    needs=REMOTING,
    params={
        "group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "topic": ResponseCode.TOPIC_NOT_EXIST,
    },
)
async def commit_unknown(fixture: Fixture, code: ResponseCode) -> None:
    """A commit for a {} that does not exist is refused as such."""
    reader = await _reader(fixture)
    name = fixture.fresh("unknown")
    if code == ResponseCode.TOPIC_NOT_EXIST:
        answer = await reader.probe.commit(reader.topic, reader.group, 3, named=name)
    else:
        answer = await reader.probe.commit(reader.topic, name, 3)
    assert answer.code == code, f"answered with {response_text(answer)}"


# Progress


@case("pull.commit-carried", rules=PULLS, level=EXTENSION, needs=REMOTING)
async def commit_carried(fixture: Fixture) -> None:
    """A pull commits the offset that it contains, also a smaller one, and none if it contains none; a commit below 0
    counts as 0."""
    reader = await _reader(fixture)
    for commit, stored in ((4, 4), (2, 2), (None, 2)):
        answer = await reader.probe.pull(reader.topic, reader.group, 0, commit=commit)
        assert len(answer.records) == 5
        assert await reader.committed() == stored
    await reader.commit(-5)
    assert await reader.committed() == 0


@case(
    "offset.queue-resume",
    rules=("R10.4", *LIVE),
    level=EXTENSION,
    needs=REMOTING,
    params={"same": True, "other": False},
)
async def queue_resume(fixture: Fixture, is_same: bool) -> None:
    """A group continues at its committed offset after its member left, with the {} client: nothing is read again."""
    reader = await _reader(fixture)
    await reader.join()
    page = await reader.pull(0)
    assert page.next_offset == 5
    await reader.commit(5)
    await reader.leave()
    later = await reader.send(5)
    client_id = reader.probe.client_id if is_same else None
    successor = await over_remoting(fixture, topic=reader.topic, group=reader.group, client_id=client_id)
    await successor.join()
    stored = await successor.committed()
    assert stored == 5
    assert (await successor.pull(stored)).ids == tuple(one.id for one in later)


@case("offset.lag-zero[remoting]", rules=LIVE, level=SHOULD, needs=REMOTING)
async def lag_zero(fixture: Fixture) -> None:
    """A group that has committed the end of its queue has no lag; one that has committed nothing lags by all of it."""
    reader = await _reader(fixture)
    assert await reader.probe.progress(reader.topic, reader.group) == {0: Progress(0, 5)}
    await reader.commit(5)
    assert await reader.probe.progress(reader.topic, reader.group) == {0: Progress(5, 5)}


@case("offset.lag-counts[remoting]", rules=LIVE, level=SHOULD, needs=REMOTING)
async def lag_counts(fixture: Fixture) -> None:
    """Lag is counted from the committed offset, not from what was pulled."""
    reader = await _reader(fixture)
    await reader.commit(2)
    assert (await reader.pull(2)).next_offset == 5
    await reader.send(1)
    assert await reader.probe.progress(reader.topic, reader.group) == {0: Progress(2, 6)}


# Reset of progress


async def _bursts(fixture: Fixture) -> tuple[RemotingReader, float]:
    """Return a group that has read and committed two bursts of five messages, and a time between them."""
    reader = await _reader(fixture)
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    await reader.send(5)
    await reader.commit(10)
    return reader, middle


@case("offset.reset-back-time[remoting]", rules=("R10.7", *MOVED), level=SHOULD, needs=RESET)
async def reset_back_time(fixture: Fixture) -> None:
    """A group that is reset to a time before all messages continues at the first one."""
    reader, middle = await _bursts(fixture)
    await fixture.target.admin.reset_offset(reader.group, reader.topic, middle - 3600.0)
    assert await reader.committed() == 0


@case("offset.reset-forward[remoting]", rules=("R10.7", *MOVED), level=SHOULD, needs=RESET)
async def reset_forward(fixture: Fixture) -> None:
    """A group that is reset to the end continues after all messages."""
    reader, _ = await _bursts(fixture)
    await reader.commit(3)
    await fixture.target.admin.reset_offset(reader.group, reader.topic, "end")
    assert await reader.committed() == 10


@case("offset.reset-middle[remoting]", rules=("R10.7", *MOVED), level=SHOULD, needs=RESET)
async def reset_middle(fixture: Fixture) -> None:
    """A group that is reset to a time between two bursts continues at the second one, give or take one message."""
    reader, middle = await _bursts(fixture)
    await fixture.target.admin.reset_offset(reader.group, reader.topic, middle)
    assert await reader.committed() in {4, 5, 6}


@case("offset.reset-repeat[remoting]", rules=("R10.7", *MOVED), level=SHOULD, needs=RESET)
async def reset_repeat(fixture: Fixture) -> None:
    """Of three resets in a row the last one counts."""
    reader, middle = await _bursts(fixture)
    for place in ("end", "beginning", middle):
        await fixture.target.admin.reset_offset(reader.group, reader.topic, place)
    assert await reader.committed() in {4, 5, 6}


@case("offset.reset-queues", rules=("R10.7", *MOVED), level=EXTENSION, needs=REMOTING)
async def reset_queues(fixture: Fixture) -> None:
    """A reset to a time or to the end moves each queue of a topic to its own offset; a reset to an offset needs a
    queue."""
    reader = await over_remoting(fixture, topic=await fixture.topic(3))
    before = (2, 5, 8)

    async def send(counts: Sequence[int]) -> None:
        for queue, count in enumerate(counts):
            for _ in range(count):
                await fixture.send_over(reader.probe, reader.topic, b"m", queue=queue)

    await send(before)
    await fixture.clock.sleep(GAP / 2)
    middle = fixture.clock.wall()
    await fixture.clock.sleep(GAP / 2)
    await send((4, 4, 4))
    for to, more, expected in (
        (middle, {}, before),
        (None, {}, (6, 9, 12)),
        (0.0, {"offset": 3}, (0, 0, 0)),
        (0.0, {"offset": 3, "queueId": 1}, (0, 3, 0)),
    ):
        await reader.probe.reset(reader.topic, reader.group, to, **more)
        for queue, offset in enumerate(expected):
            answer = await reader.probe.committed(reader.topic, reader.group, queue=queue)
            committed = number(answer, "offset")
            assert committed is not None
            assert abs(committed - offset) <= fixture.number("offset.slack"), f"{committed} in queue {queue}"


async def _running(fixture: Fixture) -> RemotingReader:
    """Return a member that has read five messages and committed four, and whose group is reset to the first one."""
    reader = await _reader(fixture)
    await reader.join()
    await reader.commit(4)
    assert (await reader.pull(4)).next_offset == 5
    await reader.probe.reset(reader.topic, reader.group)
    return reader


async def _moved(reader: RemotingReader, position: int) -> int | None:
    """Return the offset that a member at `position` is reset to, by its next pull or a request; AssertionError if by
    none."""
    page = await reader.pull(position, poll=1.0)
    if page.outcome == "illegal":
        return page.next_offset
    try:
        return (await within(reader.fixture.clock, PROMPT, reader.probe.moved()))[0]
    except TimeoutError:
        raise AssertionError("the member was not notified of the reset") from None


@case("offset.reset-running", rules=MOVED, level=EXTENSION, needs=REMOTING)
async def reset_running(fixture: Fixture) -> None:
    """A member whose group is reset gets the new offset with its next pull or in a request, and commits from
    there."""
    reader = await _running(fixture)
    assert await _moved(reader, 5) == 0
    assert (await reader.pull(0)).texts == ("m0", "m1", "m2", "m3", "m4")
    await reader.commit(2)
    assert await reader.committed() == 2


@case("offset.reset-late-commit", rules=MOVED, level=EXTENSION, needs=REMOTING)
async def reset_late_commit(fixture: Fixture) -> None:
    """Commits by a member that is not yet notified of a reset do not undo it, and it is notified."""
    reader = await _running(fixture)
    for _ in range(2):
        await reader.commit(5)
    assert await reader.committed() == 0
    assert await _moved(reader, 5) == 0


@case("offset.reset-one-queue", rules=MOVED, level=EXTENSION, needs=REMOTING)
async def reset_one_queue(fixture: Fixture) -> None:
    """The reset of one queue moves no other, and others are committed as before; that of all moves each queue that can
    be read, also one that is not written any more."""
    topic, group, member = await fixture.topic(3), await fixture.group(), fixture.member()

    async def committed(*offsets: int) -> list[int | None]:
        """Commit offsets, one for each queue, and return what is committed then."""
        for queue, offset in enumerate(offsets):
            await member.commit(topic, group, offset, queue=queue)
        return [number(await member.committed(topic, group, queue=queue), "offset") for queue in range(3)]

    for queue in (0, 1, 1, 2, 2, 2):
        await member.send(topic, b"m", queue=queue)
    assert await committed(1, 2, 3) == [1, 2, 3]
    await member.reset(topic, group, queueId=1, offset=0)
    assert await committed() == [1, 0, 3]
    assert await committed(0, 1, 2) == [0, 0, 2], "a queue was not committed because another one was reset"
    assert (await member.pull(topic, group, 1, queue=1)).next_offset == 0
    fields = {"topic": topic, "defaultTopic": "TBW102", "topicSysFlag": 0, "order": "false", "perm": 6}
    fields |= {"topicFilterType": "SINGLE_TAG", "readQueueNums": 3, "writeQueueNums": 1}
    answer = await member.ask(topic, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == ResponseCode.SUCCESS, response_text(answer)
    await member.reset(topic, group, None)
    assert await committed() == [1, 2, 3]


@case("offset.reset-late-pull", rules=MOVED, level=EXTENSION, needs=REMOTING)
async def reset_late_pull(fixture: Fixture) -> None:
    """The commit in the pull by which a member is notified of a reset does not undo it."""
    reader = await _running(fixture)
    await reader.probe.pull(reader.topic, reader.group, 5, commit=5)
    assert await reader.committed() == 0


@case(
    "offset.reset-locked",
    rules=("R8.20", *MOVED),
    level=EXTENSION,
    needs=REMOTING,
    params={"back": 0.0, "forward": None},
)
async def reset_locked(fixture: Fixture, to: float | None) -> None:
    """A member keeps the lock of a queue in which its group is reset ({}), and continues there."""
    reader, _ = await _bursts(fixture)
    other = fixture.member()
    for member in (reader.probe, other):
        await member.join(reader.group, reader.topic)
    await reader.commit(3)
    assert await reader.probe.lock(reader.group, reader.topic, 0) == [0]
    await reader.probe.reset(reader.topic, reader.group, to)
    position = 10 if to is None else 0
    assert await _moved(reader, 3) == position
    assert await other.lock(reader.group, reader.topic, 0) == []
    await reader.send(2)
    everything = [*range(5), *range(5), *range(2)]
    assert (await reader.pull(position)).texts == tuple(f"m{n}" for n in everything[position:])
