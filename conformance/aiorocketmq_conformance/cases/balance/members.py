"""Members of groups and their queue locks, which only the remoting protocol has."""

from __future__ import annotations

import asyncio

from aiorocketmq._admin.bodies import parse_connections
from aiorocketmq._core.remoting.bodies import BROADCASTING
from aiorocketmq._remoting.codes import RequestCode, ResponseCode

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, over_remoting
from aiorocketmq_conformance.fixture import Fixture, notices
from aiorocketmq_conformance.model.membership import LOCK_LIFE
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.tolerances import PROMPT

LIVE = ("live-broker-remoting.md 6",)
QUIET = 3.0


async def _pair(fixture: Fixture) -> tuple[str, str, RemotingProbe, RemotingProbe]:
    """Return a topic, a group, and two of its members, both notified of all joins."""
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
    """A new member is listed, and every member is notified, including the new one."""
    topic, group, first, second = await _pair(fixture)
    assert {notice.group for notice in (*first.notices, *second.notices)} == {group}
    listed = await first.members(group, topic)
    assert listed == tuple(sorted((first.client_id, second.client_id)))


@case("member.leave-notifies", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def leave_notifies(fixture: Fixture) -> None:
    """A member that unregisters is removed from the list, and the others are notified."""
    topic, group, first, second = await _pair(fixture)
    await second.leave(group, topic)
    await notices(first, 3)
    assert await first.members(group, topic) == (first.client_id,)


@case("member.hang-up-notifies", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def hang_up_notifies(fixture: Fixture) -> None:
    """A member that disconnects without unregistering is removed from the lists of all its groups, and the others are
    notified."""
    topic, group, first, second = await _pair(fixture)
    another = await fixture.group()
    await second.join(another, topic)
    await second.disconnect()
    await notices(first, 3)
    assert await first.members(group, topic) == (first.client_id,)
    assert await first.members(another, topic) == ()


@case("member.repeat-is-quiet", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def repeat_is_quiet(fixture: Fixture) -> None:
    """A heartbeat without changes causes no notifications."""
    topic, group, first, second = await _pair(fixture)
    await first.join(group, topic)
    await fixture.clock.sleep(QUIET)
    assert (len(first.notices), len(second.notices)) == (2, 1)


@case("member.topics-notify", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def topics_notify(fixture: Fixture) -> None:
    """A member that consumes another topic, too, or no longer, notifies all members of its group."""
    topic, group, first, second = await _pair(fixture)
    await second.join(group, topic, subscribed=(topic, await fixture.topic()))
    await notices(first, 3)
    await notices(second, 2)
    await second.join(group, topic)
    await notices(first, 4)
    await notices(second, 3)


@case("member.producers", rules=("remoting-protocol.md 6.16",), level=EXTENSION, needs=REMOTING)
async def producers(fixture: Fixture) -> None:
    """A producer is listed in each of its groups until it unregisters there or disconnects."""
    topic, group, another = await fixture.topic(), fixture.fresh("producers"), fixture.fresh("producers")
    first, second, reading = fixture.member(), fixture.member(), fixture.member()
    both = {first.client_id, second.client_id}

    async def listed(name: str) -> set[str]:
        answer = await reading.ask(topic, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": name})
        if answer.code != ResponseCode.SUCCESS:
            return set()
        return {client_id for client_id, *_ in parse_connections(answer.body).clients}

    for member in (first, second):
        for name in (group, another):
            await member.produce(name, topic)
    assert (await listed(group), await listed(another)) == (both, both)
    fields = {"clientID": first.client_id, "producerGroup": group}
    left = await first.ask(topic, RequestCode.UNREGISTER_CLIENT, fields)
    assert left.code == ResponseCode.SUCCESS, f"answered with {response_text(left)}"
    assert (await listed(group), await listed(another)) == ({second.client_id}, both)
    await second.disconnect()
    until = fixture.clock.now() + PROMPT
    while second.client_id in await listed(another) and fixture.clock.now() < until:
        await fixture.clock.sleep(0.5)
    assert (await listed(group), await listed(another)) == (set(), {first.client_id})


@case("member.broadcast-model", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def broadcast_model(fixture: Fixture) -> None:
    """A group of broadcasting members is listed as such, and each member reads all messages."""
    reader = await over_remoting(fixture)
    await reader.send(3)
    members = [reader, await over_remoting(fixture, topic=reader.topic, group=reader.group)]
    for each in members:
        await each.probe.join(each.group, each.topic, model=BROADCASTING)
    connections = await reader.probe.connected(reader.group, reader.topic)
    assert connections.model == BROADCASTING
    assert {name for name, *_ in connections.clients} == {each.probe.client_id for each in members}
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
    await members.pop().disconnect()
    await fixture.clock.sleep(QUIET)
    assert await members[0].members(group, topic) == (members[0].client_id,)
    assert not members[0].notices, f"{len(members[0].notices)} notifications"


@case("lock.one-owner", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def one_owner(fixture: Fixture) -> None:
    """A queue locked by one member cannot be locked by another, while other queues can."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0, 1) == [0, 1]
    assert await second.lock(group, topic, 0, 1, 2) == [2]


@case("lock.unlock-frees", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def unlock_frees(fixture: Fixture) -> None:
    """A queue that its owner unlocked, and nobody else, can be locked by another member at once."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0, 1) == [0, 1]
    await second.unlock(group, topic, 0, 1)
    assert await second.lock(group, topic, 0, 1) == []
    await first.unlock(group, topic, 0)
    assert await second.lock(group, topic, 0, 1) == [0]


@case("lock.expires", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def expires(fixture: Fixture) -> None:
    """A lock that is not renewed expires after 60 s."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0) == [0]
    await fixture.clock.sleep(LOCK_LIFE - 10.0)
    assert await second.lock(group, topic, 0) == []
    await fixture.clock.sleep(20.0)
    assert await second.lock(group, topic, 0) == [0]


@case("lock.renewed", rules=LIVE, level=EXTENSION, needs=REMOTING, timeout=150.0)
async def renewed(fixture: Fixture) -> None:
    """A lock that its owner requests again is renewed for another 60 s."""
    topic, group, first, second = await _pair(fixture)
    for _ in range(2):
        assert await first.lock(group, topic, 0) == [0]
        await fixture.clock.sleep(LOCK_LIFE - 20.0)
    assert await second.lock(group, topic, 0) == []


@case("lock.outlives-owner", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def outlives_owner(fixture: Fixture) -> None:
    """Locks of a member that unregisters are not released: they expire."""
    topic, group, first, second = await _pair(fixture)
    assert await first.lock(group, topic, 0) == [0]
    await first.leave(group, topic)
    assert await second.lock(group, topic, 0) == []


@case("reb.lock-handover[remoting]", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def lock_handover(fixture: Fixture) -> None:
    """Of three members that request locks of all seven queues each lock is held once; a later member gets a released
    queue only."""
    topic, group = await fixture.topic(7), await fixture.group()
    members = [fixture.member() for _ in range(3)]
    for member in members:
        await member.join(group, topic)
    everything = range(7)
    locked = await asyncio.gather(*(member.lock(group, topic, *everything) for member in members))
    assert sorted(queue for share in locked for queue in share) == [*everything], f"held: {locked}"
    (owner,) = (member for member, share in zip(members, locked, strict=True) if 2 in share)
    late = fixture.member()
    await late.join(group, topic)
    assert await late.lock(group, topic, *everything) == [], "a queue has two owners"
    await owner.unlock(group, topic, 2)
    assert await late.lock(group, topic, *everything) == [2]
    assert 2 not in await owner.lock(group, topic, 2), "its former owner still has the lock"


@case("lock.per-group", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def per_group(fixture: Fixture) -> None:
    """A queue locked by a member of one group can be locked by another group."""
    topic = await fixture.topic(3)
    for _ in range(2):
        group, member = await fixture.group(), fixture.member()
        await member.join(group, topic)
        assert await member.lock(group, topic, 0, 1, 2) == [0, 1, 2]
