"""The files of a recorder: whole ones bear their names, and what was cut says so."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._session.events import Answer
from aiorocketmq.errors import UsageError
from aiorocketmq.hooks import ClientEvent, HandleEvent, Phase
from aiorocketmq.recording import RECORDS_PER_BLOCK, Recorder
from aiorocketmq.subscription import Tags

from sdk.tests.recording.events_as_rows import (
    CONSUMER,
    PRODUCER,
    asked,
    delivered,
    received,
    rows_of,
    sheet_of,
)

parquet = pytest.importorskip("pyarrow.parquet")


def quiet_recorder(tmp_path: Path, **more: Any) -> Recorder:
    recorder = Recorder(tmp_path / "runs", **more)
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.INVOKE, running=True))
    return recorder


def appeared(folder: Path, pattern: str) -> list[Path]:
    """Wait for files; they are made by a thread that offers no wait."""
    deadline = time.monotonic() + 30
    while not (paths := sorted(folder.glob(pattern))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return paths


def test_a_file_bears_its_final_name_only_when_it_is_complete(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, rows_per_file=1)
    assert list(tmp_path.iterdir()) == []
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    recorder.close()
    assert [file.suffix for file in tmp_path.iterdir()] == [".parquet"]


def test_large_bodies_are_handed_over_long_before_the_block_is_full(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over: list[object] = []
    recorder.observe(ClientEvent(client=CONSUMER, running=True))
    assert recorder._series is not None
    monkeypatch.setattr(recorder._series.writer, "write", handed_over.append)
    for number in range(4):
        recorder.observe(delivered(received(f"M{number}", bytes(3 << 20)), number))
    assert len(handed_over) == 2


def test_a_disk_that_fails_is_reported_at_close_and_never_to_the_client(tmp_path: Path) -> None:
    in_the_way = tmp_path / "runs"
    in_the_way.write_text("a file, not a folder")
    recorder = Recorder(in_the_way)
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    with pytest.raises(OSError, match="runs"):
        recorder.close()


def test_a_fact_that_cannot_become_a_row_ends_the_recording_and_cuts_it_visibly(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    recorder.observe(HandleEvent(client=CONSUMER, phase=Phase.OK, message=None))  # type: ignore[arg-type]
    recorder.observe(asked(2))
    with pytest.raises(AttributeError):
        recorder.close()
    rows = [row for file in tmp_path.iterdir() for row in parquet.read_table(file).to_pylist()]
    assert "recorder.end" not in {row["kind"] for row in rows}


def test_the_first_of_several_errors_is_raised_by_close_and_never_by_an_event(tmp_path: Path) -> None:
    recorder = quiet_recorder(tmp_path)
    assert recorder._series is not None
    writer = recorder._series.writer
    for text in ("first", "second"):
        writer.fail(ValueError(text))
    writer._thread.submit(lambda: None).result()
    assert writer.has_failed
    recorder.observe(ClientEvent(client=PRODUCER, running=False))
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            recorder.close()


def test_a_program_that_ends_without_closing_leaves_a_complete_recording(tmp_path: Path) -> None:
    program = """
import sys
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Role
from aiorocketmq.recording import Recorder
Recorder(sys.argv[1]).observe(ClientEvent(client=ClientIdentity("p@1", Role.PRODUCER), running=True))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    (file,) = tmp_path.iterdir()
    kinds = [row["kind"] for row in parquet.read_table(file).to_pylist()]
    assert kinds == ["recorder.start", "client.start", "recorder.end"]


def test_without_pyarrow_one_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("writer", "pipeline", "columns", "filesystems"):
        monkeypatch.delitem(sys.modules, f"aiorocketmq._recording.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'aiorocketmq\[recording\]'"):
        Recorder(tmp_path)


def test_a_program_with_little_to_tell_has_its_files_completed_in_time(tmp_path: Path) -> None:
    recorder = quiet_recorder(tmp_path, seconds_per_file=0.1)
    first = appeared(recorder.folder, "*-00000.parquet")
    kinds = [row["kind"] for row in parquet.read_table(first[0]).to_pylist()]
    assert kinds[0] == "recorder.start"
    rows = rows_of(recorder)
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert rows[-1]["kind"] == "recorder.end"


def test_a_new_file_is_begun_after_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq.recording_format.ROWS_PER_GROUP", RECORDS_PER_BLOCK)
    recorder = Recorder(tmp_path, rows_per_file=RECORDS_PER_BLOCK)
    for number in range(3 * RECORDS_PER_BLOCK):
        recorder.observe(asked(number))
    rows = rows_of(recorder)
    files = sorted(recorder.folder.glob("*.parquet"))
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert [parquet.read_metadata(file).num_rows for file in files][:3] == [RECORDS_PER_BLOCK] * 3


def test_bodies_that_wait_for_the_disk_are_bounded_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq.recording.MOST_BYTES_WAITING", 0)
    recorder = quiet_recorder(tmp_path)
    recorder.observe(asked(1))
    rows = rows_of(recorder)
    assert [row["kind"] for row in rows] == ["recorder.end"]
    assert rows[0]["seq"] > 1


def test_an_answer_that_is_left_out_leaves_a_gap_of_all_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = quiet_recorder(tmp_path)
    tap = recorder._tap()
    assert tap is not None
    monkeypatch.setattr("aiorocketmq.recording.MOST_WAITING", 0)
    messages = [received(f"M{number}") for number in range(3)]
    tap.delivered(CONSUMER, Answer(operation=None, broker="broker-a", filter=Tags("*")), 1, messages)
    rows = rows_of(recorder)
    assert [(row["kind"], row["seq"]) for row in rows] == [("recorder.start", 0), ("recorder.end", 4)]


