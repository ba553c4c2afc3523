"""The fake's recorder: the core's facts become rows that an audit can read, in order and complete."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, Code, FilterType, MessageType
from aiorocketmq_fake.core.values.model import (
    Delivery,
    FilterExpression,
    GroupConfig,
    OutgoingMessage,
    StoredMessage,
)
from aiorocketmq_fake.edge.recorder import PyarrowMissingError, Recorder
from aiorocketmq_fake.edge.recording_rows import fingerprint

parquet = pytest.importorskip("pyarrow.parquet")

CONTENT = OutgoingMessage(
    topic="orders", body=b"1", message_id="M1", message_group="customer", born_timestamp=99.0
)
STORED = StoredMessage(CONTENT, MessageType.FIFO, "%RETRY%orders", 3, 7, position=1, store_timestamp=100.0)
DELIVERY = Delivery(STORED, "handle-0", 2, queue_id=3, offset=7, store_timestamp=100.0, invisible_until=140.0)
DELIVERED = events.Delivered(
    110.0,
    "billing",
    "c@1",
    DELIVERY,
    30.0,
    False,
    batch=5,
    position=0,
    receive_attempt="",
    filter=FilterExpression("paid"),
)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "run-7", clock=lambda: 100.0, broker="broker-a") as recorder:
        yield recorder


def rows_of(recorder: Recorder, folder: Path) -> list[dict[str, Any]]:
    recorder.close()
    return [row for file in sorted(folder.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]


def test_every_recording_begins_and_ends_with_its_marks(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record([DELIVERED])
    rows = rows_of(recorder, tmp_path)
    assert [(row["seq"], row["kind"]) for row in rows] == [
        (0, "recorder.start"),
        (1, "deliver"),
        (2, "recorder.end"),
    ]
    assert dict(rows[0]["cfg"])["version"] == "1"
    assert {row["run_id"] for row in rows} == {"run-7"}


def test_a_recording_has_its_own_name_and_says_whose_clock_it_has(tmp_path: Path) -> None:
    for folder, clock, kind in (("a", None, "real"), ("b", lambda: 100.0, "manual")):
        rows = rows_of(Recorder(tmp_path / folder, run_id="night", clock=clock), tmp_path / folder)
        assert {row["run_id"] for row in rows} == {"night"}
        assert dict(rows[0]["cfg"])["clock"] == kind


def test_a_delivery_is_named_by_topic_it_was_sent_to_and_by_its_handle(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.record([DELIVERED])
    row = rows_of(recorder, tmp_path)[1]
    assert (row["topic"], row["broker"], row["queue"], row["offset"]) == ("orders", "broker-a", 3, 7)
    assert (row["message_group"], row["attempt"], row["invisible_ms"]) == ("customer", 2, 30_000)
    assert row["filter"] == "TAG:paid"
    assert row["delivery"] == row["handle"] == fingerprint("handle-0")
    assert (row["t_wall_us"], row["t_mono_ns"]) == (110_000_000, 110_000_000_000)


def test_an_ack_that_settled_nothing_is_not_recorded_as_an_end(recorder: Recorder, tmp_path: Path) -> None:
    ack = ("billing", "orders", "c@1", "M1", "handle-1", "handle-0", STORED, 2)
    recorder.record([events.Acked(111.0, *ack, effective=True), events.Acked(112.0, *ack, effective=False)])
    rows = rows_of(recorder, tmp_path)[1:3]
    assert [row["phase"] for row in rows] == ["ok", "fail"]
    assert {row["delivery"] for row in rows} == {fingerprint("handle-0")}


def test_an_undelivered_message_is_released_by_the_broker(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record(
        [
            events.LeaseEnded(
                111.0, "billing", "c@1", STORED, 2, "handle-0", "handle-0", events.LeaseEnd.UNDELIVERED
            ),
            events.LeaseEnded(
                111.0, "billing", "c@1", STORED, 2, "handle-0", "handle-0", events.LeaseEnd.EXPIRED
            ),
        ]
    )
    rows = rows_of(recorder, tmp_path)[1:3]
    assert [(row["kind"], row["reason"]) for row in rows] == [("change", "undelivered"), ("expire", None)]


def test_a_message_that_was_given_back_without_counting_it_is_suspended(
    recorder: Recorder, tmp_path: Path
) -> None:
    change = (111.0, "billing", "c@1", STORED, 2, "handle-1", "handle-0", "handle-0", 20.0)
    recorder.record(
        [
            events.LeaseChanged(*change, renewal=False, counts=False),
            events.LeaseChanged(*change, renewal=False),
            events.LeaseChanged(*change, renewal=True),
        ]
    )
    assert [row["reason"] for row in rows_of(recorder, tmp_path)[1:4]] == ["suspend", None, "extend"]


def test_a_forward_by_a_consumer_is_recorded_as_its_settlement(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record(
        [
            events.DeadLettered(111.0, "billing", STORED, 1, by_client=True),
            events.LeaseEnded(
                111.0, "billing", "c@1", STORED, 1, "handle-0", "handle-0", events.LeaseEnd.FORWARDED
            ),
        ]
    )
    rows = rows_of(recorder, tmp_path)[1:3]
    assert [(row["kind"], row["phase"], row["attempt"]) for row in rows] == [
        ("dlq.deliver", None, 1),
        ("forward", "ok", 1),
    ]


def test_a_poll_is_an_interval(recorder: Recorder, tmp_path: Path) -> None:
    wanted = FilterExpression("colour = 'red'", FilterType.SQL)
    recorder.record(
        [events.ReceiveEnded(120.0, "billing", "orders", "c@1", 5, 100.0, wanted, Code.MESSAGE_NOT_FOUND, 0)]
    )
    row = rows_of(recorder, tmp_path)[1]
    assert (row["invoked_us"], row["t_wall_us"], row["phase"]) == (100_000_000, 120_000_000, "ok")
    assert row["filter"] == "SQL92:colour = 'red'"


def test_lite_subscriptions_are_recorded_as_a_whole(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record(
        [
            events.ClientJoined(110.0, "c@1", ClientType.LITE_SIMPLE_CONSUMER, "chat"),
            events.LiteSubscribed(111.0, "c@1", "chat", "sessions", ("ann", "bob")),
            events.LiteSubscribed(112.0, "c@1", "chat", "sessions", ()),
        ]
    )
    rows = rows_of(recorder, tmp_path)[2:4]
    assert [(row["kind"], row["phase"], dict(row["cfg"])) for row in rows] == [
        ("lite.sync", "ok", {"all": "ann,bob"}),
        ("lite.sync", "ok", {"all": ""}),
    ]
    assert {(row["client_id"], row["role"], row["group"], row["topic"]) for row in rows} == {
        ("c@1", "lite", "chat", "sessions")
    }


def test_locks_of_queues_are_recorded(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record(
        [
            events.QueueLocked(110.0, "billing", "orders", 3, "c@1"),
            events.QueueUnlocked(111.0, "billing", "orders", 3, "c@1"),
        ]
    )
    _, lock, unlock, _ = rows_of(recorder, tmp_path)
    assert [(row["kind"], row["phase"], row["t_wall_us"]) for row in (lock, unlock)] == [
        ("lock", "ok", 110_000_000),
        ("unlock", "ok", 111_000_000),
    ]
    for row in (lock, unlock):
        assert (row["group"], row["client_id"], row["invoked_us"]) == ("billing", "c@1", row["t_wall_us"])
        assert (row["topic"], row["broker"], row["queue"]) == ("orders", "broker-a", 3)


PLACE = {"group": "billing", "topic": "orders", "queue": 3}
ROWS: list[tuple[Any, dict[str, Any]]] = [
    (
        DELIVERED,
        {
            "kind": "deliver", "t_wall_us": 110_000_000, "client_id": "c@1", **PLACE, "offset": 7, "attempt": 2,
            "message_id": "M1", "message_group": "customer", "delivery": fingerprint("handle-0"), "batch": "5",
            "handle": fingerprint("handle-0"), "batch_pos": 0, "receive_attempt": None, "filter": "TAG:paid",
            "invisible_ms": 30_000, "auto_renew": False, "due_us": None, "born_us": 99_000_000,
            "store_us": 100_000_000, "tx_id": None, "invoked_us": None,
        },
    ),
    (
        events.QueueLocked(110.0, "billing", "orders", 3, "c@1"),
        {"kind": "lock", "phase": "ok", **PLACE, "client_id": "c@1", "code": 20000, "invoked_us": 110_000_000},
    ),
    (
        events.QueueUnlocked(110.0, "billing", "orders", 3, "c@1"),
        {"kind": "unlock", "phase": "ok", **PLACE, "client_id": "c@1", "code": 20000},
    ),
    (
        events.DecidedAgain(110.0, "orders", "T1", "p@1"),
        {"kind": "tx.end", "phase": "ok", "topic": "orders", "tx_id": "T1", "client_id": "p@1",
         "resolution": "commit"},
    ),
    (
        events.TransactionChecked(110.0, CONTENT, "T1", "p@1", 2),
        {"kind": "tx.check", "topic": "orders", "tx_id": "T1", "client_id": "p@1", "attempt": 2,
         "message_id": "M1"},
    ),
    (
        events.OffsetCommitted(110.0, "billing", "orders", 3, 8),
        {"kind": "commit", **PLACE, "commit_offset": 8},
    ),
    (
        events.DeadLettered(110.0, "billing", STORED, 4, by_client=False),
        {"kind": "dlq.deliver", "group": "billing", "message_id": "M1", "attempt": 4},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "cells"), ROWS, ids=[type(event).__name__ for event, _ in ROWS])
def test_a_row_has_the_columns_of_its_kind(
    recorder: Recorder, tmp_path: Path, event: Any, cells: dict[str, Any]
) -> None:
    recorder.record([event])
    row = rows_of(recorder, tmp_path)[1]
    assert {name: row[name] for name in cells} == cells
    assert (row["observer"], row["run_id"], row["broker"]) == ("broker", "run-7", "broker-a")


def test_copies_that_the_broker_makes_are_left_out_without_a_gap(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record([events.Stored(100.0, STORED, "p@1", events.StoredAs.SENT)])
    recorder.record([events.Stored(100.0, STORED, "", events.StoredAs.RETRY)])
    recorder.record([events.ClientJoined(101.0, "c@1", ClientType.PUSH_CONSUMER, "billing")])
    rows = rows_of(recorder, tmp_path)
    assert [row["kind"] for row in rows] == ["recorder.start", "send", "client.start", "recorder.end"]
    assert [row["seq"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize(("grain", "told"), [("queue", "queue"), ("message group", "message_group")])
def test_a_groups_ladder_and_lock_are_recorded(
    grain: str, told: str, recorder: Recorder, tmp_path: Path
) -> None:
    recorder.record(
        [events.GroupChanged(100.0, GroupConfig("billing", ordered=True), (1.0, 5.0), grain, False)]
    )
    cfg = dict(rows_of(recorder, tmp_path)[1]["cfg"])
    assert cfg == {"ordered": "true", "max_attempts": "17", "order_grain": told, "steps_ms": "1000,5000"}


def test_another_life_of_the_broker_has_another_boot(recorder: Recorder, tmp_path: Path) -> None:
    recorder.record([DELIVERED])
    recorder.rebooted()
    recorder.record([DELIVERED])
    boots = [row["boot"] for row in rows_of(recorder, tmp_path)]
    assert boots[0] == boots[1] != boots[2] == boots[3]


def test_while_it_is_written_a_file_has_another_name(tmp_path: Path) -> None:
    with Recorder(tmp_path, seconds_per_file=3_600) as recorder:
        recorder.record([DELIVERED])
        assert not list(tmp_path.glob("*.parquet"))
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert not list(tmp_path.glob("*.open"))


def test_without_pyarrow_one_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "aiorocketmq_fake.edge.recording_files", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PyarrowMissingError, match=r"pip install 'aiorocketmq\[recording\]'"):
        Recorder(tmp_path)


def test_a_quiet_broker_completes_its_files_in_time(tmp_path: Path) -> None:
    with Recorder(tmp_path, seconds_per_file=0.1) as recorder:
        recorder.record([DELIVERED])
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("*-00000.parquet")) and time.monotonic() < deadline:
            time.sleep(0.01)
        first = next(iter(sorted(tmp_path.glob("*.parquet"))))
        assert parquet.read_table(first).to_pylist()[0]["kind"] == "recorder.start"
        recorder.record([DELIVERED])
    numbers = sorted(row["seq"] for row in rows_of(recorder, tmp_path))
    assert numbers == [0, 1, 2, 3]
