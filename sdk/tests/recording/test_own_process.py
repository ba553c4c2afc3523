"""A busy program's recording is written by a process of its own: the same rows, whatever ends first."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.filesystems import is_shared
from aiorocketmq._recording.records import Record, exact, packed, plain
from aiorocketmq._recording.writer import BUSY, BUSY_SECONDS, Pace, rows_of as rows_in
from aiorocketmq.hooks import ClientEvent, HandleEvent, Phase
from aiorocketmq.recording import BLOCKS_AT_ONCE, RECORDS_PER_BLOCK, Recorder, _Series
from aiorocketmq.recording_format import ROWS_PER_GROUP

from sdk.tests.recording.events_as_rows import (
    CONSUMER,
    PRODUCER,
    Instants,
    asked,
    delivered,
    received,
    rows_of,
)

parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="recordings stay in their process on this system")

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows are many."""
    monkeypatch.setattr("aiorocketmq._recording.writer.BUSY", 2)


def moved(recorder: Recorder, **clock: Any) -> Recorder:
    """A recorder whose facts go to another process from here on."""
    series, until = series_of(recorder), time.monotonic() + PATIENCE
    while not series.writer.is_elsewhere:
        assert time.monotonic() < until, "no process has taken over"
        series.writer.write(series._due)
        time.sleep(0.01)
    return recorder


def begun(folder: Path, **more: Any) -> Recorder:
    recorder = Recorder(folder, **more)
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    return recorder


def series_of(recorder: Recorder) -> _Series:
    assert recorder._series is not None
    return recorder._series


def written(recorder: Recorder) -> None:
    """Wait until what was given to the writer so far is done."""
    series_of(recorder).writer._thread.submit(lambda: None).result(PATIENCE)


def child_of(recorder: Recorder) -> subprocess.Popen[bytes]:
    process = series_of(recorder).writer._process
    assert process is not None
    return process._child


