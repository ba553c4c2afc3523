"""The rows that a recorder writes are complete, ordered and joined, and report what is missing."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.row_builder import RowBuilder
from aiorocketmq._recording.rows import (
    PLACED_ACK,
    Sheet,
    by_topic,
    has_stopped,
    kind_of,
    milliseconds,
    placed,
)
from aiorocketmq.errors import BusyError, RocketMQError, ServerError, TopicUnavailableError, UnreachableError
from aiorocketmq.hooks import (
    AckEvent,
    AssignEvent,
    ChangeEvent,
    ChangeReason,
    ClientEvent,
    DeliverEvent,
    Event,
    Grain,
    HandleEvent,
    LiteChange,
    LiteSyncEvent,
    LockEvent,
    Phase,
    ReceiveEvent,
    SendEvent,
    SettingsEvent,
    TransactionCheckEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import Message, MessageQueue, SendReceipt
from aiorocketmq.recording import Recorder
from aiorocketmq.recording_format import content_of, fingerprint
from aiorocketmq.transaction import Resolution

from sdk.tests.recording.events_as_rows import (
    CONSUMER,
    PRODUCER,
    QUEUE,
    Instants,
    a_poll,
    asked,
    delivered,
    received,
    rows_of,
    sheet_of,
)

pytest.importorskip("pyarrow.parquet")


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
    for facts in (20_000, 0):  # the first one's file is still being written when the second one is complete
        recorder.observe(ClientEvent(client=PRODUCER, running=True))
        for _ in range(facts):
            recorder.observe(SettingsEvent(client=PRODUCER, ordered=False, max_attempts=3))
        recorder.observe(ClientEvent(client=PRODUCER, running=False))
    names = {row["recorder"] for row in rows_of(recorder)}
    assert len(names) == 2


def test_a_client_that_starts_again_beside_others_has_a_new_epoch(recorder: Recorder) -> None:
    for client, running in ((PRODUCER, True), (CONSUMER, True), (PRODUCER, False), (PRODUCER, True)):
        recorder.observe(ClientEvent(client=client, running=running))
    starts = [(row["client_id"], row["epoch"]) for row in rows_of(recorder) if row["kind"] == "client.start"]
    assert starts == [("p@1", 1), ("c@1", 1), ("p@1", 2)]


def test_an_assignment_is_split_by_topic_also_those_that_are_only_revoked() -> None:
    old = QUEUE._replace(topic="refunds")
    event = AssignEvent(client=CONSUMER, queues=(QUEUE,), generation=1, revoked=(old,), grain=Grain.QUEUE)
    assert [(each.queues, each.revoked) for each in by_topic(event)] == [((QUEUE,), ()), ((), (old,))]


@pytest.mark.parametrize(("is_release", "kind"), [(False, "lock"), (True, "unlock")])
def test_a_lock_and_its_release_are_kinds_of_their_own(is_release: bool, kind: str) -> None:
    assert kind_of(LockEvent(client=CONSUMER, queue=QUEUE, is_release=is_release)) == kind


@pytest.mark.parametrize(
    ("running", "phase", "kind", "is_end"),
    [
        (True, Phase.INVOKE, None, False),
        (True, Phase.OK, "client.start", False),
        (True, Phase.SINGLE, "client.start", False),
        (True, Phase.FAIL, None, True),
        (False, Phase.INVOKE, None, False),
        (False, Phase.OK, "client.stop", True),
        (False, Phase.SINGLE, "client.stop", True),
        (False, Phase.FAIL, "client.stop", True),
    ],
)
def test_a_client_has_started_when_it_is_usable_and_stops_also_when_it_could_not_start(
    running: bool, phase: Phase, kind: str | None, is_end: bool
) -> None:
    event = ClientEvent(client=CONSUMER, phase=phase, running=running)
    assert (kind_of(event), has_stopped(event)) == (kind, is_end)


@pytest.mark.parametrize(
    ("seconds", "number"), [(None, None), (0, 0), (0.57, 570), (1.001, 1001), (30, 30_000)]
)
def test_durations_are_recorded_in_rounded_milliseconds(seconds: float | None, number: int | None) -> None:
    assert milliseconds(seconds) == number


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


def test_deliveries_of_different_polls_have_times_of_their_own(recorder: Recorder, clock: Instants) -> None:
    other = replace(CONSUMER, client_id="c@2")
    first = delivered(received())
    for event in (
        first,
        replace(first, client=other),
        replace(first, client=other, operation="2"),
        replace(first, operation=None),
        replace(first, operation=None),
    ):
        recorder.observe(event)
        clock.now += 1
    rows = [row for row in rows_of(recorder) if row["kind"] == "deliver"]
    assert [row["t_wall_us"] for row in rows] == [1_000_000_000 + 1_000_000 * second for second in range(5)]


@pytest.mark.parametrize(("queue", "recorded"), [(-1, None), (0, 0), (3, 3)])
def test_a_poll_of_all_queues_has_none_in_its_row(
    queue: int, recorded: int | None, recorder: Recorder
) -> None:
    recorder.observe(replace(a_poll(Phase.INVOKE), queue=QUEUE._replace(id=queue)))
    assert rows_of(recorder)[1]["queue"] == recorded


def test_deliveries_reported_after_the_end_of_their_poll_still_find_its_beginning(
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


@pytest.mark.parametrize(("properties", "text"), [({}, "{}"), ({"b": "ü", "a": '"'}, '{"a":"\\"","b":"ü"}')])
def test_properties_are_recorded_as_the_digest_of_their_sorted_json(
    properties: dict[str, str], text: str
) -> None:
    """Other recorders of the same run compute it as well."""
    assert content_of("body", properties) == ("body", sha256(text.encode()).hexdigest()[:32], None, None)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7), ("0", 0), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("-1", None), ("1.0", None), ("²", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_serial_number_that_fits_no_column_is_left_out(text: str, number: int | None) -> None:
    _, _, producer, serial = content_of("body", {"audit-producer": "p", "audit-serial": text})
    assert (producer, serial) == ("p", number)


def test_acks_of_one_call_end_each_in_its_own_way() -> None:
    sheet, builder, entries = Sheet(), RowBuilder(), [(1, 1, None), (2, 1, None)]
    messages = [
        (kinds.MESSAGE, 0, 0, None, serial, (*placed(received(f"M{serial}")), "d")) for serial in (1, 2)
    ]
    builder.take(
        [
            (kinds.CLIENT, 0, 0, None, "c@1", "push", "billing"),
            *messages,
            (kinds.ACKING, 0, 0, None, "c@1", 10, entries),
            (kinds.ACKED, 0, 0, None, "c@1", [("ok", None), ("fail", 40010)], 10, entries),
        ],
        sheet,
    )
    rows = [dict(zip(PLACED_ACK.columns, row, strict=True)) for row in sheet.rows[PLACED_ACK]]
    assert [(row["op_id"], row["phase"], row["code"]) for row in rows] == [
        ("c@1/10", "invoke", None), ("c@1/11", "invoke", None), ("c@1/10", "ok", None), ("c@1/11", "fail", 40010),
    ]  # fmt: skip


def test_a_handlers_work_is_an_interval_with_a_result(recorder: Recorder) -> None:
    recorder.observe(HandleEvent(client=CONSUMER, phase=Phase.INVOKE, message=received()))
    recorder.observe(HandleEvent(client=CONSUMER, phase=Phase.FAIL, message=received(), raised=ValueError()))
    rows = rows_of(recorder)[1:3]
    assert [(row["kind"], row["result"]) for row in rows] == [
        ("handle.start", None),
        ("handle.end", "failure"),
    ]


def test_a_local_retry_is_recorded_with_its_own_attempt(
    recorder: Recorder,
) -> None:
    message = received()
    shared: dict[str, Any] = {"client": CONSUMER, "message": message}
    recorder.observe(DeliverEvent(**shared, handle="handle-0", position=0, attempt=1))
    for attempt in (1, 2):
        message.attempt = attempt
        for phase in (Phase.INVOKE, Phase.FAIL):
            recorder.observe(HandleEvent(**shared, phase=phase, attempt=attempt))
        recorder.observe(AckEvent(**shared, delivery="handle-0", handle="handle-0", attempt=attempt))
    assert [row["attempt"] for row in rows_of(recorder)[1:8]] == [1, 1, 1, 1, 2, 2, 2]


def test_the_groups_settings_are_recorded_as_text(recorder: Recorder) -> None:
    recorder.observe(SettingsEvent(client=CONSUMER, ordered=True, max_attempts=17, steps=(1.0, 5.0)))
    row = rows_of(recorder)[1]
    assert dict(row["cfg"]) == {"ordered": "true", "max_attempts": "17", "steps_ms": "1000,5000"}


def test_settings_that_a_group_does_not_have_are_left_out(recorder: Recorder) -> None:
    recorder.observe(SettingsEvent(client=CONSUMER, ordered=False, max_attempts=None))
    assert dict(rows_of(recorder)[1]["cfg"]) == {"ordered": "false"}


@pytest.mark.parametrize(
    ("told", "known", "grain"),
    [(None, "queue", "queue"), ("message_group", "queue", "message_group"), (None, None, None)],
)
def test_what_ordered_groups_lock_is_reported_where_it_is_known(
    told: str | None, known: Any, grain: str | None, tmp_path: Path
) -> None:
    with Recorder(tmp_path / "runs", order_grain=known) as recorder:
        recorder.observe(
            SettingsEvent(client=CONSUMER, ordered=True, max_attempts=3, steps=(), order_grain=told)
        )
    (row,) = [row for row in rows_of(recorder) if row["kind"] == "config"]
    assert dict(row["cfg"]).get("order_grain") == grain


def test_a_grain_that_is_none_is_refused(tmp_path: Path) -> None:
    wrong: Any = "topic"
    with pytest.raises(ValueError, match="order_grain must be 'message_group' or 'queue', got 'topic'"):
        Recorder(tmp_path, order_grain=wrong)


def test_a_fault_that_is_noted_is_a_row(recorder: Recorder, clock: Instants) -> None:
    recorder.note_fault("crash", target="broker-a", state="start")
    clock.now += 5
    recorder.note_fault("crash", target="broker-a", state="stop")
    recorder.observe(asked(1))
    recorder.note_fault("restart")
    rows = [row for row in rows_of(recorder) if row["kind"] == "fault"]
    assert [dict(row["fault"]) for row in rows] == [
        {"kind": "crash", "target": "broker-a", "state": "start"},
        {"kind": "crash", "target": "broker-a", "state": "stop"},
        {"kind": "restart"},
    ]
    assert rows[1]["t_wall_us"] - rows[0]["t_wall_us"] == 5_000_000
    assert [row["client_id"] for row in rows] == [None] * 3


@pytest.mark.parametrize(("kind", "state"), [("", ""), ("crash", "begin")])
def test_a_fault_without_kind_or_of_no_known_state_is_refused(
    kind: str, state: str, recorder: Recorder
) -> None:
    with pytest.raises(ValueError, match=r"a fault needs a kind|'start', 'stop' or nothing"):
        recorder.note_fault(kind, state=state)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (UnreachableError("gone"), "away"),
        (ServerError("broken", code=50_001), "away"),
        (TopicUnavailableError("forgotten", code=40_402), "away"),
        (BusyError("later", code=42_900), None),
        (None, None),
    ],
)
def test_a_poll_records_that_its_server_was_away(
    error: RocketMQError | None, result: str | None, recorder: Recorder
) -> None:
    poll = ReceiveEvent(
        client=CONSUMER,
        operation="7",
        phase=Phase.INVOKE,
        queue=MessageQueue("orders", "b", -1),
        max_messages=1,
    )
    recorder.observe(poll)
    recorder.observe(replace(poll, phase=Phase.INFO, error=error))
    rows = [row for row in rows_of(recorder) if row["kind"] == "receive"]
    assert [(row["phase"], row["result"]) for row in rows] == [("invoke", None), ("info", result)]


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
    facts: list[Event | int] = [call, 3, replace(call, phase=Phase.OK), late, replace(late, operation=None)]
    ((shape, sends),) = sheet_of(*enumerate(facts)).rows.items()
    named = [dict(zip(shape.columns, send, strict=True)) for send in sends]
    assert [row["seq"] for row in named] == [0, 4, 6]
    assert [row["invoked_seq"] for row in named] == [None, 0, None]


def test_after_a_gap_nothing_is_said_to_be_drained() -> None:
    """What was left out may have been anything, a message that is on its way included."""
    poll = replace(a_poll(Phase.INVOKE), readable=(QUEUE,))
    facts: list[tuple[float, Event | int]] = [
        (0, delivered(received())),
        (100, poll),
        (120, replace(poll, phase=Phase.OK)),
    ]

    def kinds(*more: tuple[int, int]) -> set[str | None]:
        ordered = sorted((*more, *facts), key=lambda fact: fact[0])
        return {shape.kind for shape in sheet_of(*ordered).rows}

    assert "drain.ok" in kinds()
    assert "drain.ok" not in kinds((1, 1))


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


def test_a_drain_is_a_row_that_records_when_its_oldest_poll_was_asked(
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
    *_, request, answered, drained, _ = rows_of(recorder)
    assert (drained["kind"], drained["group"], drained["topic"]) == ("drain.ok", "billing", "orders")
    assert (drained["t_wall_us"], drained["phase"]) == (answered["t_wall_us"], None)
    assert (drained["invoked_us"], drained["invoked_seq"]) == (request["t_wall_us"], request["seq"])
