"""Judges all frames of a recording: counts, and findings with exemption and verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit import exemptions
from aiorocketmq_audit.engine import Evaluated, evaluate, materialized
from aiorocketmq_audit.frames import deliveries, handlers, locks, messages, queues, requests
from aiorocketmq_audit.frames.frame import Frame, Recording
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.rules import CHECKS

FRAMES: Mapping[str, tuple[Frame, ...]] = MappingProxyType(
    {
        "deliveries": (deliveries.FRAME,),
        "messages": (
            *(messages.MESSAGES, messages.DEAD_LETTERS, messages.RECALLS, messages.TRANSACTIONS),
            messages.DRAINED,
        ),
        "queues": (
            *(queues.STORED, queues.PLACES, queues.SENDS, queues.OWNERSHIPS, queues.READS),
            *(locks.GRANTS, locks.WORK, queues.PROGRESS, queues.SLICES),
        ),
        "requests": (requests.ANSWERS, requests.HANDLES),
        "handlers": (handlers.HANDLERS, handlers.LITE),
    }
)
"""Frames by the stage in which they are judged."""

BROKEN, POSSIBLE, EXEMPTED = "broken", "possible", "exempted"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Counts and findings of all frames."""

    frames: dict[str, Evaluated]
    findings: DataFrame | None
    """`id`, `check`, `invariant`, `verdict`, `exemption`, `margin_us`, `first`, `second`; in memory. None: none."""

    def judged(self, check: str) -> int:
        """Number of rows that this check judged."""
        return sum(of.judged(check) for of in self.frames.values())


def judge(
    recording: Recording,
    gate: Gates,
    checks: Collection[str],
    stage: Callable[[str], AbstractContextManager[None]],
) -> Judgement:
    """Judge the recording by the rules of `checks`; each stage of the work runs within `stage(name)`."""
    frames: dict[str, Evaluated] = {}
    for name, of_stage in FRAMES.items():
        with stage(name):
            evaluated = [evaluate(frame, recording, checks) for frame in of_stage]
            frames |= {of.frame: of for of in evaluated if of is not None}
    findings = [of.findings for of in frames.values() if of.findings is not None]
    if not findings:
        return Judgement(frames, None)
    with stage("exemptions"):
        return Judgement(frames, _decided(reduce(DataFrame.unionByName, findings), recording, gate))


def _decided(findings: DataFrame, recording: Recording, gate: Gates) -> DataFrame:
    """Confirm findings that need a second look, apply exemptions, and set the verdict of each."""
    events = recording.events
    identified = materialized(findings.withColumn("id", F.xxhash64("check", "invariant", "first", "second")))
    if not identified.where("confirmed is not null").isEmpty():
        late = exemptions.with_open_polls(identified.where("confirmed is not null"), recording)
        identified = materialized(identified.where("confirmed is null").unionByName(late))
    exempted = materialized(exemptions.exempted(identified, recording))
    if not exempted.where(exemptions.MAY_BE_LOCKED).isEmpty():
        exempted = exemptions.queue_locked(exempted, recording)
    if not exempted.where(exemptions.MAY_HAVE_MOVED).isEmpty():
        exempted = exemptions.queue_moved(exempted, recording)
    doubts = exemptions.doubtful(identified, events).withColumn("doubted", F.lit(True))
    cut = _cut(gate, events)
    alone = [name for name, check in CHECKS.items() if check.by_order and not gate.has_gaps]
    unsure = [
        name for name, check in CHECKS.items() if gate.makes_unsure(depends_on_time=check.depends_on_time)
    ]
    joined = exempted.join(doubts, "id", "left").join(
        cut, F.col("first.recorder") == F.col("cut_recorder"), "left"
    )
    is_sure = (
        F.col("certain")
        & (
            ~F.col("check").isin(unsure)
            | (F.col("check").isin(alone) & (F.col("first.recorder") == F.col("second.recorder")))
        )
        & ~F.coalesce(F.col("second.at") > F.col("cut_us"), F.lit(False))
        & F.col("doubted").isNull()
    )
    verdict = (
        F.when(F.col("exemption").isNotNull(), F.lit(EXEMPTED))
        .when(is_sure, F.lit(BROKEN))
        .otherwise(F.lit(POSSIBLE))
    )
    decided = joined.select(
        *(
            "id",
            "check",
            "invariant",
            verdict.alias("verdict"),
            "exemption",
            "margin_us",
            "first",
            "second",
            "gid",
        )
    )
    return materialized(decided)


def _cut(gate: Gates, events: DataFrame) -> DataFrame:
    """Return recorders without an end and the time of their last row: their later rows are lost."""
    rows = events.where(F.col("recorder").isin(*gate.cut_at)) if gate.cut_at else events.where("false")
    return rows.groupBy(F.xxhash64("recorder").alias("cut_recorder")).agg(F.max("t_wall_us").alias("cut_us"))
