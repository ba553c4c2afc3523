"""One audit, from paths to verdicts: locates and reads files, evaluates gates and rules, counts, writes findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from aiorocketmq_audit import evidence
from aiorocketmq_audit.engine import materialized
from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.failures import explained
from aiorocketmq_audit.figures import Figures, figures
from aiorocketmq_audit.frames import overview as pictures
from aiorocketmq_audit.frames.frame import Recording
from aiorocketmq_audit.frames.places import polled
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.judgement import BROKEN, EXEMPTED, POSSIBLE, Judgement, judge
from aiorocketmq_audit.recording import files, gates, reading
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing
from aiorocketmq_audit.recording.out import claim_remote
from aiorocketmq_audit.rules import CHECKS, ordering
from aiorocketmq_audit.spark.metrics import Running, SparkRun, running
from aiorocketmq_audit.spark.session import TINY, session
from aiorocketmq_audit.verdicts import CheckResult, Overall, Tally, Verdict, judge as judge_check, overall


@dataclass(frozen=True, slots=True)
class Audit:
    """The results of an audit."""

    recording: tuple[str, ...]
    overall: Overall
    gates: gates.Gates
    checks: tuple[CheckResult, ...]
    numbers: Figures
    samples: evidence.Samples
    spark: SparkRun
    """Jobs, tasks and times in Spark."""
    subjects: tuple[evidence.Subject, ...] = ()
    """Messages to draw; like the two fields below, collected only if findings are written."""
    events: tuple[dict[str, Any], ...] = ()
    """Events of the subjects."""
    overview: pictures.Overview = field(default_factory=pictures.Overview)
    """Figures by group and over time for the page."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of all checks together."""
        return self.overall.verdict

    @property
    def silent(self) -> tuple[str, ...]:
        """Checks that had nothing to judge."""
        return self.overall.silent


def audit(
    paths: Sequence[str],
    *,
    checks: Sequence[str] = tuple(CHECKS),
    master: str | None = None,
    violations: str | None = None,
    spark: SparkSession | None = None,
    narrowing: Narrowing = EVERYTHING,
    memory: str | None = None,
    require: Sequence[str] = (),
) -> Audit:
    """Judge the recording below `paths` by `checks`, and write findings as Parquet to the URL `violations`, if set.

    `master` is the URL of a cluster, `spark` an existing session; by default a session is started that is sized for the
    recording, with `memory` as its heap ("4g"). `narrowing` selects events and sets tolerances; the verdict is valid
    only if the checks in `require` had something to judge. Raises UsageError for an unknown path or check,
    InvalidRecordingError for invalid files or values, JavaNotFoundError without Java, SparkUnavailableError if Spark
    does not start, and OutputError if the findings cannot be written (no space, no permission).
    """
    if unknown := [name for name in (*checks, *require) if name not in CHECKS]:
        raise UsageError(f"there is no check {unknown[0]!r}: choose from {', '.join(CHECKS)}.")
    recording_files = files.find(tuple(paths))
    with (
        nullcontext(spark) if spark else session(master, size=recording_files.size, memory=memory) as started
    ):
        try:
            if violations is not None and "://" in violations and not violations.startswith("file://"):
                claim_remote(started, violations)
            with running(started) as run:
                recording, gate = examined(started, recording_files, narrowing, run)
                judgement = judge(recording, gate, checks, run.stage)
                return conclude(tuple(paths), recording, gate, judgement, checks, require, violations, run)
        except (PySparkException, Py4JError, OSError) as error:
            # Inside the session: the texts of Java's errors are fetched from the JVM, which ends with it.
            why = explained(error, violations)
            if why is None:
                error.add_note(str(error))
                raise
            raise why from error


def examined(
    spark: SparkSession, recording_files: files.RecordingFiles, narrowing: Narrowing, run: Running
) -> tuple[Recording, gates.Gates]:
    """Read the recording and evaluate its gates."""
    with run.stage("reading"):
        events, lacking = reading.read(spark, recording_files)
        if 0 < recording_files.size <= TINY:
            # Many small queries follow: reading the files for each would take longer than the query itself.
            events = materialized(events.coalesce(1))
    with run.stage("gates"):
        gate = gates.examine(
            events, unfinished=recording_files.unfinished, lacking=lacking, skew_us=narrowing.skew_us
        )
        if gate.duplicated:
            events = events.dropDuplicates(["recorder", "seq"])
            # Count again without duplicates; reasons that the duplicates revealed are kept.
            again = gates.examine(events, skew_us=narrowing.skew_us)
            gate = replace(again, duplicated=True, missing=gate.missing)
        gate = replace(gate, ended_us=narrowing.ended(gate.ended_us))
        return recording_of(events, gate, narrowing), gate


