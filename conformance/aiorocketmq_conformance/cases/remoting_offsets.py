"""Offsets and pulls of several groups over remoting, and answers that only this protocol gives."""

from __future__ import annotations

import asyncio

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.cases.queue_reading import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.cases.stage import Stage, on_stage
from aiorocketmq_conformance.cases.tolerances import wake
from aiorocketmq_conformance.probe.remoting_answers import number, told
from aiorocketmq_conformance.registry import Level, case

LIVE = ("live-broker-remoting.md 5",)


async def _reader(stage: Stage) -> RemotingReader:
    reader = await over_remoting(stage)
    assert isinstance(reader, RemotingReader)
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
