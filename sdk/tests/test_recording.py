"""The Recorder hook: what it writes is complete, ordered, joined, and says when it is not complete."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._recording_account import Account, LeftOut
from aiorocketmq._recording_rows import fingerprint
from aiorocketmq.errors import UsageError
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    ClientEvent,
    ClientIdentity,
    DeliverEvent,
    HandleEvent,
    LiteChange,
    LiteSyncEvent,
    Phase,
    ReceiveEvent,
    Role,
    SendEvent,
    SettingsEvent,
    TransactionCheckEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from aiorocketmq.recording import FACTS_PER_BLOCK, Recorder
from aiorocketmq.transaction import Resolution

parquet = pytest.importorskip("pyarrow.parquet")

PRODUCER = ClientIdentity("p@1", Role.PRODUCER)
CONSUMER = ClientIdentity("c@1", Role.PUSH, "billing")
QUEUE = MessageQueue("orders", "broker-a", 3)


class Instants:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Instants:
    return Instants()


@pytest.fixture
def recorder(tmp_path: Path, clock: Instants) -> Iterator[Recorder]:
    with Recorder(tmp_path / "runs", clock=clock) as recorder:
        yield recorder


def rows_of(recorder: Recorder) -> list[dict[str, Any]]:
    recorder.close()
    rows: list[dict[str, Any]] = []
    for file in sorted(recorder.folder.glob("*.parquet")):
        rows += parquet.read_table(file).to_pylist()
    return sorted(rows, key=lambda row: row["seq"])


def received(message_id: str = "M1", body: bytes = b"1") -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders", body=body, message_id=message_id, queue=QUEUE, offset=7, group="billing"
    )


def delivered(message: ReceivedMessage, position: int = 0) -> DeliverEvent:
    handle = f"handle-{position}"
    return DeliverEvent(
        client=CONSUMER, operation="1", message=message, handle=handle, position=position, invisible=30
    )


def a_poll(phase: Phase) -> ReceiveEvent:
    return ReceiveEvent(
        client=CONSUMER, phase=phase, operation="1", queue=QUEUE, max_messages=32, invisible=30.0
    )


def test_a_recording_runs_from_the_first_event_to_the_last_clients_stop(recorder: Recorder) -> None:
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.OK, running=True))
    recorder.observe(ClientEvent(client=CONSUMER, phase=Phase.OK, running=True))
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.OK, running=False))
    recorder.observe(ClientEvent(client=CONSUMER, phase=Phase.OK, running=False))
    rows = rows_of(recorder)
    assert [row["kind"] for row in rows] == [
        "recorder.start",
        "client.start",
        "client.start",
        "client.stop",
        "client.stop",
        "recorder.end",
    ]
    assert [row["seq"] for row in rows] == list(range(6))


def test_a_client_that_starts_again_begins_a_recorder_of_its_own(recorder: Recorder) -> None:
    for facts in (20_000, 0):  # the first one's file is still being written when the second one has ended
        recorder.observe(ClientEvent(client=PRODUCER, running=True))
        for _ in range(facts):
            recorder.observe(SettingsEvent(client=PRODUCER, ordered=False, max_attempts=3))
        recorder.observe(ClientEvent(client=PRODUCER, running=False))
    names = {row["recorder"] for row in rows_of(recorder)}
    assert len(names) == 2


def test_a_completion_carries_time_and_number_of_its_call(recorder: Recorder, clock: Instants) -> None:
    message = Message("orders", b"1")
    recorder.observe(
        SendEvent(client=PRODUCER, phase=Phase.INVOKE, operation="1", message=message, message_id="M1")
    )
    clock.now = 1_000.25
    recorder.observe(
        SendEvent(client=PRODUCER, phase=Phase.OK, operation="1", message=message, message_id="M1")
    )
    call, answer = rows_of(recorder)[1:3]
    assert (call["phase"], answer["phase"]) == ("invoke", "ok")
    assert (answer["invoked_us"], answer["invoked_seq"]) == (call["t_wall_us"], call["seq"])
    assert answer["t_wall_us"] - call["t_wall_us"] == 250_000
    assert answer["op_id"] == call["op_id"] == "p@1/1"


def test_messages_of_one_answer_share_one_time_and_tell_when_they_were_asked_for(
    recorder: Recorder, clock: Instants
) -> None:
    recorder.observe(a_poll(Phase.INVOKE))
    clock.now = 1_005.0
    recorder.observe(delivered(received("M1"), 0))
    clock.now = 1_006.0
    recorder.observe(delivered(received("M2"), 1))
    recorder.observe(a_poll(Phase.OK))
    rows = [row for row in rows_of(recorder) if row["kind"] == "deliver"]
    assert [row["t_wall_us"] for row in rows] == [1_005_000_000] * 2
    assert [row["invoked_us"] for row in rows] == [1_000_000_000] * 2
    assert [(row["batch_pos"], row["message_id"]) for row in rows] == [(0, "M1"), (1, "M2")]
    assert {row["batch"] for row in rows} == {"c@1/1"}


def test_deliveries_told_after_the_end_of_their_poll_still_find_its_beginning(
    recorder: Recorder, clock: Instants
) -> None:
    recorder.observe(a_poll(Phase.INVOKE))
    clock.now = 1_001.0
    recorder.observe(a_poll(Phase.OK))
    recorder.observe(delivered(received()))
    assert rows_of(recorder)[3]["invoked_us"] == 1_000_000_000


def test_settling_names_the_delivery_by_the_handle_it_came_with(recorder: Recorder) -> None:
    message = received()
    change = ChangeEvent(
        client=CONSUMER,
        phase=Phase.OK,
        operation="2",
        message=message,
        delivery="handle-0",
        handle="handle-1",
        previous_handle="handle-0",
        invisible=10.0,
        reason=ChangeReason.RETRY,
    )
    recorder.observe(delivered(message))
    recorder.observe(change)
    recorder.observe(
        AckEvent(
            client=CONSUMER,
            phase=Phase.OK,
            operation="3",
            message=message,
            delivery="handle-0",
            handle="handle-1",
        )
    )
    came, changed, acked = rows_of(recorder)[1:4]
    assert came["delivery"] == changed["delivery"] == acked["delivery"] == fingerprint("handle-0")
    assert (changed["handle"], changed["prev_handle"]) == (fingerprint("handle-1"), fingerprint("handle-0"))
    assert (changed["invisible_ms"], changed["reason"]) == (10_000, "retry")
    assert (acked["group"], acked["topic"], acked["queue"], acked["offset"]) == ("billing", "orders", 3, 7)


def test_a_handlers_work_is_an_interval_with_a_result(recorder: Recorder) -> None:
    recorder.observe(HandleEvent(client=CONSUMER, phase=Phase.INVOKE, message=received()))
    recorder.observe(HandleEvent(client=CONSUMER, phase=Phase.FAIL, message=received(), raised=ValueError()))
    rows = rows_of(recorder)[1:3]
    assert [(row["kind"], row["result"]) for row in rows] == [
        ("handle.start", None),
        ("handle.end", "failure"),
    ]


def test_the_groups_settings_are_recorded_as_text(recorder: Recorder) -> None:
    recorder.observe(SettingsEvent(client=CONSUMER, ordered=True, max_attempts=17, steps=(1.0, 5.0)))
    row = rows_of(recorder)[1]
    assert dict(row["cfg"]) == {"ordered": "true", "max_attempts": "17", "steps_ms": "1000,5000"}


def test_lists_of_lite_topics_are_operations(recorder: Recorder) -> None:
    for phase in (Phase.INVOKE, Phase.OK):
        recorder.observe(
            LiteSyncEvent(
                client=CONSUMER,
                phase=phase,
                operation="7",
                topic="sessions",
                change=LiteChange.ADD,
                lite_topics=("ann", "bob"),
            )
        )
    recorder.observe(LiteSyncEvent(client=CONSUMER, topic="sessions", change=LiteChange.ALL, lite_topics=()))
    call, answer, fact = rows_of(recorder)[1:4]
    assert {(row["kind"], row["topic"], row["group"]) for row in (call, answer, fact)} == {
        ("lite.sync", "sessions", "billing")
    }
    assert [(row["phase"], row["op_id"], dict(row["cfg"])) for row in (call, answer, fact)] == [
        ("invoke", "c@1/7", {"add": "ann,bob"}),
        ("ok", "c@1/7", {"add": "ann,bob"}),
        (None, None, {"all": ""}),
    ]
    assert answer["invoked_seq"] == call["seq"]


def test_with_a_manual_clock_the_machines_own_is_recorded_beside_it(recorder: Recorder) -> None:
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    row = rows_of(recorder)[1]
    assert (row["t_wall_us"], row["t_mono_ns"]) == (1_000_000_000, 1_000_000_000_000)
    assert row["t_real_us"] > 1_600_000_000_000_000


def test_a_file_bears_its_final_name_only_when_it_is_complete(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, rows_per_file=1)
    assert list(tmp_path.iterdir()) == []
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    recorder.close()
    assert [file.suffix for file in tmp_path.iterdir()] == [".parquet"]


def test_large_bodies_are_handed_over_long_before_the_block_is_full(recorder: Recorder) -> None:
    handed_over: list[object] = []
    recorder.observe(ClientEvent(client=CONSUMER, running=True))
    assert recorder._series is not None
    recorder._series.files.write = handed_over.append
    for number in range(4):
        recorder.observe(delivered(received(f"M{number}", bytes(3 << 20)), number))
    assert len(handed_over) == 2


def test_what_a_slow_disk_leaves_out_is_a_gap_in_the_numbers(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    monkeypatch.setattr("aiorocketmq.recording.MOST_WAITING", 0)
    recorder.observe(ClientEvent(client=CONSUMER, running=True))
    monkeypatch.undo()
    rows = rows_of(recorder)
    assert [row["seq"] for row in rows] == [0, 1, 3]
    assert rows[-1]["kind"] == "recorder.end"


def test_what_cannot_name_its_call_any_more_is_left_out_with_it() -> None:
    """Else it would pass for something that happened at one instant, which it did not."""
    call, late = asked(1), replace(asked(2), phase=Phase.OK)
    facts = [call, LeftOut(3), replace(call, phase=Phase.OK), late, replace(late, operation=None)]
    rows = Account().take((number, number, None, fact) for number, fact in enumerate(facts))
    ((shape, sends),) = rows.items()
    named = [dict(zip(shape.columns, send, strict=True)) for send in sends]
    assert [row["seq"] for row in named] == [0, 4, 6]
    assert [row["invoked_seq"] for row in named] == [None, 0, None]


def test_after_a_gap_nothing_is_said_to_be_drained() -> None:
    """What was left out may have been anything, a message that is on its way included."""
    poll = replace(a_poll(Phase.INVOKE), readable=(QUEUE,))
    facts = [(0, delivered(received())), (100, poll), (120, replace(poll, phase=Phase.OK))]

    def kinds(*more: tuple[int, LeftOut]) -> set[str | None]:
        told = sorted((*more, *facts), key=lambda fact: fact[0])
        rows = Account().take((at * 10**9, at * 10**9, None, what) for at, what in told)
        return {shape.kind for shape in rows}

    assert "drain.ok" in kinds()
    assert "drain.ok" not in kinds((1, LeftOut(1)))


def test_a_disk_that_fails_is_told_at_close_and_never_to_the_client(tmp_path: Path) -> None:
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


def test_without_pyarrow_one_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "aiorocketmq._recording_files", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'aiorocketmq\[recording\]'"):
        Recorder(tmp_path)


@pytest.mark.parametrize("is_half", [True, False])
def test_only_half_messages_carry_a_transaction_id(recorder: Recorder, is_half: bool) -> None:
    """Servers give every message such an id (R4.12), and a half message need not be delivered."""
    receipt = SendReceipt("M1", "orders", QUEUE, 7, transaction_id="T1")
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    recorder.observe(
        SendEvent(
            client=PRODUCER,
            phase=Phase.OK,
            operation="1",
            message=Message("orders", b"1"),
            message_id="M1",
            is_half=is_half,
            receipt=receipt,
        )
    )
    (row,) = [row for row in rows_of(recorder) if row["kind"] == "send"]
    assert (row["offset"], row["tx_id"]) == (7, "T1" if is_half else None)


def test_ends_and_checks_of_transactions_are_rows(recorder: Recorder) -> None:
    end = TransactionEndEvent(
        client=PRODUCER,
        phase=Phase.OK,
        operation="2",
        topic="orders",
        message_id="M1",
        transaction_id="T1",
        resolution=Resolution.ROLLBACK,
        from_check=True,
    )
    recorder.observe(ClientEvent(client=PRODUCER, running=True))
    recorder.observe(TransactionCheckEvent(client=PRODUCER, message=received(), transaction_id="T1"))
    recorder.observe(end)
    check, ended = [row for row in rows_of(recorder) if row["kind"].startswith("tx.")]
    assert (check["kind"], check["phase"], check["message_id"], check["tx_id"]) == (
        "tx.check",
        None,
        "M1",
        "T1",
    )
    assert (ended["kind"], ended["phase"], ended["op_id"]) == ("tx.end", "ok", "p@1/2")
    assert (ended["topic"], ended["message_id"], ended["tx_id"]) == ("orders", "M1", "T1")
    assert (ended["resolution"], ended["source"]) == ("rollback", "check")


def quiet_recorder(tmp_path: Path, **more: Any) -> Recorder:
    recorder = Recorder(tmp_path / "runs", **more)
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.INVOKE, running=True))
    return recorder


def asked(number: int) -> SendEvent:
    return SendEvent(
        client=PRODUCER,
        operation=str(number),
        phase=Phase.INVOKE,
        message=Message("orders", b"1"),
        message_id=f"M{number}",
    )


def appeared(folder: Path, pattern: str) -> list[Path]:
    """Wait for files; what makes them is a thread that nobody can be asked to wait for."""
    deadline = time.monotonic() + 30
    while not (found := sorted(folder.glob(pattern))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_a_program_with_little_to_tell_has_its_files_completed_in_time(tmp_path: Path) -> None:
    recorder = quiet_recorder(tmp_path, seconds_per_file=0.1)
    first = appeared(recorder.folder, "*-00000.parquet")
    kinds = [row["kind"] for row in parquet.read_table(first[0]).to_pylist()]
    assert kinds[0] == "recorder.start"
    rows = rows_of(recorder)
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert rows[-1]["kind"] == "recorder.end"


def test_a_new_file_is_begun_after_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq._recording_files.ROWS_PER_GROUP", FACTS_PER_BLOCK)
    recorder = Recorder(tmp_path, rows_per_file=FACTS_PER_BLOCK)
    for number in range(3 * FACTS_PER_BLOCK):
        recorder.observe(asked(number))
    rows = rows_of(recorder)
    files = sorted(recorder.folder.glob("*.parquet"))
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert [parquet.read_metadata(file).num_rows for file in files][:3] == [FACTS_PER_BLOCK] * 3


def test_bodies_that_wait_for_the_disk_are_bounded_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq.recording.MOST_BYTES_WAITING", 0)
    recorder = quiet_recorder(tmp_path)
    recorder.observe(asked(1))
    rows = rows_of(recorder)
    assert [row["kind"] for row in rows] == ["recorder.end"]
    assert rows[0]["seq"] > 1


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
    folder, given, reader = {
        "memory address": (f"memory://{tmp_path.name}/runs", None, fs.PyFileSystem(fs.FSSpecHandler(memory))),
        "memory object": (f"/{tmp_path.name}/runs", memory, fs.PyFileSystem(fs.FSSpecHandler(memory))),
        "file address": (f"file://{tmp_path}/runs", None, local),
        "subtree": (
            "runs",
            fs.SubTreeFileSystem(str(tmp_path), local),
            fs.SubTreeFileSystem(str(tmp_path), local),
        ),
    }[kind]
    recorder = Recorder(folder, filesystem=given)
    recorder.observe(ClientEvent(client=PRODUCER, phase=Phase.INVOKE, running=True))
    recorder.close()
    path = {"subtree": "runs", "file address": f"{tmp_path}/runs"}.get(kind, f"/{tmp_path.name}/runs")
    files = [found.path for found in reader.get_file_info(fs.FileSelector(path))]
    assert len(files) == 1
    assert files[0].endswith("-00000.parquet")
    rows = parquet.read_table(files[0], filesystem=reader).to_pylist()
    assert [row["kind"] for row in rows] == ["recorder.start", "recorder.end"]
    assert rows[0]["run_id"] == "runs"


@pytest.mark.parametrize(
    ("folder", "given", "sentence"),
    [("nowhere://runs", None, "install fsspec"), ("runs", object(), "neither")],
)
def test_a_place_that_nobody_knows_is_refused_with_a_sentence(
    folder: str, given: object | None, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Recorder(folder, filesystem=given)


def test_a_process_that_dies_leaves_whole_files_and_one_that_says_it_is_cut(tmp_path: Path) -> None:
    program = """
