"""Calls, messages and clients that a row builder does not know, or not any more."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.records import Record, plain
from aiorocketmq._recording.row_builder import RowBuilder
from aiorocketmq._recording.rows import Sheet, placed
from aiorocketmq._session.events import KNOWN, AckEntry
from aiorocketmq.hooks import ClientEvent, ClientIdentity, Event, Phase, Role

from sdk.tests.recording.events_as_rows import CONSUMER, a_poll, asked, delivered, received, sheet_of

pytest.importorskip("pyarrow")

NAME = "c@1"
NOW = (0, 0, None)
CLIENT = (kinds.CLIENT, *NOW, NAME, "push", "billing")
SENT_CELLS = ("orders", None, "M", None, None, None, None, 1, "body", "props", None, None)
SHARED = ("broker-a", True, 30.0, None, None, None, 30_000, False)


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    from aiorocketmq._recording.columns import batch_of

    sheet = Sheet()
    RowBuilder().take(records, sheet)
    constant = dict.fromkeys(("run_id", "case_id", "observer", "recorder", "boot"), "same")
    rows: list[dict[str, Any]] = batch_of(sheet, constant).to_pylist()
    return rows


def introduced(serial: int) -> Record:
    return kinds.MESSAGE, *NOW, serial, (*placed(received(f"M{serial}")), "d")


def acking(first: int, *entries: AckEntry) -> Record:
    return kinds.ACKING, *NOW, NAME, first, entries


def acked(first: int, *entries: AckEntry) -> Record:
    return kinds.ACKED, *NOW, NAME, None, first, entries


def sending(operation: int) -> Record:
    return kinds.SENDING, *NOW, NAME, operation, SENT_CELLS, 0.0


def sent(operation: int) -> Record:
    return kinds.SENT, *NOW, NAME, operation, "ok", None, (None, None)


def test_messages_whose_delivery_was_left_out_have_numbers_but_no_rows() -> None:
    three: list[AckEntry] = [(1, 1, None), (2, 1, None), (3, 1, None)]
    rows = rows_of(
        [
            CLIENT,
            introduced(1),
            introduced(2 + KNOWN),  # not message 2, though remembered at the same place
            introduced(3),
            (kinds.LEFT_OUT, *NOW, 1),  # the delivery of message 2
            acking(10, *three),  # 1 to 3
            acked(10, *three),  # 4 to 6
            (kinds.HANDLING, *NOW, NAME, 20, 2, 1),  # 7
            (kinds.HANDLED, *NOW, NAME, 20, 2, 1, True),  # 8
            (kinds.HANDLING, *NOW, NAME, 21, 3, 1),  # 9
            (kinds.HANDLED, *NOW, NAME, 21, 3, 1, True),  # 10
        ]
    )
    assert [(row["seq"], row["kind"], row["message_id"], row["invoked_seq"]) for row in rows] == [
        (1, "ack", "M1", None),
        (3, "ack", "M3", None),
        (4, "ack", "M1", 1),
        (6, "ack", "M3", 3),
        (9, "handle.start", "M3", None),
        (10, "handle.end", "M3", 9),
    ]


def test_completions_whose_calls_were_left_out_have_numbers_but_no_rows() -> None:
    entry: Record = (
        "orders",
        "body",
        ((None, 0, 0, "M", None, None, None), (1, "", None, None, None, None), {}),
    )
    rows = rows_of(
        [
            CLIENT,
            introduced(1),
            (kinds.LEFT_OUT, *NOW, 5),  # what began the following
            sent(30),  # 5
            (kinds.HANDLED, *NOW, NAME, 31, 1, 1, True),  # 6
            acked(32, (1, 1, None)),  # 7
            (kinds.DELIVERED, *NOW, NAME, "33", SHARED, 40, [entry, entry]),  # 8 and 9
            (kinds.END, *NOW),
        ]
    )
    assert [(row["seq"], row["kind"]) for row in rows] == [(10, "recorder.end")]


def test_the_oldest_open_calls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq._recording.row_builder.OPEN_CALLS", 2)
    entries: list[AckEntry] = [(1, 1, None)] * 3
    rows = rows_of([CLIENT, introduced(1), acking(10, *entries), acked(10, *entries)])
    assert [row["invoked_seq"] for row in rows] == [None, None, None, None, 1, 2]
    assert [row["seq"] for row in rows] == list(range(6))


def test_the_oldest_open_sends_are_forgotten_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap in the numbers means that rows are missing: the audit would not trust the recording."""
    monkeypatch.setattr("aiorocketmq._recording.row_builder.OPEN_CALLS", 2)
    rows = rows_of([CLIENT, sending(1), sending(2), sending(3), sent(1), sent(2), sent(3)])
    assert [(row["seq"], row["op_id"], row["invoked_seq"]) for row in rows] == [
        (0, "c@1/1", None),
        (1, "c@1/2", None),
        (2, "c@1/3", None),
        (3, "c@1/2", 1),
        (4, "c@1/3", 2),
    ]


def test_completed_calls_do_not_displace_open_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq._recording.row_builder.OPEN_CALLS", 2)
    records: list[Record] = [CLIENT, introduced(1), acking(10, (1, 1, None))]
    for operation in (11, 12, 13):
        records += [acking(operation, (1, 1, None)), acked(operation, (1, 1, None))]
        records += [
            (kinds.HANDLING, *NOW, NAME, operation + 10, 1, 1),
            (kinds.HANDLED, *NOW, NAME, operation + 10, 1, 1, True),
        ]
    *_, last = rows_of([*records, acked(10, (1, 1, None))])
    assert last["invoked_seq"] == 0


def test_completed_calls_of_events_do_not_displace_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq._recording.row_builder.OPEN_CALLS", 2)
    events: list[Event] = [a_poll(Phase.INVOKE)]
    for number in (11, 12, 13):
        call = replace(asked(number), client=CONSUMER)
        events += [call, replace(call, phase=Phase.OK)]
    sheet = sheet_of(*enumerate([*events, delivered(received())]))
    ((shape, (row,)),) = [(shape, rows) for shape, rows in sheet.rows.items() if shape.kind == "deliver"]
    assert dict(zip(shape.columns, row, strict=True))["invoked_seq"] == 0


def test_a_client_whose_stop_was_left_out_has_a_new_epoch_when_it_starts_again() -> None:
    again = [CLIENT, introduced(1), acking(10, (1, 1, None))]
    rows = rows_of([*again, (kinds.LEFT_OUT, *NOW, 1), *again])
    assert [row["epoch"] for row in rows] == [1, 2]


def test_clients_that_have_stopped_take_no_memory() -> None:
    def size_after(clients: int) -> int:
        builder = RowBuilder()
        for number in range(clients):
            name = f"{number}"
            entries = [(1, 1, None)] * 100
            identity = ClientIdentity(name, Role.PUSH, "billing")
            stop = kinds.RAW_EVENT, *NOW, ClientEvent(client=identity, running=False)
            client = kinds.CLIENT, *NOW, name, "push", "billing"
            records = [client, introduced(1), (kinds.ACKING, *NOW, name, 10, entries), stop]
            builder.take(plain(records), Sheet())
        return len(pickle.dumps(builder))

    assert size_after(1) * 2 > size_after(100)
