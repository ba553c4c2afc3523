"""Evaluates all rules of a frame in one pass over its rows, and collects the findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, functions as F

from aiorocketmq_audit.frames.frame import Frame, Recording
from aiorocketmq_audit.rules import RULES
from aiorocketmq_audit.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Counts and findings of the rules of one frame."""

    frame: str
    cells: tuple[Row, ...]
    """Counts by the frame's cell, and `judged …` for each check."""
    findings: DataFrame | None
    """Rows of `Rule.finding`; None where there is none."""

    def judged(self, check: str) -> int:
        """Number of rows that this check judged."""
        name = _judged(check)
        return sum(cell[name] for cell in self.cells if name in cell)


def materialized(few: DataFrame) -> DataFrame:
    """Materialise the rows, replicated on clusters: later queries neither repeat the computation nor fail if one
    executor is lost."""
    return few.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)


def evaluate(frame: Frame, recording: Recording, checks: Collection[str]) -> Evaluated | None:
    """Judge the rows of the frame by the rules of `checks`; None if there is nothing to judge.

    One aggregation yields counts and findings: findings are part of the grouping key, so that a row with findings is a
    cell of its own, and all other rows are summed before the shuffle. Counts are exact even if tasks are retried;
    accumulators would not be.
    """
    rules = [rule for rule in RULES[frame.name] if rule.check in checks]
    if not any(recording.kinds.get(kind) for kind in frame.kinds) or not (rules or frame.counts):
        return None
    kept = materialized(cells(frame, frame.rows(recording), rules))
    judged = [_judged(check) for check in _checks(rules)]
    whole = kept.groupBy(*frame.cell).agg(
        *(F.expr(merged).alias(name) for name, (_, merged) in frame.counts.items()),
        *(F.sum(name).alias(name) for name in judged),
        F.count("found").alias("found"),
    )
    counted = tuple(
        row for row in whole.collect() if any(row[name] is not None for name in (*frame.counts, *judged))
    )
    if not any(row.found for row in counted):
        return Evaluated(frame.name, counted, None)
    findings = kept.where("found is not null").select(F.explode("found").alias("f")).select("f.*")
    return Evaluated(frame.name, counted, findings)


def cells(frame: Frame, rows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Sum the rows by the frame's cell and by their findings (`found`, null if there are none)."""
    findings = f"array_compact(array({', '.join(rule.finding() for rule in rules)}))" if rules else "null"
    marked = rows.withColumn("found", F.expr(findings))
    marked = marked.withColumn("found", F.expr("if(size(found) > 0, found, null)")) if rules else marked
    judged = {
        _judged(check): " or ".join(f"({text})" for text in texts) for check, texts in _checks(rules).items()
    }
    return marked.groupBy(*(F.expr(text).alias(name) for name, text in frame.cell.items()), "found").agg(
        *(F.expr(each).alias(name) for name, (each, _) in frame.counts.items()),
        *(F.expr(f"count_if({text})").alias(name) for name, text in judged.items()),
    )


def _checks(rules: Sequence[Rule]) -> dict[str, list[str]]:
    """By check: the conditions under which its rules judge a row."""
    texts: dict[str, list[str]] = {}
    for rule in rules:
        conditions = texts.setdefault(rule.check, [])
        if rule.judged not in conditions:
            conditions.append(rule.judged)
    return texts


def _judged(check: str) -> str:
    return f"judged {check}"
