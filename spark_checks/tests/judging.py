"""Many histories as one recording: what Spark's rules find in it, and what the reference model does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext
from typing import NamedTuple

from aiorocketmq_audit.frames.frame import Recording
from aiorocketmq_audit.generator.faults.scenario import Row
from aiorocketmq_audit.judgement import judge
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.rules import CHECKS
from pyspark.sql import functions as F

from spark_checks.tests.reference import judgement as model


class Finding(NamedTuple):
    """A finding, with the row that proves it."""

    check: str
    invariant: str
    verdict: str
    recorder: str
    seq: int
    exemption: str | None = None


def recorders(recording: Recording) -> dict[int, str]:
    """Their names by the hashes in findings."""
    keys = recording.events.select(F.xxhash64("recorder"), "recorder").distinct().collect()
    return dict(keys)


def found(recording: Recording, gate: Gates, checks: Collection[str] = tuple(CHECKS)) -> set[Finding]:
    """What Spark finds, exempted or not."""
    findings = judge(recording, gate, checks, lambda _: nullcontext()).findings
    if findings is None:
        return set()
    names, told = recorders(recording), set()
    for row in findings.collect():
        # A lost message is the earlier of the two events that prove it.
        proof = row.first if row.check == "loss" or row.second.recorder is None else row.second
        told.add(
            Finding(row.check, row.invariant, row.verdict, names[proof.recorder], proof.seq, row.exemption)
        )
    return told


def found_plainly(rows: Iterable[Row]) -> set[Finding]:
    """What the reference model finds, which leaves out what is exempt."""
    return {
        Finding(each.check, each.invariant, each.verdict, each.row["recorder"], each.row["seq"])
        for each in model.judge(rows)
    }