import os, sys
from aiorocketmq import _recording_files
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Phase, Role, SendEvent
from aiorocketmq.message import Message
from aiorocketmq.recording import FACTS_PER_BLOCK, Recorder
_recording_files.ROWS_PER_GROUP = FACTS_PER_BLOCK
recorder = Recorder(sys.argv[1], rows_per_file=2 * FACTS_PER_BLOCK)
client = ClientIdentity("p@1", Role.PRODUCER)
for number in range(5 * FACTS_PER_BLOCK):
    recorder.observe(
        SendEvent(
            client=client,
            operation=str(number),
            phase=Phase.INVOKE,
            message=Message("orders", b"1"),
            message_id=str(number),
        )
    )
recorder._series.files._thread.submit(lambda: os.kill(os.getpid(), 9)).result()
"""
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    whole, cut = sorted(tmp_path.glob("*.parquet")), list(tmp_path.glob("*.parquet.open"))
    rows = [row for file in whole for row in parquet.read_table(file).to_pylist()]
    assert [row["seq"] for row in rows] == list(range(4 * FACTS_PER_BLOCK))
    assert (len(whole), len(cut)) == (2, 1)
    assert rows[-1]["kind"] != "recorder.end"


def test_rows_become_the_same_columns_as_pyarrow_would_make_of_them() -> None:
    import pyarrow
    from aiorocketmq._recording_files import SCHEMA, batch_of

    facts = [ClientEvent(client=CONSUMER, running=True), asked(1), delivered(received()), asked(2)]
    rows = Account().take((number, number, None, fact) for number, fact in enumerate(facts))
    constant = dict.fromkeys(("run_id", "case_id", "observer", "recorder", "boot"), "same")
    one_by_one = [
        constant | dict(zip(shape.columns, row, strict=True)) for shape, some in rows.items() for row in some
    ]
    one_by_one.sort(key=lambda row: row["seq"])
    assert len(one_by_one) == 4
    assert batch_of(rows, constant).equals(pyarrow.RecordBatch.from_pylist(one_by_one, SCHEMA))


def test_a_drain_is_a_row_that_tells_when_its_oldest_poll_was_asked(
    recorder: Recorder, clock: Instants
) -> None:
    poll = ReceiveEvent(
        client=CONSUMER,
        phase=Phase.INVOKE,
        operation="1",
        queue=QUEUE,
        max_messages=32,
        invisible=30.0,
        readable=(QUEUE,),
    )
    recorder.observe(delivered(received()))
    clock.now += 75
    recorder.observe(poll)
    clock.now += 20
    recorder.observe(replace(poll, phase=Phase.OK))
    *_, asked, answered, drained, _ = rows_of(recorder)
    assert (drained["kind"], drained["group"], drained["topic"]) == ("drain.ok", "billing", "orders")
    assert (drained["t_wall_us"], drained["phase"]) == (answered["t_wall_us"], None)
    assert (drained["invoked_us"], drained["invoked_seq"]) == (asked["t_wall_us"], asked["seq"])
