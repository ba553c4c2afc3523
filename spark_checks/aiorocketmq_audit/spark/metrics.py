"""Metrics of Spark's work for an audit: jobs, tasks, bytes shuffled, and seconds by stage.

Sources are the status tracker of classic sessions, and the REST API of Spark's UI if it is enabled; for Spark Connect
the progress that its server reports (every two seconds by default, so that short requests are not counted).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from aiorocketmq_audit.spark.progress import progress

_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step of the audit."""

    name: str
    seconds: float
    tasks: int


@dataclass(frozen=True, slots=True)
class SparkRun:
    """The session and its work."""

    version: str
    master: str
    jobs: int
    """Spark jobs; with Spark Connect, requests that reported tasks."""
    tasks: int
    shuffle_bytes: int | None
    """Bytes written by shuffles; None if Spark does not publish them (without its UI, or with Spark Connect)."""
    seconds: float
    stages: tuple[Stage, ...]


@dataclass(slots=True)
class _Work:
    """Work of one step: its jobs, and by Spark stage the completed and total tasks."""

    group: str
    jobs: set[Any] = field(default_factory=set)
    tasks: dict[int, tuple[int, int]] = field(default_factory=dict)


class Running:
    """Collects metrics of a session, step by step; steps are sequential, not nested."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._began = spark, time.monotonic()
        self._steps: list[tuple[str, float, _Work]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the jobs of this thread in the block as `name`."""
        began, work = time.monotonic(), _Work(f"audit-{uuid.uuid4()}")
        counting = _reported(self._spark, work) if is_remote() else _grouped(self._spark, work, name)
        with counting, progress(name, lambda: self._counts(work)):
            yield
        self._steps.append((name, time.monotonic() - began, work))

    def result(self) -> SparkRun:
        """Return the metrics so far; the session must still run."""
        stages = tuple(Stage(name, seconds, self._counts(work)[0]) for name, seconds, work in self._steps)
        return SparkRun(
            version=self._spark.version,
            master=str(self._spark.conf.get("spark.master", "")),
            jobs=sum(len(work.jobs) for _, _, work in self._steps),
            tasks=sum(stage.tasks for stage in stages),
            shuffle_bytes=self._shuffle_bytes({stage for _, _, work in self._steps for stage in work.tasks}),
            seconds=time.monotonic() - self._began,
            stages=stages,
        )

    def _counts(self, work: _Work) -> tuple[int, int]:
        """Return the completed and total tasks (including those of skipped stages)."""
        if not is_remote():
            tracker = self._spark.sparkContext.statusTracker()
            work.jobs.update(tracker.getJobIdsForGroup(work.group))
            jobs = [job for each in work.jobs if (job := tracker.getJobInfo(each))]
            for stage in {stage for job in jobs for stage in job.stageIds}:
                if info := tracker.getStageInfo(stage):
                    work.tasks[stage] = (info.numCompletedTasks, info.numTasks)
        return sum(done for done, _ in work.tasks.values()), sum(total for _, total in work.tasks.values())

    def _shuffle_bytes(self, stages: set[int]) -> int | None:
        context = None if is_remote() else self._spark.sparkContext
        if context is None or context.uiWebUrl is None:
            return None
        try:
            stage_data = _rest(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages")
        except (OSError, ValueError):
            return None
        return sum(each["shuffleWriteBytes"] for each in stage_data if each["stageId"] in stages)


@contextmanager
def running(spark: SparkSession) -> Iterator[Running]:
    """Yield a collector of metrics for this block."""
    yield Running(spark)


@contextmanager
def _grouped(spark: SparkSession, work: _Work, name: str) -> Iterator[None]:
    """Run the block's jobs in a separate job group, then restore the caller's."""
    context = spark.sparkContext
    before = [context.getLocalProperty(key) for key in _GROUP]
    context.setJobGroup(work.group, f"aiorocketmq audit: {name}")
    try:
        yield
    finally:
        for key, value in zip(_GROUP, before, strict=True):
            # None removes it, although PySpark's annotation excludes None.
            context.setLocalProperty(key, value)  # type: ignore[arg-type]


@contextmanager
def _reported(spark: SparkSession, work: _Work) -> Iterator[None]:
    """Count the progress that a Spark Connect server reports."""

    def report(stages: Iterable[Any] | None, operation_id: str | None, **_: object) -> None:
        for stage in stages or ():
            work.jobs.add(operation_id)
            work.tasks[stage.stage_id] = (stage.num_completed_tasks, stage.num_tasks)

    # PySpark passes keyword arguments, although its annotation declares four positional ones.
    spark.registerProgressHandler(report)  # type: ignore[arg-type]
    try:
        yield
    finally:
        spark.removeProgressHandler(report)  # type: ignore[arg-type]


def _rest(url: str) -> list[dict[str, int]]:
    with urlopen(url, timeout=10) as answer:
        stages: list[dict[str, int]] = json.load(answer)
    return stages
