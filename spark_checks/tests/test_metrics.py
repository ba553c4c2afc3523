"""What Spark ran is counted by stage, and shown on a terminal meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from aiorocketmq_audit.spark import metrics, progress
from aiorocketmq_audit.spark.metrics import Running, running
from pyspark.sql import SparkSession


@pytest.mark.spark
def test_jobs_and_tasks_are_counted_by_stage(spark: SparkSession) -> None:
    with running(spark) as run:
        with run.stage("reading"):
            spark.range(10, numPartitions=3).collect()
        spark.range(10, numPartitions=5).collect()
        with run.stage("page"):
            pass
        metrics = run.result()
    assert [(stage.name, stage.tasks) for stage in metrics.stages] == [("reading", 3), ("page", 0)]
    assert (metrics.version, metrics.master, metrics.jobs, metrics.tasks) == (spark.version, "local[1]", 1, 3)
    assert metrics.seconds >= sum(stage.seconds for stage in metrics.stages) > 0


@pytest.mark.spark
def test_bytes_shuffled_are_those_of_the_stages_that_ran(spark: SparkSession) -> None:
    shuffled = spark.range(1000).repartition(2)
    shuffled.count()
    with running(spark) as run:
        with run.stage("reading"):
            spark.range(10).collect()
        assert run.result().shuffle_bytes == 0
        with run.stage("deliveries"):
            shuffled.count()
        assert (run.result().shuffle_bytes or 0) > 0


@pytest.mark.spark
def test_without_sparks_ui_bytes_shuffled_are_unknown(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark.sparkContext), "uiWebUrl", None)
    with running(spark) as run, run.stage("deliveries"):
        spark.range(10).repartition(2).count()
    assert run.result().shuffle_bytes is None


@pytest.mark.spark
def test_the_callers_job_group_is_there_again_afterwards(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my jobs")
    with running(spark) as run, run.stage("reading"):
        assert context.getLocalProperty("spark.jobGroup.id") != "mine"
    assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    for key in ("spark.jobGroup.id", "spark.job.description"):
        context.setLocalProperty(key, None)  # type: ignore[arg-type]


class Remote:
    """What a session of Spark Connect reports."""

    version = "4.3.0"
    conf: dict[str, str] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.registerProgressHandler = self.handlers.append
        self.removeProgressHandler = self.handlers.remove

    def report(self, operation: str, *tasks: tuple[int, int, int]) -> None:
        stages = [SimpleNamespace(stage_id=n, num_completed_tasks=d, num_tasks=t) for n, d, t in tasks]
        for handler in self.handlers:
            handler(stages=stages, inflight_tasks=0, operation_id=operation, done=False)


def test_spark_connect_counts_what_its_server_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "is_remote", lambda: True)
    spark: Any = Remote()
    run = Running(spark)
    with run.stage("deliveries"):
        spark.report("first", (0, 1, 4))
        spark.report("first", (0, 4, 4), (1, 1, 2))
        spark.report("second", (2, 3, 3))
    told = run.result()
    assert (told.jobs, told.tasks, told.shuffle_bytes) == (2, 8, None)
    assert not spark.handlers


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_alone(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Event()

    def tasks() -> tuple[int, int]:
        shown.set()
        return 3, 8

    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with progress.progress("judging deliveries", tasks):
        assert shown.wait(60) if is_terminal else not shown.is_set()
    assert ("judging deliveries" in capsys.readouterr().err) is is_terminal
