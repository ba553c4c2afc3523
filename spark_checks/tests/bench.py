"""All pages, and all scenes of planted faults, as one recording: what rules and frames of any kind find in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from aiorocketmq.recording_format import arrow_schema
from aiorocketmq_audit import engine, judgement
from aiorocketmq_audit.audit import examined
from aiorocketmq_audit.frames.frame import Frame, Recording
from aiorocketmq_audit.generator import Shape
from aiorocketmq_audit.generator.faults import KINDS, rows_of as rows_of_scene
from aiorocketmq_audit.generator.faults.scenario import Row
from aiorocketmq_audit.generator.injection import numbered
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.judgement import EXEMPTED, FRAMES, Judgement
from aiorocketmq_audit.recording import files
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.rules import RULES
from aiorocketmq_audit.rules.rule import Rule
from aiorocketmq_audit.spark.metrics import Running
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_checks.tests.histories import PAGES, rows_of

Outcome = tuple[str, str, str]
"""Case, invariant, verdict."""

START = 1_770_000_000_000_000


@dataclass(frozen=True)
class Judged:
    """What rules judged and found."""

    facts: int
    found: frozenset[Outcome]


@dataclass(frozen=True)
class Bench:
    """The recording, and the rows of its frames, worked out."""

    recording: Recording
    gate: Gates
    frames: Mapping[str, Frame]
    cases: Mapping[int, str]
    """By hash of the recorder."""

    def judge(self, rules: Mapping[str, Iterable[Rule]], frames: Mapping[str, Frame]) -> dict[str, Judged]:
        """What `rules`, by frame, find in `frames`: by the rules' `check`, which may be any text."""
        result = self._judged(rules, frames)
        outcomes = {} if result.findings is None else self.outcomes(result.findings)
        checks = {rule.check for of in rules.values() for rule in of}
        return {check: Judged(result.judged(check), frozenset(outcomes.get(check, ()))) for check in checks}

    def findings(self, rules: Mapping[str, Iterable[Rule]]) -> DataFrame:
        """What `rules` find, before anything is exempted."""
        result = self._judged(rules, self.frames)
        return reduce(DataFrame.unionByName, (of.findings for of in result.frames.values() if of.findings))

    def _judged(self, rules: Mapping[str, Iterable[Rule]], frames: Mapping[str, Frame]) -> Judgement:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "RULES", {name: tuple(of) for name, of in rules.items()})
            patch.setattr(judgement, "FRAMES", {"": tuple(frames[name] for name in rules)})
            checks = {rule.check for of in rules.values() for rule in of}
            return judgement.judge(self.recording, self.gate, checks, lambda _: nullcontext())

    def outcomes(self, findings: DataFrame) -> dict[str, set[Outcome]]:
        """By check: what was found in which case."""
        recorder = F.coalesce("first.recorder", "second.recorder").alias("recorder")
        outcomes: dict[str, set[Outcome]] = {}
        for row in findings.select("check", "invariant", "verdict", recorder).distinct().collect():
            outcomes.setdefault(row.check, set()).add((self.cases[row.recorder], row.invariant, row.verdict))
        return outcomes


def of_pages_and_scenes(spark: SparkSession, folder: Path) -> Bench:
    """Write the recording into `folder`, and work its frames out."""
    rows = [row for name in PAGES for row in rows_of(name)]
    rows += [row for number, name in enumerate(KINDS) for row in scene(name, number)]
    recording, gate = read(spark, folder, rows)
    cases = recording.events.select("case_id", F.xxhash64("recorder").alias("key")).distinct().collect()
    frames = {frame.name: frame for of in FRAMES.values() for frame in of}
    materialized = {name: engine.materialized(frame.rows(recording)) for name, frame in frames.items()}
    fixed = {name: given(frame, materialized[name]) for name, frame in frames.items()}
    return Bench(recording, gate, fixed, {row.key: row.case_id for row in cases})


def given(frame: Frame, rows: DataFrame, name: str | None = None) -> Frame:
    """The frame with these rows."""
    return replace(frame, name=name or frame.name, rows=lambda _: rows)


def read(
    spark: SparkSession, folder: Path, rows: Iterable[Row], narrowing: Narrowing = EVERYTHING
) -> tuple[Recording, Gates]:
    """Write the rows as a recording, and read it as an audit does."""
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(list(rows), arrow_schema()), folder / "rows.parquet")
    return examined(spark, files.find((str(folder),)), narrowing, Running(spark))


def scene(name: str, number: int, start_us: int = START, rows: Iterable[Row] | None = None) -> list[Row]:
    """A scene, or these rows of it, as a case of its own."""
    shape, kind = Shape(), KINDS[name]
    names = Names(shape, "run", is_broker=True)
    configs: list[Row] = [
        {"kind": "config", "t_wall_us": start_us, "group": group, "cfg": names.settings(place)}
        for place, group in enumerate(names.groups)
    ]
    played = rows_of_scene(name, number=number, start_us=start_us + 10_000_000, shape=shape)[0]
    constant: Row = {
        "run_id": "run",
        "case_id": name,
        "boot": "b",
        "observer": kind.observer,
        "recorder": name,
    }
    own = played if rows is None else list(rows)
    return numbered([*configs, *own], constant, (start_us, start_us + 20_000_000_000))


def wanted() -> frozenset[Outcome]:
    """What must be found; that a scene's fault is exempted says its name alone."""
    expected = {(name, *each) for name, page in PAGES.items() for each in page.found}
    return frozenset(
        expected | {(name, of.invariant, "broken") for name, of in KINDS.items() if of.invariant}
    )


def counting(outcomes: Iterable[Outcome]) -> set[Outcome]:
    """Without what is exempted in scenes."""
    return {each for each in outcomes if each[0] in PAGES or each[2] != EXEMPTED}


def tagged(rules: Mapping[str, Iterable[Rule]] = RULES) -> dict[str, list[Rule]]:
    """The rules, each as a check of its own: `FRAME#NUMBER`."""
    return {
        frame: [replace(rule, check=f"{frame}#{number}") for number, rule in enumerate(of)]
        for frame, of in rules.items()
    }
