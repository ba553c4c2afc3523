"""What the engine under test finds: the only module here that knows its names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from aiorocketmq_audit import files, gates, reading
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.judging import findings_of, material_of
from aiorocketmq_audit.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.run import audit
from aiorocketmq_audit.session import session
from pyspark.sql import SparkSession, functions as F

EXEMPTIONS: Mapping[str, str] = {}
"""Names of exemptions in the expected sets, where the engine has other ones."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Finding(NamedTuple):
    """A finding, by the names and numbers of the events that prove it."""

    invariant: str
    verdict: str
    """`broken`, `possible` or `excused`."""
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
    with session("local[1]", lasting=True) as spark:
        yield spark


def judged(paths: Sequence[str], spark: SparkSession, limits: Mapping[str, Any] = NOTHING) -> Judgement:
    """Audit the recording at `paths`, limited by what `Narrowing` takes."""
    options: dict[str, Any] = dict(limits)
    narrowing = Narrowing(**options | {"groups": tuple(options.get("groups", ()))})
    result = audit(paths, spark=spark, screen=False, narrowing=narrowing)
    checks = {each.name: (each.verdict.value, each.tally.judged) for each in result.checks}
    return Judgement(result.verdict.value, checks, frozenset(found_by(paths, spark, narrowing)))


def found_by(paths: Sequence[str], spark: SparkSession, narrowing: Narrowing = EVERYTHING) -> set[Finding]:
    """All findings of the recording at `paths`, exempted ones included."""
    found = files.find(tuple(paths))
    events = reading.read(spark, found)
    gate = gates.examine(
        events, unfinished=found.unfinished, lacking=found.lacking, skew_us=narrowing.skew_us
    )
    if gate.duplicated:
        events = reading.without_duplicates(events)
        again = gates.examine(events, skew_us=narrowing.skew_us)
        gate = replace(again, duplicated=True, missing=gate.missing)
    gate = replace(gate, ended_us=narrowing.ended(gate.ended_us))
    events = reading.worked_out(narrowing.events(events))
    settings = reading.worked_out(narrowing.settings(reading.settings(events)))
    material = material_of(events, gate, settings)
    material = replace(material, deliveries=reading.worked_out(material.deliveries))
    rows = findings_of(material, gate, tuple(CHECKS)).collect()
    keys = events.select("recorder", F.xxhash64("recorder").alias("key")).distinct().collect()
    names = {row.key: row.recorder for row in keys}
    return {
        Finding(
            row.invariant,
            row.verdict,
            row.excuse,
            names.get(row.first_recorder),
            row.first_seq,
            names.get(row.second_recorder),
            row.second_seq,
        )
        for row in rows
    }


def renamed(findings: Iterable[Finding]) -> frozenset[Finding]:
    """Expected findings with the engine's names of exemptions."""
    return frozenset(
        each._replace(exemption=EXEMPTIONS.get(each.exemption, each.exemption)) if each.exemption else each
        for each in findings
    )
