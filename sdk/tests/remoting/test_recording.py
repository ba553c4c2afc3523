"""Recordings of consumers of the remoting protocol, which read whole queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq import Broadcast, Recorder
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode

from sdk.tests.remoting.script import Start, answer, seen
from sdk.tests.remoting.test_push import RETRIES, Broker, Handler, consuming, joining
from sdk.tests.waiting import until

pytest.importorskip("pyarrow.parquet")


def rows_of(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    rows = sorted(parquet.read_table(folder).to_pylist(), key=lambda row: int(row["seq"]))
    return [row for row in rows if row["kind"] in kinds]


def assignments(folder: Path) -> list[tuple[str, list[int], int, str]]:
    return [
        (
            row["topic"],
            [each["queue"] for each in row["queues"]],
            row["generation"],
            dict(row["cfg"])["grain"],
        )
        for row in rows_of(folder, "assign")
    ]


async def test_a_push_consumers_queues_are_reported_by_topic_until_it_has_none(
    start: Start, tmp_path: Path
) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"b")
    handler = Handler()
    with Recorder(tmp_path) as recorder:
        async with consuming(broker, handler, hooks=[recorder]) as consumer:
            await handler.until(2)
            await until(lambda: len(consumer.assigned_queues) == 4)
            joining(broker, "~")  # it is the last one, and gets the second queue of each topic
            consumer._session.send_heartbeats()
            await until(lambda: len(consumer.assigned_queues) == 2)
    assert assignments(tmp_path) == [
        ("T", [0, 1], 1, "queue"),
        (RETRIES, [0, 1], 1, "queue"),
        ("T", [0], 2, "queue"),
        (RETRIES, [0], 2, "queue"),
        ("T", [], 3, "queue"),
        (RETRIES, [], 3, "queue"),
    ]
    rows = [row for row in rows_of(tmp_path, "deliver", "commit") if row["topic"] == "T"]
    # What was done is committed before the queue is given up.
    assert [(row["kind"], row["offset"], row["commit_offset"]) for row in rows if row["queue"] == 0][:3] == [
        ("deliver", 0, None),
        ("deliver", 1, None),
        ("commit", None, 2),
    ]
    assert {(row["role"], row["delivery"]) for row in rows} == {("push", None)}


async def test_locks_are_operations_that_brokers_grant_or_refuse(start: Start, tmp_path: Path) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", queue=1)
    granted = [{"topic": topic, "brokerName": "broker-a", "queueId": 1} for topic in ("T", RETRIES)]
    body = json.dumps({"lockOKMQSet": granted}).encode()
    broker.script.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(frame, body=body)
    handler = Handler()
    with Recorder(tmp_path) as recorder:
        async with consuming(broker, handler, hooks=[recorder], ordered=True):
            await handler.until(1)
            await seen(broker.server, RequestCode.LOCK_BATCH_MQ, 3)  # it asks again for what was refused
    rows = rows_of(tmp_path, "lock", "unlock", "deliver")
    mine = [(row["kind"], row["phase"]) for row in rows if row["topic"] == "T" and row["queue"] == 1]
    assert mine == [
        ("lock", "invoke"),
        ("lock", "ok"),
        ("deliver", None),
        ("unlock", "invoke"),
        ("unlock", "ok"),
    ]
    others = [(row["kind"], row["phase"]) for row in rows if (row["topic"], row["queue"]) == ("T", 0)]
    assert others[:4] == [("lock", "invoke"), ("lock", "fail")] * 2
    calls = {row["op_id"]: row for row in rows if row["phase"] == "invoke"}
    ends = [row for row in rows if row["phase"] in ("ok", "fail")]
    assert all(row["invoked_seq"] == calls[row["op_id"]]["seq"] for row in ends)


async def test_a_lock_whose_answer_is_lost_is_of_unknown_outcome(start: Start, tmp_path: Path) -> None:
    broker = await Broker().start(start)
    locks = 0

    def lock(frame: Frame) -> Frame | bytes | None:
        nonlocal locks
        locks += 1
        return (
            b"" if locks <= 2 else broker.script._usual(frame)
        )  # a lost connection is tried once more at once

    broker.script.answers[RequestCode.LOCK_BATCH_MQ] = lock
    broker.add(b"a")
    handler = Handler()
    with Recorder(tmp_path) as recorder:
        async with consuming(broker, handler, hooks=[recorder], ordered=True):
            await handler.until(1)
    of_topic = [row["phase"] for row in rows_of(tmp_path, "lock") if row["topic"] == "T"]
    assert of_topic == ["invoke", "info", "invoke", "ok"]


async def test_a_broadcast_member_owns_nothing(start: Start, tmp_path: Path) -> None:
    broker = await Broker().start(start)
    broker.add(b"a")
    handler = Handler()
    with Recorder(tmp_path / "recording") as recorder:
        async with consuming(broker, handler, hooks=[recorder], broadcast=Broadcast("me", tmp_path)):
            await handler.until(1)
    assert {grain for *_, grain in assignments(tmp_path / "recording")} == {"broadcast"}
