"""Answers about offsets that only the remoting protocol gives."""

from __future__ import annotations

from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.cases.queue_reading import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.cases.stage import Stage, on_stage
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