def test_growing_numbers_are_written_as_differences_and_rows_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    recorder = quiet_recorder(tmp_path)
    recorder.close()
    group = parquet.read_metadata(next(recorder.folder.glob("*.parquet"))).row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["seq"].encodings
    assert any("DICTIONARY" in name for name in columns["kind"].encodings)
    assert not any("DICTIONARY" in name for name in columns["message_id"].encodings)
    assert group.sorting_columns[0].column_index == 4


@pytest.mark.parametrize("kind", ["memory address", "memory object", "file address", "subtree"])
def test_a_recording_is_written_to_any_file_system(kind: str, tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    local = fs.LocalFileSystem()
    folder, filesystem, reader = {
        "memory address": (f"memory://{tmp_path.name}/runs", None, fs.PyFileSystem(fs.FSSpecHandler(memory))),
        "memory object": (f"/{tmp_path.name}/runs", memory, fs.PyFileSystem(fs.FSSpecHandler(memory))),
        "file address": (f"file://{tmp_path}/runs", None, local),
        "subtree": (
            "runs",
            fs.SubTreeFileSystem(str(tmp_path), local),
            fs.SubTreeFileSystem(str(tmp_path), local),
        ),
    }[kind]
    recorder = Recorder(folder, filesystem=filesystem)
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.INVOKE, running=True))
    recorder.close()
    path = {"subtree": "runs", "file address": f"{tmp_path}/runs"}.get(kind, f"/{tmp_path.name}/runs")
    files = [info.path for info in reader.get_file_info(fs.FileSelector(path))]
    assert len(files) == 1
    assert files[0].endswith("-00000.parquet")
    rows = parquet.read_table(files[0], filesystem=reader).to_pylist()
    assert [row["kind"] for row in rows] == ["recorder.start", "recorder.end"]
    assert rows[0]["run_id"] == "runs"


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("runs", "{here}/runs"),
        ("runs/", "{here}/runs"),
        ("file:///here/runs/", "/here/runs"),
        ("memory://here/runs/", "/here/runs"),
    ],
)
def test_a_folder_is_the_same_with_a_slash_at_its_end(
    folder: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one is where it is even if the program changes its directory later."""
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(folder)
    assert (recorder._place[1], recorder.run_id) == (path.format(here=tmp_path), "runs")


def test_a_path_in_a_file_system_that_is_given_is_the_same_with_a_slash_at_its_end() -> None:
    filesystem = pytest.importorskip("pyarrow.fs").LocalFileSystem()
    recorder = Recorder("/here/runs/", filesystem=filesystem)
    assert (recorder._place, recorder.run_id) == ((filesystem, "/here/runs"), "runs")


@pytest.mark.parametrize(
    ("folder", "given", "sentence"),
    [("nowhere://runs", None, "install fsspec"), ("runs", object(), "neither")],
)
def test_an_unknown_address_is_refused_with_a_sentence(
    folder: str, given: object | None, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Recorder(folder, filesystem=given)


def test_a_process_that_dies_leaves_whole_files_and_one_that_says_it_is_cut(tmp_path: Path) -> None:
    program = """
import os, sys
from aiorocketmq import recording_format
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Phase, Role, SendEvent
from aiorocketmq.message import Message
from aiorocketmq.recording import RECORDS_PER_BLOCK, Recorder
recording_format.ROWS_PER_GROUP = RECORDS_PER_BLOCK
recorder = Recorder(sys.argv[1], rows_per_file=2 * RECORDS_PER_BLOCK, own_process=False)
client = ClientIdentity("p@1", Role.PRODUCER)
for number in range(5 * RECORDS_PER_BLOCK):
    recorder.observe(
        SendEvent(
            client=client,
            operation=str(number),
            phase=Phase.INVOKE,
            message=Message("orders", b"1"),
            message_id=str(number),
        )
    )
recorder._series.writer._thread.submit(lambda: os.kill(os.getpid(), 9)).result()
"""
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    whole, cut = sorted(tmp_path.glob("*.parquet")), list(tmp_path.glob("*.parquet.open"))
    rows = [row for file in whole for row in parquet.read_table(file).to_pylist()]
    assert [row["seq"] for row in rows] == list(range(4 * RECORDS_PER_BLOCK))
    assert (len(whole), len(cut)) == (2, 1)
    assert rows[-1]["kind"] != "recorder.end"


def test_rows_become_the_same_columns_as_pyarrow_would_make_of_them() -> None:
    import pyarrow
    from aiorocketmq._recording.columns import SCHEMA, batch_of

    facts = [ClientEvent(client=CONSUMER, running=True), asked(1), delivered(received()), asked(2)]
    sheet = sheet_of(*enumerate(facts))
    constant = dict.fromkeys(("run_id", "case_id", "observer", "recorder", "boot"), "same")
    one_by_one: list[dict[str, Any]] = [
        constant | dict(zip(shape.columns, row, strict=True))
        for shape, some in sheet.rows.items()
        for row in some
    ]
    one_by_one.sort(key=lambda row: row["seq"])
    assert len(one_by_one) == 4
    assert batch_of(sheet, constant).equals(pyarrow.RecordBatch.from_pylist(one_by_one, SCHEMA))