def recording_of(events: DataFrame, gate: gates.Gates, narrowing: Narrowing) -> Recording:
    """Return the input of the frames, for a recording whose gates were evaluated."""
    events = in_server_time(narrowing.events(events), gate, narrowing.skew_us)
    group_settings = materialized(
        settings(events, early_ms=narrowing.early_ms, skew_us=narrowing.skew_us).coalesce(1)
    )
    return Recording(
        events,
        group_settings,
        materialized(polled(events).coalesce(1)),
        gate.kinds,
        gate.ended_us or 0,
        has_open_calls=gate.has_open_settling or narrowing.is_cut,
        has_order=not group_settings.where("ordered").isEmpty(),
        clocks_agree=not gate.clocks,
    )


def in_server_time(events: DataFrame, gate: gates.Gates, skew_us: int) -> DataFrame:
    """Shift the times of recorders with a clock error beyond the tolerated skew, by the smallest correction."""
    bounds = {name: least_most for name, least_most in gate.clock.items() if least_most is not None}
    off = {name: max(least, 0) or min(most, 0) for name, (least, most) in bounds.items()}
    rows = [(name, moved) for name, moved in off.items() if abs(moved) > skew_us]
    if not rows:
        return events
    by_recorder = events.sparkSession.createDataFrame(rows, "recorder string, moved_us bigint")
    joined = events.join(F.broadcast(by_recorder), "recorder", "left")
    moved = F.coalesce("moved_us", F.lit(0))
    return joined.withColumns({name: F.col(name) + moved for name in ("t_wall_us", "invoked_us")}).drop(
        "moved_us"
    )


def conclude(
    paths: tuple[str, ...],
    recording: Recording,
    gate: gates.Gates,
    judgement: Judgement,
    checks: Sequence[str],
    require: Sequence[str],
    violations: str | None,
    run: Running,
) -> Audit:
    """Count findings, resolve their names, and derive the verdicts."""
    groups = {row.gid: row.group for row in recording.settings.select("gid", "group").collect()}
    numbers = figures(judgement.frames, groups)
    counts: list[Row] = []
    shown: evidence.Samples = {}
    named = None
    with run.stage("evidence"):
        if judgement.findings is not None:
            counts = (
                judgement.findings.groupBy("check", "invariant", "verdict", "exemption").count().collect()
            )
            named = materialized(evidence.with_names(judgement.findings, recording.events))
            shown = evidence.samples(named)
        if violations is not None:
            written = named if named is not None else evidence.nothing(recording.events)
            written.coalesce(1).write.mode("overwrite").parquet(violations)
    results = tuple(_result(name, counts, judgement, numbers, gate) for name in checks)
    verdict = overall(results, gate, require)
    if violations is None:
        return Audit(paths, verdict, gate, results, numbers, shown, run.result())
    with run.stage("page"):
        drawn = evidence.subjects(shown)
        if not drawn and numbers.farthest is not None:
            one = evidence.subject_of(recording.events, numbers.farthest)
            drawn = () if one is None else (one,)
        events = evidence.events_of(recording.events, drawn) if drawn else ()
        cut = pictures.slices(gate.started_us, gate.ended_us)
        view = pictures.overview(pictures.cells(recording.events, cut).collect(), named, cut)
    return Audit(paths, verdict, gate, results, numbers, shown, run.result(), drawn, events, view)


def _result(
    name: str, counts: Sequence[Row], judgement: Judgement, numbers: Figures, gate: gates.Gates
) -> CheckResult:
    by_invariant: dict[str, Counter[str]] = defaultdict(Counter)
    exempted: Counter[str] = Counter()
    for row in counts:
        if row.check != name:
            continue
        if row.verdict == EXEMPTED:
            exempted[row.exemption] += row["count"]
        else:
            by_invariant[row.invariant][row.verdict] += row["count"]
    check = CHECKS[name]
    broken, possible = (sum(of[verdict] for of in by_invariant.values()) for verdict in (BROKEN, POSSIBLE))
    doubts = []
    if name == ordering.CHECK.name and numbers.unknown_order:
        doubts.append(
            f"nobody recorded whether the groups of {numbers.unknown_order} deliveries are ordered."
        )
    findings: Mapping[str, Mapping[str, int]] = by_invariant
    return judge_check(
        name,
        Tally(judgement.judged(name), broken, possible, dict(exempted)),
        findings,
        gate,
        subject=check.subject,
        depends_on_time=check.depends_on_time,
        redeliveries=numbers.redeliveries,
        doubts=doubts,
    )
