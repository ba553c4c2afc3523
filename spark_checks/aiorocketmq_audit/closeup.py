"""From the screen to the exact pass: which messages and message groups it takes, and the figures of both together."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, Window, functions as F

from aiorocketmq_audit import figures
from aiorocketmq_audit.deliveries import Chosen, deliveries, identified
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.screen import screened

BROADCAST = 1_000_000
"""Up to so many chosen messages travel to every worker; above that, both sides are exchanged."""


@dataclass(frozen=True, slots=True)
class Closeup:
    """What the screen leaves to the exact pass."""

    deliveries: DataFrame
    """Those of chosen messages and groups alone, as the exact pass sees them."""
    cells: list[Row]
    """Of all deliveries, as `figures.cube` brings them."""
    messages: int
    lanes: int
    """How many message groups may be out of order."""


def closeup(events: DataFrame, settings: DataFrame, gate: Gates, *, has_open_calls: bool) -> Closeup:
    """Screen everything, and choose. `events` occur once each; `settings` are persisted by the caller; `has_open_calls`
    is as for `screened`."""
    ended_us = gate.ended_us or 0
    seen = screened(
        events,
        settings,
        clocks_agree=not gate.clocks,
        ended_us=ended_us,
        has_open_calls=has_open_calls,
        has_drains=bool(gate.kinds.get("drain.ok")),
    )
    summary = figures.cells(seen, ended_us, *_CHUNK, "closeup", "odd", also=_borders()).persist()
    try:
        return _closeup(events, settings, gate, summary)
    finally:
        summary.unpersist()


def _closeup(events: DataFrame, settings: DataFrame, gate: Gates, summary: DataFrame) -> Closeup:
    ended_us = gate.ended_us or 0
    plain = figures.merged(summary.where("not odd"))
    chosen = _chosen(summary)
    counts = chosen.messages.count(), chosen.lanes.count()
    if counts[0] and not settings.where("locks_queue").isEmpty():
        chosen = _with_companions(chosen, events, settings, gate)
    exact = deliveries(
        events, settings, cut_at=gate.cut_at, clocks_agree=not gate.clocks, chosen=_sized(chosen, counts)
    )
    if any(counts):
        exact = exact.persist()
        plain = figures.merged(plain.unionByName(figures.cells(exact.where("odd"), ended_us)))
    rows = figures.named(plain, settings).collect()
    if any(counts):
        # What was chosen must not be computed anew when the summary is gone.
        exact.count()
    return Closeup(exact, rows, *counts)


_CHUNK = ("chunk_lane", "chunk_place", "chunk")


def _borders() -> list[Column]:
    """Of each chunk: what must be known of it to compare it with those before and after."""
    return [
        F.count_if("disorder").alias("disorder"),
        F.min("hi").alias("begin"),
        F.max("hi").alias("seen"),
        F.max("end").alias("end"),
        F.min_by("answer", "hi").alias("first_answer"),
        F.max_by("answer", "end").alias("last_answer"),
    ]


def _chosen(summary: DataFrame) -> Chosen:
    messages = summary.where("closeup is not null").select("closeup", "odd").distinct()
    return Chosen(messages, _disordered(summary))


def _disordered(summary: DataFrame) -> DataFrame:
    """Message groups in which something could be out of order: within a chunk, or from one chunk to a later one."""
    chunks = (
        summary.where("chunk is not null")
        .groupBy(*_CHUNK)
        .agg(
            F.sum("disorder").alias("disorder"),
            F.min("begin").alias("begin"),
            F.max("seen").alias("seen"),
            F.max("end").alias("end"),
            F.min_by("first_answer", "begin").alias("first_answer"),
            F.max_by("last_answer", "end").alias("last_answer"),
        )
    )
    earlier = Window.partitionBy("chunk_lane", "chunk_place").orderBy("chunk")
    before = earlier.rowsBetween(Window.unboundedPreceding, -1)
    stitched = chunks.withColumns(
        {
            "opened": F.max("end").over(before),
            "seen_before": F.max("seen").over(before),
            "last_end": F.lag("end").over(earlier),
            "answer_before": F.lag("last_answer").over(earlier),
        }
    )
    # An answer may lie across the border; what stood before it was compared with its first message.
    one_answer = (F.col("answer_before") == F.col("first_answer")) & (F.col("opened") == F.col("last_end"))
    across = (F.col("opened") > F.col("begin")) & ~F.coalesce(one_answer, F.lit(False))
    wrong = (F.col("disorder") > 0) | F.coalesce(
        across | (F.col("seen_before") > F.col("begin")), F.lit(False)
    )
    return stitched.where(wrong).select(F.col("chunk_lane").alias("lane")).distinct()


def _with_companions(chosen: Chosen, events: DataFrame, settings: DataFrame, gate: Gates) -> Chosen:
    """Add what came in one answer with a chosen message: where queues are locked, it may be its excuse (E5)."""
    known = identified(events, settings, clocks_agree=not gate.clocks)
    given = known.where("kind = 'deliver' and locks_queue and answer is not null").select(
        F.xxhash64("lane", "message").alias("closeup"), "answer"
    )
    answers = given.join(chosen.messages, "closeup", "left_semi").select("answer").distinct()
    beside = given.join(answers, "answer", "left_semi").select("closeup", F.lit(False).alias("odd"))
    both = chosen.messages.unionByName(beside).groupBy("closeup").agg(F.max("odd").alias("odd"))
    return Chosen(both, chosen.lanes)


def _sized(chosen: Chosen, counts: tuple[int, int]) -> Chosen:
    if max(counts) > BROADCAST:
        return chosen
    return Chosen(F.broadcast(chosen.messages), F.broadcast(chosen.lanes))
