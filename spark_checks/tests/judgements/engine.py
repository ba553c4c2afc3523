"""What the engine under test finds: the only module here that knows its names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from aiorocketmq_audit.audit import conclude, examined
from aiorocketmq_audit.judgement import judge
from aiorocketmq_audit.recording import files
from aiorocketmq_audit.recording.narrowing import Narrowing
from aiorocketmq_audit.rules import CHECKS
from aiorocketmq_audit.spark.metrics import Running
from aiorocketmq_audit.spark.session import SMALL, session
from pyspark.sql import SparkSession

from spark_checks.tests.judging import recorders

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Finding(NamedTuple):
    """A finding, by the names and numbers of the events that prove it."""

    invariant: str
    verdict: str
    """`broken`, `possible` or `exempted`."""
    exemption: str | None
    first_recorder: str | None
    first_seq: int | None
    second_recorder: str | None
    second_seq: int | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that is compared of one recording."""

    verdict: str
    checks: Mapping[str, tuple[str, int]]
    """Verdict and number of judged facts, by check."""
    findings: frozenset[Finding]


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A session for many small recordings."""
    with session("local[1]", size=SMALL) as spark:
        yield spark


def judged(paths: Sequence[str], spark: SparkSession, limits: Mapping[str, Any] = NOTHING) -> Judgement:
    """Audit the recording at `paths`, limited by what `Narrowing` takes."""
    options: dict[str, Any] = dict(limits)
    narrowing = Narrowing(**options | {"groups": tuple(options.get("groups", ()))})
    run = Running(spark)
    recording, gate = examined(spark, files.find(tuple(paths)), narrowing, run)
    judgement = judge(recording, gate, CHECKS, run.stage)
    result = conclude(tuple(paths), recording, gate, judgement, tuple(CHECKS), (), None, run)
    checks = {each.name: (each.verdict.value, each.tally.judged) for each in result.checks}
    names = recorders(recording)
    rows = [] if judgement.findings is None else judgement.findings.collect()
    findings = frozenset(
        Finding(
            row.invariant,
            row.verdict,
            row.exemption,
            names.get(row.first.recorder),
            row.first.seq,
            names.get(row.second.recorder),
            row.second.seq,
        )
        for row in rows
    )
    return Judgement(result.overall.verdict.value, checks, findings)
