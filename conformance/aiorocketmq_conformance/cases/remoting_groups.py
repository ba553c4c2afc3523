"""Groups that share queues over remoting: who holds a queue, where a group goes on, who is woken."""

from __future__ import annotations

import asyncio

from aiorocketmq_conformance.cases.queue_reading import REMOTING, over_remoting
from aiorocketmq_conformance.cases.stage import Stage, on_stage
from aiorocketmq_conformance.cases.tolerances import wake
from aiorocketmq_conformance.registry import Level, case

QUEUES = 7


@case(
    "reb.lock-handover[remoting]", rules=("live-broker-remoting.md 6",), level=Level.EXTENSION, needs=REMOTING
)
@on_stage
async def lock_handover(stage: Stage) -> None:
    """Three members that all want all of seven queues hold each of them once; a latecomer gets what is released,
    no sooner."""
    topic, group = await stage.topic(QUEUES), await stage.target.create_group()
    members = [stage.member() for _ in range(3)]
    for member in members:
        await member.join(group, topic)
    everything = range(QUEUES)
    held = await asyncio.gather(*(member.lock(group, topic, *everything) for member in members))
    assert sorted(queue for share in held for queue in share) == [*everything], f"held: {held}"
    (owner,) = (member for member, share in zip(members, held, strict=True) if 2 in share)
    late = stage.member()
    await late.join(group, topic)
    assert await late.lock(group, topic, *everything) == [], "a queue has two owners"
    await owner.unlock(group, topic, 2)
    assert await late.lock(group, topic, *everything) == [2]
    assert 2 not in await owner.lock(group, topic, 2), "its former owner holds a queue that was handed over"


@case("lock.per-group", rules=("live-broker-remoting.md 6",), level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def per_group(stage: Stage) -> None:
    """A queue that a member of one group has locked is free for another group."""
    topic = await stage.topic(3)
    for _ in range(2):
        group, member = await stage.target.create_group(), stage.member()
        await member.join(group, topic)
        assert await member.lock(group, topic, 0, 1, 2) == [0, 1, 2]


@case(
    "reb.queues-all-return",
    rules=("live-broker-remoting.md 5",),
    level=Level.EXTENSION,
    needs=REMOTING,
)
@on_stage
async def all_leave_return(stage: Stage) -> None:
    """After all members left, one by one or without a word, a new one goes on at the committed offset."""
    reader = await over_remoting(stage)
    await reader.send(5)
    for leaves_politely in (True, False):
        member = stage.member()
        await member.join(reader.group, reader.topic)
        if leaves_politely:
            await reader.store(3)
            await member.leave(reader.group, reader.topic)
        else:
            await member.vanish()
    await reader.send(2)
    again = await over_remoting(stage, topic=reader.topic, group=reader.group)
    stored = await again.stored()
    assert stored == 3
    assert (await again.pull(stored)).texts == ("m3", "m4", "m0", "m1")


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
