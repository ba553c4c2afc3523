"""Groups that share queues as classic clients do: each member computes its assignment from the broker's member
list."""

from __future__ import annotations

import asyncio

from aiorocketmq._core.settings import FilterText
from aiorocketmq.allocation import Allocation, Averagely, AveragelyByCircle, ConsistentHash

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, case
from aiorocketmq_conformance.cases.balance.queue_group import BATCH, EACH, QUEUES, Group, Workers, group_of
from aiorocketmq_conformance.cases.shared.queues import REMOTING, over_remoting
from aiorocketmq_conformance.fixture import Fixture, notices
from aiorocketmq_conformance.model.membership import LOCK_LIFE
from aiorocketmq_conformance.tolerances import PROMPT

LIVE = ("live-broker-remoting.md 6", "live-broker-remoting.md 7.1")
STRATEGIES = {
    "averagely": Averagely(),
    "by-circle": AveragelyByCircle(),
    "consistent-hash": ConsistentHash(100),
}
# Silent members expire after 120 s; the server scans every 10 s.
EXPIRY, LOOKS = 120.0, 15.0
HEARTBEAT = 30.0
ROUNDS = 10
"""Messages in each queue between two membership changes under traffic."""


@case("strategy.shares", rules=LIVE, level=EXTENSION, needs=REMOTING, params=STRATEGIES)
async def shares(fixture: Fixture, allocation: Allocation) -> None:
    """Three members that share 5 queues, and 7, by the strategy {} agree, and read every message once."""
    for queues in (5, 7):
        group = await group_of(fixture, queues=queues, allocation=allocation)
        await group.join(3)
        await group.read()
        group.all_once()