def eventually(claim: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_it_continues_with_the_account_and_the_numbers_of_the_files(tmp_path: Path) -> None:
    clock = Instants()
    recorder = begun(tmp_path / "runs", clock=clock)
    recorder.observe(asked(1))
    moved(recorder)
    clock.now = 1_001.0
    for number in range(2, 3_000):
        recorder.observe(asked(number))
    recorder.observe(ClientEvent(client=CONSUMER, running=True))
    recorder.observe(delivered(received("M1")))
    recorder.observe(asked_end := _end_of(1))
    recorder.observe(ClientEvent(client=CONSUMER, running=False))
    recorder.observe(ClientEvent(client=PRODUCER, running=False))
    rows = rows_of(recorder)
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert rows[-1]["kind"] == "recorder.end"
    assert len({row["recorder"] for row in rows}) == 1
    end = next(row for row in rows if row["op_id"] == f"p@1/{asked_end.operation}" and row["phase"] == "ok")
    assert (end["invoked_us"], end["invoked_seq"]) == (1_000_000_000, 2)
    files = sorted(file.name for file in recorder.folder.iterdir())
    assert [name.rpartition("-")[2] for name in files] == ["00000.parquet", "00001.parquet"]


def _end_of(number: int) -> Any:
    from dataclasses import replace

    return replace(asked(number), phase=Phase.OK)


def test_what_was_recorded_is_written_when_the_program_is_killed(tmp_path: Path) -> None:
    program = """
import os, sys, time
from aiorocketmq._recording import writer
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Phase, Role, SettingsEvent
from aiorocketmq.recording import RECORDS_PER_BLOCK, Recorder
writer.BUSY = 2
recorder = Recorder(sys.argv[1])
client = ClientIdentity("p@1", Role.PRODUCER)
recorder.observe(ClientEvent(client=client, running=True))
series = recorder._series
while not series.writer.is_elsewhere:
    series.writer.write(series._due)
    time.sleep(0.01)
child = series.writer._process._child.pid
print(child, flush=True)
os.kill(child, 19)  # it reads nothing before this process has died
for _ in range(10_000):
    recorder.observe(SettingsEvent(client=client, ordered=False, max_attempts=3))
series.writer._thread.submit(lambda: series.writer._write(*series._due()) or os.kill(os.getpid(), 9)).result()
"""
    died = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60, stdout=subprocess.PIPE
    )
    assert died.returncode == -signal.SIGKILL
    os.kill(int(died.stdout), signal.SIGCONT)
    eventually(lambda: len(list(tmp_path.glob("*-00001.parquet"))) == 1)
    rows = [row for file in tmp_path.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert sorted(row["seq"] for row in rows) == list(range(2 + 10_000))
    assert "recorder.end" not in {row["kind"] for row in rows}
    assert list(tmp_path.glob("*.open")) == []


def test_a_moment_without_records_is_passed_on_since_the_age_of_the_file_is_checked_there(
    tmp_path: Path,
) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    child, series = child_of(recorder), recorder._series
    assert series is not None
    writer, process = series.writer, series.writer._process
    assert process is not None
    os.kill(child.pid, signal.SIGSTOP)
    try:
        writer.write(lambda: ([], []))
        before = writer._thread.submit(lambda: len(process._ring._blocks)).result()
        writer.write(lambda: ([], []))
        after = writer._thread.submit(lambda: len(process._ring._blocks)).result()
    finally:
        os.kill(child.pid, signal.SIGCONT)
    recorder.close()
    assert after == before + 1


def test_a_process_that_is_killed_ends_the_recording_and_is_reported_at_close(tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    child = child_of(recorder)
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    recorder.observe(asked(1))
    with pytest.raises(OSError, match="ended with code -9"):
        recorder.close()
    assert child.returncode == -signal.SIGKILL
    rows = [row for file in recorder.folder.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert "recorder.end" not in {row["kind"] for row in rows}


def test_a_process_that_is_killed_while_the_program_waits_for_room_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._recording.process.ROOM", 200_000)
    recorder = moved(begun(tmp_path / "runs"))
    child, series = child_of(recorder), recorder._series
    assert series is not None
    os.kill(child.pid, signal.SIGSTOP)
    block = packed([(kinds.FAULT, 1, 1, None, {"kind": "x" * 150_000})])
    for _ in range(2):
        series.writer.write(lambda: ([block], []))
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(OSError, match="ended with code -9"):
        recorder.close()


def test_a_disk_that_fails_there_is_reported_at_close(tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    shutil.rmtree(recorder.folder)
    recorder.folder.write_text("a file, not a folder")
    recorder.observe(asked(1))
    with pytest.raises(OSError, match="runs"):
        recorder.close()


def test_a_fact_that_cannot_become_a_row_ends_the_recording_and_the_process(tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    child = child_of(recorder)
    recorder.observe(HandleEvent(client=PRODUCER, phase=Phase.OK, message=None))  # type: ignore[arg-type]
    for number in range(RECORDS_PER_BLOCK):
        recorder.observe(asked(number))
    with pytest.raises(AttributeError):
        recorder.close()
    assert child.returncode == 0
    rows = [row for file in recorder.folder.glob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert "recorder.end" not in {row["kind"] for row in rows}


def test_an_error_of_the_process_leaves_the_rows_before_it_in_a_complete_file(tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    series = series_of(recorder)
    for number in range(ROWS_PER_GROUP):
        recorder.observe(asked(number))
    record = kinds.HANDLING, 1, 1, None, "a client that never started", 1, 1, 1
    series.writer.write(series._due)
    series.writer.write(lambda: ([packed([record])], []))
    with pytest.raises(OSError, match="a client that never started"):
        recorder.close()
    files = list(recorder.folder.iterdir())
    assert {file.suffix for file in files} == {".parquet"}
    assert sum(parquet.read_metadata(file).num_rows for file in files) > ROWS_PER_GROUP


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_that_are_meant_for_the_program_do_not_end_it(name: str, tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    os.kill(child_of(recorder).pid, getattr(signal, name))
    recorder.observe(asked(1))
    assert rows_of(recorder)[-1]["kind"] == "recorder.end"


def test_without_another_program_to_start_it_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "aiorocketmq.recording")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    recorder = begun(tmp_path / "runs")
    for number in range(3_000):
        recorder.observe(asked(number))
    assert len(rows_of(recorder)) == 3_000 + 3
    assert caplog.text.count("stays in this process") == 1  # it is not tried again


def stays(recorder: Recorder, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Wait for the report that no process has taken over, and check that nothing is lost."""
    series = series_of(recorder)

    def is_reported() -> bool:
        series.writer.write(series._due)
        return reason in caplog.text

    eventually(is_reported)
    recorder.observe(asked(1))
    assert [row["seq"] for row in rows_of(recorder)] == [0, 1, 2, 3]


def test_if_the_process_ends_at_its_start_the_recording_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "aiorocketmq.recording")
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    stays(begun(tmp_path / "runs"), caplog, "ended at its start with code 1")


def test_if_the_disk_is_full_when_the_process_takes_over_the_recording_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "aiorocketmq.recording")
    monkeypatch.setattr(os, "pwrite", no_space)
    stays(begun(tmp_path / "runs"), caplog, "No space left")


def test_if_the_disk_is_full_later_the_recording_ends_and_close_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    process = child_of(recorder)
    monkeypatch.setattr(os, "pwrite", no_space)
    recorder.observe(asked(1))
    with pytest.raises(OSError, match="No space left"):
        recorder.close()
    assert process.returncode == 0


def no_space(file: int, data: memoryview, offset: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_blocks_that_are_written_in_parts_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:1_000], offset))
    recorder = moved(begun(tmp_path / "runs"))
    for number in range(1_000):
        recorder.observe(asked(number))
    assert len(rows_of(recorder)) == 1_000 + 3


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list open files")
@pytest.mark.parametrize("takes_over", [True, False])
def test_a_recorder_that_is_closed_has_no_file_open(takes_over: bool, tmp_path: Path) -> None:
    def files() -> set[str]:
        folder = Path("/proc/self/fd")
        return {os.readlink(file) for file in folder.iterdir() if file.is_symlink()}

    before = files()
    recorder = begun(tmp_path / "runs")
    series = series_of(recorder)
    if takes_over:
        moved(recorder)
    else:
        series.writer.write(series._due)
        written(recorder)
    assert len(files() - before) >= 3  # two pipes and a file
    recorder.close()
    assert {name for name in files() - before if not name.startswith("/proc")} == set()


def test_a_process_that_is_not_needed_after_all_is_ended(tmp_path: Path) -> None:
    recorder = begun(tmp_path / "runs")
    series = series_of(recorder)
    series.writer.write(series._due)
    written(recorder)
    child = child_of(recorder)
    assert rows_of(recorder)[-1]["kind"] == "recorder.end"
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("more", [{"own_process": False}, {"filesystem": "memory"}, {"frozen": True}])
def test_it_stays_if_no_other_process_can_write_or_shall(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "frozen" in more:  # the executable is the program itself, and no Python
        monkeypatch.setattr("sys.frozen", more.pop("frozen"), raising=False)
    if "filesystem" in more:
        more = {"filesystem": pytest.importorskip("fsspec").filesystem(more["filesystem"])}
    recorder = begun(tmp_path / "runs", **more)
    for number in range(3_000):
        recorder.observe(asked(number))
    writer = series_of(recorder).writer
    recorder.close()
    assert writer._process is None


def write_start(statement: str, folder: Path) -> None:
    """Write what a process executes at its start if the folder is on the path of the program."""
    folder.mkdir()
    program = f"from aiorocketmq._recording import process_main\n{statement}\n"
    (folder / "sitecustomize.py").write_text(program)


def start_with(statement: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each process execute a statement at its start."""
    write_start(statement, folder)
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def no_idle_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started see a machine whose cores are never idle."""
    start_with("process_main.SPARE = float('inf')", tmp_path / "site", monkeypatch)


@pytest.fixture
def idle_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started see a machine whose cores are idle."""
    start_with("process_main.SPARE = float('-inf')", tmp_path / "site", monkeypatch)


def test_the_process_imports_what_the_program_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own path may have been set in the program itself."""
    mark = tmp_path / "imported"
    start_with(f"open({str(mark)!r}, 'w').close()", tmp_path / "site", monkeypatch)
    moved(begun(tmp_path / "runs")).close()
    assert mark.exists()


def test_it_ends_with_the_program_also_if_a_fork_of_that_keeps_its_input_open(tmp_path: Path) -> None:
    program = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from aiorocketmq._recording import writer
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Role
from aiorocketmq.recording import Recorder
writer.BUSY = 2
recorder = Recorder(sys.argv[1])
client = ClientIdentity("p@1", Role.PRODUCER)
recorder.observe(ClientEvent(client=client, running=True))
series = recorder._series
while not series.writer.is_elsewhere:
    series.writer.write(series._due)
    time.sleep(0.01)
recorder.note_fault("crash")
series.writer._thread.submit(lambda: series.writer._write(*series._due())).result()
forked = os.fork()
if not forked:
    time.sleep(60)
    os._exit(0)
with open(sys.argv[3], "w") as file:
    file.write(str(forked))
os.kill(os.getpid(), 9)
"""
    runs, site, forked = tmp_path / "runs", tmp_path / "site", tmp_path / "forked"
    write_start("process_main._LOOKS_FOR_ITS_PARENT = 0.05", site)
    words = sys.executable, "-c", program, str(runs), str(site), str(forked)
    died = subprocess.run(words, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    try:
        eventually(lambda: len(list(runs.glob("*-00001.parquet"))) == 1)
    finally:
        os.kill(int(forked.read_text()), signal.SIGKILL)


def test_it_takes_its_share_of_the_processor_only_while_a_quarter_of_the_room_is_unread() -> None:
    program = """
import os
from aiorocketmq._recording.process import PLACE
from aiorocketmq._recording.process_main import _Serving
ours, theirs = os.pipe()
os.dup2(ours, 0)
serving = _Serving(os.getppid(), spool=-1, room=100)
for place in [(0, 20), (20, 5), (25, 1)]:
    os.write(theirs, PLACE.pack(*place))
    print(serving._is_waited_for())
for _ in range(3):
    print(serving._next(), serving._is_waited_for())
os.close(theirs)
print(serving._next(), serving._is_waited_for())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "False",
        "False",
        "True",
        "(0, 20) False",
        "(20, 5) False",
        "(25, 1) False",
        "None True",
    ]


@pytest.mark.usefixtures("idle_time")
def test_little_room_is_used_if_blocks_are_read_as_fast_as_they_are_written(tmp_path: Path) -> None:
    recorder = moved(begun(tmp_path / "runs"))
    series = series_of(recorder)
    process = series.writer._process
    assert process is not None
    block = packed([(kinds.FAULT, 1, 1, None, {"kind": "x" * 100_000})])
    for _ in range(20):
        series.writer.write(lambda: ([block], []))
        written(recorder)
        while not process._ring.is_empty:
            assert process._poll.poll(1_000 * PATIENCE)
            process._listen()
    size = os.fstat(process._spool.fileno()).st_size
    recorder.close()
    assert size < 5 * len(block)


@pytest.mark.usefixtures("no_idle_time")
def test_where_there_is_no_room_it_is_waited_for_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._recording.process.ROOM", 200_000)
    recorder = moved(begun(tmp_path / "runs"))
    for number in range(20_000):
        recorder.observe(asked(number))
    assert len(rows_of(recorder)) == 20_000 + 3


@pytest.mark.usefixtures("no_idle_time")
def test_a_pipe_that_cannot_be_enlarged_does_not_make_the_program_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._recording.process._MANY_PLACES", 1)
    recorder = moved(begun(tmp_path / "runs"))
    series = series_of(recorder)
    for _ in range(2_000):
        series.writer.write(lambda: ([], []))
    written(recorder)
    assert rows_of(recorder)[-1]["kind"] == "recorder.end"


@pytest.mark.usefixtures("no_idle_time")
def test_what_waits_for_a_process_that_is_paused_is_bounded_and_the_gap_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._recording.process.ROOM", 200_000)
    monkeypatch.setattr("aiorocketmq.recording.MOST_WAITING", 2_000)
    recorder = moved(begun(tmp_path / "runs"))
    series = series_of(recorder)
    child = child_of(recorder)
    os.kill(child.pid, signal.SIGSTOP)
    for number in range(30_000):
        recorder.observe(asked(number))
    assert len(series._records) <= 2_000 + RECORDS_PER_BLOCK
    assert len(series._packed) <= 2 * BLOCKS_AT_ONCE
    os.kill(child.pid, signal.SIGCONT)
    seqs = [row["seq"] for row in rows_of(recorder)]
    assert seqs[-1] > len(seqs) - 1 > 1_000
    assert len(set(seqs)) == len(seqs)


def test_many_rows_within_seconds_are_busy_and_as_many_within_a_minute_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiorocketmq._recording.writer.BUSY", BUSY)
    assert Pace().is_busy(BUSY, 100.0)
    fast = Pace()
    assert [fast.is_busy(BUSY // 8, 100.0 + each / 8) for each in range(8)] == [*[False] * 7, True]
    slow = Pace()
    assert not any(slow.is_busy(BUSY // 8, 100.0 + each * BUSY_SECONDS / 4) for each in range(20))


def test_an_answer_has_as_many_rows_as_messages() -> None:
    now = (1, 1, None)
    records: list[Record] = [
        (kinds.DELIVERED, *now, "c@1", "1", (), 7, [(), (), ()]),
        (kinds.HANDLING, *now, "c@1", 1, 7, 1),
        (kinds.ACKING, *now, "c@1", 2, [(7, 1, None), (8, 1, None)]),
    ]
    assert rows_in(records) == 3 + 1 + 2


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_part_of_a_file_system_is_shared_if_the_whole_is(is_in_memory: bool) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    whole = fs.LocalFileSystem()
    if is_in_memory:
        whole = fs.PyFileSystem(fs.FSSpecHandler(pytest.importorskip("fsspec").filesystem("memory")))
    assert is_shared(whole) is is_shared(fs.SubTreeFileSystem("/part", whole)) is not is_in_memory


def test_words_of_types_of_somebodys_own_go_over_as_what_they_say() -> None:
    class Topic(StrEnum):
        ORDERS = "orders"

    class Count(int):
        pass

    value = exact((Topic.ORDERS, [Count(3), True, None, 1.5], {Topic.ORDERS: b"x"}))
    assert value == ("orders", [3, True, None, 1.5], {"orders": b"x"})
    assert [type(each) for each in (value[0], value[1][0], value[1][1], *value[2])] == [str, int, bool, str]
    from aiorocketmq._recording import records
    from aiorocketmq.hooks import SendEvent
    from aiorocketmq.message import Message

    event = SendEvent(
        client=PRODUCER,
        phase=Phase.INVOKE,
        operation="1",
        message=Message(Topic.ORDERS, b"1"),
        message_id="M1",
    )
    assert b"orders" in packed(plain([(records.RAW_EVENT, 1, 1, None, event)]))
