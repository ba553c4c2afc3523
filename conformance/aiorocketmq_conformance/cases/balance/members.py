"""Members of groups and their queue locks, which only the remoting protocol has."""

from __future__ import annotations

import asyncio

from aiorocketmq._core.remoting.bodies import BROADCASTING

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, over_remoting
from aiorocketmq_conformance.fixture import Fixture, notices
from aiorocketmq_conformance.probe.remoting import RemotingProbe

LIVE = ("live-broker-remoting.md 6",)
QUIET = 3.0
# Seconds after which a lock that is not renewed ends; measured 60.2 to 60.3 s.
LOCK_LIFE = 60.0


async def _pair(fixture: Fixture) -> tuple[str, str, RemotingProbe, RemotingProbe]:
    """A topic, a group, and two of its members, each of which has been told of all joins."""
    topic, group = await fixture.topic(), await fixture.group()
    first, second = fixture.member(), fixture.member()
    await first.join(group, topic)
    await notices(first, 1)
    await second.join(group, topic)
    await notices(first, 2)
    await notices(second, 1)
    return topic, group, first, second


@case("member.join-notifies", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def join_notifies(fixture: Fixture) -> None:
    """Who joins a group is listed, and every member is told, the new one too."""
    topic, group, first, second = await _pair(fixture)
    assert {notice.group for notice in (*first.notices, *second.notices)} == {group}
    listed = await first.members(group, topic)
    assert listed == tuple(sorted((first.client_id, second.client_id)))


@case("member.leave-notifies", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def leave_notifies(fixture: Fixture) -> None:
    """Who says that it leaves is listed no more, and the others are told."""
    topic, group, first, second = await _pair(fixture)
    await second.leave(group, topic)
    await notices(first, 3)
    assert await first.members(group, topic) == (first.client_id,)


@case("member.hang-up-notifies", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def hang_up_notifies(fixture: Fixture) -> None:
    """Who hangs up without a word is listed no more, and the others are told."""
    topic, group, first, second = await _pair(fixture)
    await second.vanish()
    await notices(first, 3)
    assert await first.members(group, topic) == (first.client_id,)


@case("member.repeat-is-quiet", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def repeat_is_quiet(fixture: Fixture) -> None:
    """A heartbeat that says nothing new tells nobody of a change."""
    topic, group, first, second = await _pair(fixture)
    await first.join(group, topic)
    await fixture.clock.sleep(QUIET)
    assert (len(first.notices), len(second.notices)) == (2, 1)


@case("member.broadcast-model", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def broadcast_model(fixture: Fixture) -> None:
    """A group whose members broadcast is listed as such, and each member reads everything."""
    reader = await over_remoting(fixture)
    await reader.send(3)
    members = [reader, await over_remoting(fixture, topic=reader.topic, group=reader.group)]
    for each in members:
        await each.probe.join(each.group, each.topic, model=BROADCASTING)
    known = await reader.probe.connected(reader.group, reader.topic)
    assert known.model == BROADCASTING
    assert {name for name, *_ in known.clients} == {each.probe.client_id for each in members}
    for each in members:
        assert (await each.pull(0)).texts == ("m0", "m1", "m2")


@case("member.broadcast-quiet", rules=("remoting-protocol.md 6.2",), level=EXTENSION, needs=REMOTING)
async def broadcast_quiet(fixture: Fixture) -> None:
    """Members that broadcast share nothing: no member is notified when others join or leave."""
    topic, group = await fixture.topic(), await fixture.group()
    members = [fixture.member() for _ in range(3)]
    for member in members:
        await member.join(group, topic, model=BROADCASTING)
    await members.pop().leave(group, topic)
    await members.pop().vanish()
    await fixture.clock.sleep(QUIET)
    assert await members[0].members(group, topic) == (members[0].client_id,)
    assert not members[0].notices, f"{len(members[0].notices)} notifications"


@case("lock.one-owner", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def one_owner(fixture: Fixture) -> None:
    """A queue that one member has locked is not given to another, while others are free."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0, 1) == [0, 1]
    assert await second.lock(group, topic, 0, 1, 2) == [2]


@case("lock.unlock-frees", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def unlock_frees(fixture: Fixture) -> None:
    """A queue that its owner unlocked may be locked by another at once."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0, 1) == [0, 1]
    await first.unlock(group, topic, 0)
    assert await second.lock(group, topic, 0, 1) == [0]


@case("lock.expires", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def expires(fixture: Fixture) -> None:
    """A lock that is not renewed keeps the queue for 60 s, and no longer."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0) == [0]
    await fixture.clock.sleep(LOCK_LIFE - 10.0)
    assert await second.lock(group, topic, 0) == []
    await fixture.clock.sleep(20.0)
    assert await second.lock(group, topic, 0) == [0]


@case("lock.renewed", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def renewed(fixture: Fixture) -> None:
    """A lock that its owner takes again is kept for another 60 s."""
    topic, group, first, second = await _pair(fixture)
    for _ in range(2):
        assert await first.lock(group, topic, 0) == [0]
        await fixture.clock.sleep(LOCK_LIFE - 20.0)
    assert await second.lock(group, topic, 0) == []


@case("lock.outlives-owner", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def outlives_owner(fixture: Fixture) -> None:
    """A member that leaves takes its locks not with it: they end by their time."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0) == [0]
    await first.leave(group, topic)
    assert await second.lock(group, topic, 0) == []


@case("reb.lock-handover[remoting]", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def lock_handover(fixture: Fixture) -> None:
    """Three members that all want all of seven queues hold each of them once; a latecomer gets what is released,
    no sooner."""
    topic, group = await fixture.topic(7), await fixture.group()
    members = [fixture.member() for _ in range(3)]
    for member in members:
        await member.join(group, topic)
    everything = range(7)
    held = await asyncio.gather(*(member.lock(group, topic, *everything) for member in members))
    assert sorted(queue for share in held for queue in share) == [*everything], f"held: {held}"
    (owner,) = (member for member, share in zip(members, held, strict=True) if 2 in share)
    late = fixture.member()
    await late.join(group, topic)
    assert await late.lock(group, topic, *everything) == [], "a queue has two owners"
    await owner.unlock(group, topic, 2)
    assert await late.lock(group, topic, *everything) == [2]
    assert 2 not in await owner.lock(group, topic, 2), "its former owner holds a queue that was handed over"


@case("lock.per-group", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def per_group(fixture: Fixture) -> None:
    """A queue that a member of one group has locked is free for another group."""
    topic = await fixture.topic(3)
    for _ in range(2):
        group, member = await fixture.group(), fixture.member()
        await member.join(group, topic)
        assert await member.lock(group, topic, 0, 1, 2) == [0, 1, 2]