@case("strategy.idle-members", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def idle_members(fixture: Fixture) -> None:
    """Of five members that share three queues two have none, until a member with a queue leaves."""
    group = await group_of(fixture, queues=3)
    await group.join(5)
    assert sorted(len(member.positions) for member in group.members) == [0, 0, 1, 1, 1]
    await group.read(2)
    await group.leave(next(member for member in group.members if member.positions))
    await group.read()
    group.all_once()


@case("reb.queues-latecomer", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def latecomer(fixture: Fixture) -> None:
    """A new member continues at the committed offsets: nothing is read twice, and nothing is skipped."""
    group = await group_of(fixture)
    await group.join(2)
    await group.read(2)
    late = await group.join()
    assert late.positions
    await group.read()
    group.all_once()


@case("reb.queues-leave", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def leave(fixture: Fixture) -> None:
    """The queues of a member that leaves are continued at its committed offsets."""
    group = await group_of(fixture)
    await group.join(3)
    await group.read(4)
    await group.leave(group.members[1])
    await group.read()
    group.all_once()


@case("reb.queues-crash", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def crash(fixture: Fixture) -> None:
    """After a member disconnects only what it had read and not committed is read again."""
    group = await group_of(fixture)
    await group.join(3)
    await group.read(4, commit=3)
    before = group.owners()
    await group.crash(group.members[1])
    moved = [queue for queue, owner in group.owners().items() if before[queue] != owner]
    assert moved
    await group.read()
    group.all_once(twice=[(queue, 3) for queue in moved])


@case("reb.queues-flap", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def flap(fixture: Fixture) -> None:
    """While a third member joins and leaves repeatedly, every message is read once."""
    group = await group_of(fixture)
    await group.join(2)
    for upto in range(1, EACH, 2):
        third = await group.join()
        await group.read(upto)
        await group.leave(third)
        await group.read(upto + 1)
    group.all_once()


@case("member.expires", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=240.0)
async def expires(fixture: Fixture) -> None:
    """A member that sends no heartbeats expires after 120 s, although it stays connected; the others are notified."""
    group = await group_of(fixture)
    await group.join(3)
    silent, clock = group.members[1], fixture.clock
    since, others = clock.now(), [member for member in group.members if member is not silent]
    while clock.now() < since + EXPIRY - HEARTBEAT:
        await clock.sleep(HEARTBEAT)
        for member in others:
            await member.probe.join(group.name, group.topic)
    assert silent.client_id in await others[0].probe.members(group.name, group.topic)
    group.members.remove(silent)
    for member in others:
        member.notified += 1
        left = max(0.0, since + EXPIRY + LOOKS + PROMPT - clock.now())
        await notices(member.probe, member.notified, patience=left)
    await group.share()


@case("reb.queues-all-return", rules=("live-broker-remoting.md 5",), level=EXTENSION, needs=REMOTING)
async def all_leave_return(fixture: Fixture) -> None:
    """After all members unregistered or disconnected, a new one continues at the committed offset."""
    reader = await over_remoting(fixture)
    await reader.send(5)
    for leaves_politely in (True, False):
        member = fixture.member()
        await member.join(reader.group, reader.topic)
        if leaves_politely:
            await reader.commit(3)
            await member.leave(reader.group, reader.topic)
        else:
            await member.disconnect()
    await reader.send(2)
    successor = await over_remoting(fixture, topic=reader.topic, group=reader.group)
    stored = await successor.committed()
    assert stored == 3
    assert (await successor.pull(stored)).texts == ("m3", "m4", "m0", "m1")


async def _under_traffic(fixture: Fixture, group: Group, *, crashes: bool) -> None:
    """Let members join, leave and, with `crashes`, crash while messages are sent, until all are read."""
    workers = Workers(fixture, group)
    await workers.join()
    await workers.send(ROUNDS)
    leaver, crashing = await workers.join(), await workers.join()
    await workers.send(ROUNDS)
    await workers.leave(leaver)
    await workers.send(ROUNDS)
    if crashes:
        await workers.crash(crashing)
        await workers.send(ROUNDS)
    await workers.read_all()
    await workers.end()


@case("reb.queues-traffic", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def traffic(fixture: Fixture) -> None:
    """While members join, leave and crash under traffic nothing is lost, and only messages that the former owner of a
    queue had not committed are read twice."""
    group = await group_of(fixture, each=1)
    await _under_traffic(fixture, group, crashes=True)
    twice = len(group.read_in_order) - group.sent.total()
    fixture.note("read twice", twice)
    # A former owner may still commit a batch after the new one has committed another.
    assert twice <= 2 * BATCH * group.moves, f"{twice} messages were read twice after {group.moves} moves"


@case("reb.queues-ordered", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def ordered(fixture: Fixture) -> None:
    """Members that read only queues that they have locked read each message once and each queue in order, while
    others join and leave under traffic."""
    group = await group_of(fixture, each=1)
    group.is_ordered = True
    await _under_traffic(fixture, group, crashes=False)
    group.all_once()
    for queue in range(QUEUES):
        offsets = [offset for each, offset in group.read_in_order if each == queue]
        assert offsets == sorted(offsets), f"queue {queue} was read out of order: {offsets}"


@case("reb.queues-lock-crash", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def lock_crash(fixture: Fixture) -> None:
    """A queue whose owner disconnects can be locked by another member only when its lock expires, and is continued at
    the committed offset."""
    group = await group_of(fixture, queues=1)
    owner, other = await group.join(), await group.join()
    if not owner.positions:
        owner, other = other, owner
    assert await owner.probe.lock(group.name, group.topic, 0) == [0]
    await owner.read(4, commit=3)
    await group.crash(owner)
    assert await other.probe.lock(group.name, group.topic, 0) == []
    await fixture.clock.sleep(LOCK_LIFE - LOOKS)
    await other.probe.join(group.name, group.topic)
    assert await other.probe.lock(group.name, group.topic, 0) == []
    await fixture.clock.sleep(2 * LOOKS)
    assert await other.probe.lock(group.name, group.topic, 0) == [0]
    await group.read()
    group.all_once(twice=[(0, 3)])


@case("reb.queues-increase", rules=("R3.1", *LIVE), level=EXTENSION, needs=REMOTING, timeout=150.0)
async def increase(fixture: Fixture) -> None:
    """Members share the new queues of a topic that grows, and continue in the others."""
    group = await group_of(fixture, queues=2)
    await group.join(2)
    await group.read(2)
    await fixture.target.create_topic(group.topic, queues=QUEUES)
    until = fixture.clock.now() + fixture.number("route.high")
    while (queues := await group.members[0].probe.queues(group.topic)) < QUEUES:
        assert fixture.clock.now() < until, f"the route has {queues} queues"
        await fixture.clock.sleep(1.0)
    group.queues = QUEUES
    await group.share()
    await group.send()
    await group.read()
    group.all_once()


@case("lb.queues-stalled-group", rules=("R10.1", *LIVE), level=EXTENSION, needs=REMOTING)
async def stalled_group(fixture: Fixture) -> None:
    """A group that locks and reads all queues without commits does not delay another group."""
    stalled = await group_of(fixture)
    await stalled.join(2)
    for member in stalled.members:
        assert await member.probe.lock(stalled.name, stalled.topic, *member.positions) == [*member.positions]
    await stalled.read(commit=0)
    other = Group(fixture, stalled.topic, await fixture.group(), QUEUES)
    other.sent = stalled.sent
    await other.join(2)
    for member in other.members:
        assert await member.probe.lock(other.name, other.topic, *member.positions) == [*member.positions]
    await other.read()
    other.all_once()


@case(
    "lb.queues-all-served",
    rules=("R3.7", *LIVE),
    level=EXTENSION,
    needs=REMOTING,
    params={"1": 1, "2": 2, "4": 4},
)
async def all_served(fixture: Fixture, count: int) -> None:
    """With {} member(s) of each of two groups all eight queues are read to their end, by each group."""
    first = await group_of(fixture, queues=8)
    second = Group(fixture, first.topic, await fixture.group(), 8)
    second.sent = first.sent
    for group in (first, second):
        await group.join(count)
        assert {len(member.positions) for member in group.members} == {8 // count}
    await asyncio.gather(first.read(), second.read())
    for group in (first, second):
        group.all_once()


@case("lb.queues-mixed-filters", rules=LIVE, level=INFORMATIONAL, needs=REMOTING)
async def mixed_filters(fixture: Fixture) -> None:
    """What two members of a group with different tags (misuse) read is recorded."""
    reader = await over_remoting(fixture)
    for tag in "abab":
        await reader.send(1, tag=tag)
    other = await over_remoting(fixture, topic=reader.topic, group=reader.group)
    for each, tag in ((reader, "a"), (other, "b")):
        await each.probe.join(each.group, each.topic, filter_text=FilterText(tag))
    for name, each in (("first", reader), ("second", other)):
        answer = await each.probe.pull(each.topic, each.group, 0, filter_text=None)
        tags = [record.properties().get("TAGS", "") for record in answer.records]
        fixture.note(f"tags of the {name}", "".join(tags))


@case(
    "reb.queues-topic-recreated", rules=LIVE, level=INFORMATIONAL, needs=(*REMOTING, "@delete"), timeout=120.0
)
async def topic_recreated(fixture: Fixture) -> None:
    """The committed offset of a group after its topic was deleted and created again is recorded."""
    reader = await over_remoting(fixture)
    await reader.send(5)
    await reader.commit(3)
    await fixture.target.admin.delete_topic(reader.topic)
    await fixture.target.create_topic(reader.topic, queues=1)
    successor = await over_remoting(fixture, topic=reader.topic, group=reader.group)
    await successor.send(1)
    fixture.note("committed", await successor.committed())
    page = await successor.pull(0)
    fixture.note("pull at 0", page.outcome)
    fixture.note("next", page.next_offset)
