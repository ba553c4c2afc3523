"""The checks against a slow, plain reading of the same promises, on random histories in one frame."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from aiorocketmq_audit import excuses, gates, reading
from aiorocketmq_audit.deliveries import deliveries
from aiorocketmq_audit.double_delivery import double_delivery
from aiorocketmq_audit.ordering import ordering
from aiorocketmq_audit.retry_timing import polls, retry_timing
from pyspark.sql import DataFrame, functions as F

pytestmark = pytest.mark.spark

HISTORIES = 400
EARLY = 100_000
LATE = 15_000_000
MAX_ATTEMPTS = 4

Row = dict[str, Any]
Finding = tuple[str, str, str, int]
"""Case, invariant, verdict, and the row of the delivery that proves it (the earlier one where none came)."""


def random_history(new_history: Callable[..., Any], number: int) -> Any:
    """A few messages handed out, settled and handed out again by a broker that keeps no promise."""
    chance = random.Random(number)
    ordered = chance.random() < 0.5
    history = new_history(f"{number:04}")
    history.config(ordered=ordered, max_attempts=MAX_ATTEMPTS)
    messages = [("x/" if ordered else "/") + str(offset) for offset in range(chance.randint(1, 4))]
    attempts = dict.fromkeys(messages, 0)
    given: list[int] = []
    now = 0.0
    for step in range(chance.randint(2, 12)):
        now += chance.choice((1, 2, 4, 7))
        call = now - chance.choice((0, 0, 0, 3))
        if not given or chance.random() < 0.5:
            batch = [m for m in messages if chance.random() < 0.5] or messages[:1]
            if chance.random() < 0.2:
                chance.shuffle(batch)
            for message in batch:
                attempts[message] += 1
                given.append(
                    history.deliver(
                        message,
                        now,
                        call=max(call, 0),
                        hold=chance.choice((2, 10, 30)),
                        attempt=attempts[message],
                        batch=f"batch-{step}",
                    )
                )
        else:
            delivered = chance.choice(given[-4:])
            kind = chance.choice(("ack", "ack", "change", "change", "forward"))
            phase = chance.choice(("ok", "ok", "ok", "ok", "fail", "info", "invoke"))
            call = max(call, (history.rows[delivered]["t_wall_us"] - history.rows[0]["t_wall_us"]) / 1e6)
            more: dict[str, Any] = {}
            if kind == "change":
                more = {
                    "seconds": chance.choice((0, 5, 20)),
                    "reason": chance.choice(("retry", "retry", "extend")),
                }
            history.settle(kind, delivered, now, call=call, phase=phase, **more)
        if chance.random() < 0.3:
            history.poll(max(0, now - chance.choice((0, 10, 20))), now + chance.choice((0, 20)))
    return history.end()


def lo(row: Row) -> int:
    return int(row["t_wall_us"] if row["invoked_us"] is None else row["invoked_us"])


def by_message(rows: Iterable[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """Deliveries in the order seen, and what was done to the message; failed operations are as if they had not been."""
    rows = list(rows)
    answered = {row["op_id"] for row in rows if row["phase"] in ("ok", "fail", "info")}
    for message in sorted({row["message_id"] for row in rows if row["kind"] == "deliver"}):
        own = [row for row in rows if row["message_id"] == message]
        given = sorted((r for r in own if r["kind"] == "deliver"), key=lambda r: (r["t_wall_us"], r["seq"]))
        done = [
            r
            for r in own
            if r["phase"] in ("ok", "info") or (r["phase"] == "invoke" and r["op_id"] not in answered)
        ]
        yield given, [r | {"phase": "info"} if r["phase"] == "invoke" else r for r in done]


def hold(first: Row, then: Row | None, operations: list[Row]) -> tuple[int, int, Row | None, bool]:
    """Bounds of the hold's end as of the next delivery, the change that counts, and whether one of unknown
    effect did."""
    length = first["invisible_ms"] * 1000
    low, high, last, unsure = lo(first) + length, first["t_wall_us"] + length, None, []
    began = (low, high)
    for change in sorted(operations, key=lambda r: (lo(r), r["invoked_seq"] or r["seq"])):
        if change["kind"] != "change" or change["delivery"] != first["delivery"] or not_before(change, then):
            continue
        ends = (
            lo(change) + change["invisible_ms"] * 1000,
            change["t_wall_us"] + change["invisible_ms"] * 1000,
        )
        if change["phase"] == "info":
            unsure.append(ends)
        else:
            (low, high), last = ends, change
    crossing = last is not None and then is not None and last["t_wall_us"] > then["t_wall_us"]
    if crossing:
        low, high = min(low, began[0]), max(high, began[1])
    return (
        min([low, *(a for a, _ in unsure)]),
        max([high, *(b for _, b in unsure)]),
        last,
        bool(unsure) or crossing,
    )


def not_before(operation: Row, delivery: Row | None) -> bool:
    if delivery is None:
        return False
    call = (
        lo(operation),
        operation["invoked_seq"] if operation["invoked_seq"] is not None else operation["seq"],
    )
    return call > (delivery["t_wall_us"], delivery["seq"])


def redeliveries(rows: list[Row]) -> Iterator[Finding]:
    """INV-EXCL, INV-ACKED, INV-EARLY in plain words: nothing comes back before its hold is over, and never
    after an ack."""
    for given, operations in by_message(rows):
        for first, then in pairwise(given):
            low, high, change, unsure = hold(first, then, operations)
            acks = [
                r["t_wall_us"]
                for r in operations
                if (r["kind"], r["phase"], r["delivery"]) == ("ack", "ok", first["delivery"])
                and not not_before(r, then)
            ]
            acked = bool(acks) and min(acks) <= low
            asked = (
                change is not None
                and change["reason"] == "retry"
                and (
                    not unsure
                    or (change["t_wall_us"] > then["t_wall_us"] and not has_unsure(first, then, operations))
                )
            )
            reverse = lo(then) + then["invisible_ms"] * 1000 <= first["t_wall_us"] + EARLY
            definite = (acked or then["t_wall_us"] < low - EARLY) and not reverse
            if not acked and then["t_wall_us"] >= high - EARLY:
                continue
            if not definite and unsure:
                continue
            name = "INV-EARLY" if asked and not acked else "INV-EXCL"
            if acked and min(acks) < then["t_wall_us"]:
                name = "INV-ACKED"
            yield first["case_id"], name, "broken" if definite else "possible", then["seq"]


def has_unsure(first: Row, then: Row, operations: list[Row]) -> bool:
    return any(
        r["kind"] == "change"
        and r["phase"] == "info"
        and r["delivery"] == first["delivery"]
        and not not_before(r, then)
        for r in operations
    )


def done_at(given: list[Row], operations: list[Row]) -> float:
    """When the message was settled at the earliest; infinity if never."""
    first = given[0]
    ends = [
        lo(r)
        for r in operations
        if r["kind"] in ("ack", "forward")
        and (lo(r), r["invoked_seq"] if r["invoked_seq"] is not None else r["seq"])
        > (first["t_wall_us"], first["seq"])
    ]
    if given[-1]["attempt"] >= MAX_ATTEMPTS:
        ends.append(hold(given[-1], None, operations)[0])
    return min(ends, default=float("inf"))


def order(rows: list[Row]) -> Iterator[Finding]:
    """INV-ORD and INV-ORD-FIRST: compare each first delivery with every earlier delivery of every other message."""
    messages = [(given, done_at(given, operations)) for given, operations in by_message(rows)]
    for given, _ in messages:
        first = given[0]
        earlier = [
            (
                other,
                end,
                [d for d in other if (d["t_wall_us"], d["seq"]) < (first["t_wall_us"], first["seq"])],
            )
            for other, end in messages
            if other is not given
        ]
        earlier = [(other, end, before) for other, end, before in earlier if before]
        if any(other[0]["offset"] > first["offset"] for other, _, _ in earlier):
            yield first["case_id"], "INV-ORD-FIRST", "broken", first["seq"]
        elif any(
            end > first["t_wall_us"] and first["batch"] not in {d["batch"] for d in other}
            for other, end, _ in earlier
        ):
            yield first["case_id"], "INV-ORD", "broken", first["seq"]


def lateness(rows: list[Row]) -> Iterator[Finding]:
    """INV-LATE: nobody polls from the end of a hold to the bound and goes without the message."""
    ended = max(row["t_wall_us"] for row in rows)
    asked = [(lo(row), row["t_wall_us"]) for row in rows if row["kind"] == "receive"]
    for given, operations in by_message(rows):
        done = done_at(given, operations)
        for first, then in zip(given, [*given[1:], None], strict=True):
            _, high, _, unsure = hold(first, then, operations)
            settled = any(
                (r["kind"], r["phase"], r["delivery"]) == ("ack", "ok", first["delivery"])
                and not not_before(r, then)
                for r in operations
            )
            at = ended if then is None else then["t_wall_us"]
            if settled or unsure or at <= high + LATE:
                continue
            if then is None and (done < float("inf") or first["attempt"] >= MAX_ATTEMPTS):
                continue
            if any(start <= high and end >= high + LATE for start, end in asked):
                yield first["case_id"], "INV-LATE", "broken", first["seq"] if then is None else then["seq"]


def expected(histories: Iterable[Any]) -> set[Finding]:
    found: set[Finding] = set()
    for history in histories:
        is_ordered = history.rows[1]["cfg"]["ordered"] == "true"
        found |= set(redeliveries(history.rows))
        found |= set(order(history.rows)) if is_ordered else set(lateness(history.rows))
    return found


def found_by_spark(events: DataFrame) -> set[Finding]:
    """All three checks; polls of a case count to that case alone, as do its last instant and its lanes."""
    gate = gates.examine(events)
    assert gate.ended_us is not None
    made = deliveries(events, reading.settings(events), cut_at={}, clocks_agree=True).cache()
    marks = excuses.marks(events)
    results = double_delivery(made, marks).unionByName(ordering(made, marks))
    results = results.unionByName(
        retry_timing(made, polls(events), marks, ended=reading.last_instants(events))
    )
    proof = events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct()
    named = results.join(proof, F.col("first_recorder") == F.col("key"))
    rows = named.selectExpr(
        "case_id", "invariant", "verdict", "coalesce(second_seq, first_seq) as seq"
    ).collect()
    made.unpersist()
    return {(row.case_id, row.invariant, row.verdict, row.seq) for row in rows}


@pytest.fixture(scope="module")
def seeds() -> range:
    return range(HISTORIES)


def test_spark_and_plain_python_agree_on_random_histories(
    new_history: Callable[..., Any], frame: Callable[[Iterable[Any]], DataFrame], seeds: range
) -> None:
    histories = [random_history(new_history, seed) for seed in seeds]
    wanted = expected(histories)
    assert {name for _, name, _, _ in wanted} >= {
        "INV-EXCL",
        "INV-ACKED",
        "INV-EARLY",
        "INV-LATE",
        "INV-ORD",
        "INV-ORD-FIRST",
    }
    assert found_by_spark(frame(histories)) == wanted
