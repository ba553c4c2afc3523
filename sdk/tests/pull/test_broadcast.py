"""The file of a broadcast consumer: Java's layouts, foreign topics, damage, and a kill at any moment."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.remoting.bodies import offset_file, parse_offsets
from aiorocketmq._pull.broadcast import OffsetFile
from aiorocketmq._pull.interface import Broadcast, PullSettings
from aiorocketmq._pull.wires import remoting
from aiorocketmq.errors import UsageError
from aiorocketmq.message import MessageQueue
from hypothesis import given, strategies as st

OLD = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"TBC"
\t\t}:161,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"TBC"
\t\t}:159
\t}
}"""
"""As a Java client of 4.9.7 has written it (live-broker-remoting.md, 7.2)."""
NEW = """{
\t"offsetTable":{
\t\t{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"TBC"
\t\t}:161,
\t\t{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"TBC"
\t\t}:159
\t}
}"""
"""The same of a client of 5.5.0."""
OFFSETS = {MessageQueue("TBC", "broker-a", 0): 161, MessageQueue("TBC", "broker-a", 1): 159}
OTHER = MessageQueue("other", "broker-a", 0)


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    return OffsetFile(tmp_path, "10.0.0.5@DEFAULT", "group")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "10.0.0.5@DEFAULT/group/offsets.json"
    path.parent.mkdir(parents=True)
    return path


def test_both_layouts_of_javas_clients_are_read_and_the_newer_one_is_written() -> None:
    assert parse_offsets(OLD.encode()) == parse_offsets(NEW.encode()) == OFFSETS
    assert offset_file(OFFSETS) == NEW
    assert offset_file({}) == '{\n\t"offsetTable":{}\n}'


QUEUES = st.builds(
    MessageQueue, st.text("ab%-_", min_size=1), st.text(min_size=1, max_size=5), st.integers(0, 9)
)


@given(st.dictionaries(QUEUES, st.integers(0, 2**63 - 1)))
def test_every_table_survives_the_round_trip(offsets: dict[MessageQueue, int]) -> None:
    assert parse_offsets(offset_file(offsets).encode()) == offsets


def test_offsets_of_other_topics_stay_and_the_file_before_is_kept(file: OffsetFile, path: Path) -> None:
    path.write_text(OLD)
    assert file.load() == OFFSETS
    assert file.save({OTHER: 7}) == file.load() == OFFSETS | {OTHER: 7}
    assert path.with_suffix(".json.bak").read_text() == NEW
    assert sorted(each.name for each in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


def test_nothing_is_there_before_the_first_write(file: OffsetFile) -> None:
    assert file.load() == {}
    file.save({OTHER: 1})
    assert file.load() == {OTHER: 1}


@pytest.mark.parametrize("length", [1, 20, len(NEW) - 1])
def test_a_damaged_file_is_replaced_by_the_one_before(file: OffsetFile, path: Path, length: int) -> None:
    file.save(OFFSETS)
    file.save({OTHER: 1})
    path.write_text(NEW[:length])
    assert file.load() == OFFSETS
    path.with_suffix(".json.bak").write_text("[1]")
    with pytest.raises(UsageError, match=r"offsets\.json.*offsets\.json\.bak.*repair the file, or delete it"):
        file.load()


def test_an_empty_file_counts_as_none(file: OffsetFile, path: Path) -> None:
    path.write_bytes(b"")
    assert file.load() == {}
    file.save(OFFSETS)
    file.save({OTHER: 1})
    path.write_bytes(b"")
    assert file.load() == OFFSETS


@pytest.mark.parametrize("write", [1, 2])
def test_a_write_that_fails_leaves_what_was_there(
    file: OffsetFile, path: Path, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.save(OFFSETS)
    replace, calls = os.replace, []

    def failing(source: str, target: Path) -> None:
        calls.append(target)
        if len(calls) == write:
            raise OSError("no room")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(UsageError, match="cannot be written: no room"):
        file.save({OTHER: 1})
    assert file.load() == OFFSETS
    assert not [each for each in path.parent.iterdir() if not each.name.endswith((".json", ".bak"))]


@pytest.mark.parametrize("member", ["", ".", "..", "a/b", "a\\b"])
def test_a_member_cannot_leave_the_directory(tmp_path: Path, member: str) -> None:
    with pytest.raises(ValueError, match="must be a name"):
        OffsetFile(tmp_path, member, "group")


async def test_what_could_not_be_written_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcast = Broadcast(member="one", directory=tmp_path)
    settings = PullSettings("group", ("other",), {}, Offset.BEGIN, 32, 20.0, broadcast)
    _, calls = remoting("namesrv://localhost:9876", settings, hooks=(), options={})
    await calls.commit(OTHER, 1)

    def failing(source: str, target: Path) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(UsageError, match="cannot be written: no room"):
        await calls.commit(OTHER, 2)
    assert await calls.committed(OTHER) == 1
    monkeypatch.undo()
    await calls.commit(OTHER, 2)
    assert await calls.committed(OTHER) == 2


async def test_commits_that_come_together_are_written_at_once_and_no_offset_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, written = os.replace, 0

    def counting(source: str, target: Path) -> None:
        nonlocal written
        written += target.suffix == ".json"
        replace(source, target)

    monkeypatch.setattr(os, "replace", counting)
    broadcast = Broadcast(member="one", directory=tmp_path)
    settings = PullSettings("group", ("other",), {}, Offset.BEGIN, 32, 20.0, broadcast)
    _, calls = remoting("namesrv://localhost:9876", settings, hooks=(), options={})
    queues = [OTHER._replace(id=number) for number in range(5)]
    assert [await calls.committed(queue) for queue in queues] == [None] * 5
    await asyncio.gather(*(calls.commit(queue, queue.id) for queue in queues))
    assert written == 1
    await calls.commit(queues[1], 1)
    assert written == 1
    await calls.commit(queues[1], 8)
    assert written == 2
    assert [await calls.committed(queue) for queue in queues] == [0, 8, 2, 3, 4]
    await calls.commit(queues[1], 0)  # reading went back
    assert await calls.committed(queues[1]) == 0
    assert await calls.consumers("other") == (calls._session.client_id,)


async def test_a_cancelled_commit_waits_for_its_write_which_would_overwrite_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, begun, gate = os.replace, threading.Event(), threading.Event()

    def slow(source: str, target: Path) -> None:
        begun.set()
        gate.wait(10)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slow)
    broadcast = Broadcast(member="one", directory=tmp_path)
    settings = PullSettings("group", ("other",), {}, Offset.BEGIN, 32, 20.0, broadcast)
    _, calls = remoting("namesrv://localhost:9876", settings, hooks=(), options={})
    commit = asyncio.create_task(calls.commit(OTHER, 1))
    try:
        assert await asyncio.to_thread(begun.wait, 10)
        commit.cancel()
        await asyncio.wait([commit], timeout=0)
        assert not commit.done()
    finally:
        gate.set()
    with pytest.raises(asyncio.CancelledError):
        await commit
    await calls.commit(OTHER, 2)
    assert OffsetFile(tmp_path, "one", "group").load() == {OTHER: 2}
