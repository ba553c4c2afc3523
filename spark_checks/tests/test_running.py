"""Where the audit runs: sessions of its own, of spark-submit and Spark Connect; and what its options leave out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiorocketmq_audit
import pytest
from aiorocketmq_audit.recording.narrowing import Narrowing
from aiorocketmq_audit.run import audit
from aiorocketmq_audit.spark.java import launching
from aiorocketmq_audit.spark.session import SMALL, TINY, settings
from click.testing import CliRunner
from pyspark.sql import SparkSession

START = 1_700_000_000_000_000

SOME = ("--check", "double delivery", "--check", "handles")
"""A check that looks into excuses, and one of those that are counted aside."""


def told(command: list[str], **environment: str) -> tuple[int, str]:
    """Exit code and verdict of an audit in a process of its own."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    known |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} | environment
    with launching():
        known["JAVA_HOME"] = os.environ.get("JAVA_HOME", "")
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False, timeout=900)
    assert done.stdout.strip(), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1])["verdict"]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["double delivery"])
def test_spark_submit_runs_the_installed_package(
    kind: str, plant: Callable[[str], tuple[Any, Any]], record: Callable[..., Path]
) -> None:
    import pyspark

    folder = record(*(history.end() for history in plant(kind)))
    script = Path(aiorocketmq_audit.__path__[0]) / "__main__.py"
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    command = [submit, "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    assert told([*command, str(script), str(folder), "--json", *SOME]) == (1, "invalid")


@pytest.mark.spark
def test_spark_connect_gives_the_same_verdict(
    plant: Callable[[str], tuple[Any, Any]], record: Callable[..., Path]
) -> None:
    for needed in ("grpc_status", "google.rpc.error_details_pb2", "zstandard"):
        pytest.importorskip(needed)
    folder = record(*(history.end() for history in plant("double delivery")))
    command = [sys.executable, "-m", "aiorocketmq_audit", str(folder), "--json", *SOME]
    assert told(command, SPARK_REMOTE="local[1]") == (1, "invalid")


@pytest.mark.parametrize(
    ("size", "compiler", "interpreted"),
    [(TINY, "TieredStopAtLevel=1", True), (SMALL, "TieredStopAtLevel=1", False), (SMALL + 1, None, False)],
)
def test_local_sessions_are_tuned_by_the_size_of_the_recording(
    size: int, compiler: str | None, interpreted: bool
) -> None:
    conf = settings("local[2]", size, None)
    assert (compiler or "") in conf.get("spark.driver.extraJavaOptions", "")
    assert (conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN") is interpreted
    assert (conf.get("spark.ui.enabled") == "false") is (size <= SMALL)


def test_the_heap_is_what_was_asked_for() -> None:
    assert settings("local[2]", 0, "8g")["spark.driver.memory"] == "8g"
    assert settings("yarn", 0, "8g")["spark.driver.memory"] == "8g"


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"]
)
def test_a_cluster_keeps_what_was_chosen_for_it(master: str) -> None:
    assert settings(master, 1, None) == {"spark.master": master, "spark.app.name": "aiorocketmq audit"}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("narrowing", "broken"),
    [
        (Narrowing(), 1),
        (Narrowing(groups=("billing",)), 1),
        (Narrowing(groups=("shipping",)), 0),
        (Narrowing(to_us=START + 100_500_000), 0),
        (Narrowing(from_us=START + 100_500_000), 0),
        (Narrowing(early_ms=30_000), 0),
    ],
)
def test_what_is_left_out_is_not_judged(
    narrowing: Narrowing,
    broken: int,
    plant: Callable[[str], tuple[Any, Any]],
    record: Callable[..., Path],
    spark: SparkSession,
) -> None:
    folder = record(*(history.end() for history in plant("double delivery")))
    found = audit([str(folder)], checks=["double delivery"], spark=spark, narrowing=narrowing)
    assert [check.tally.broken for check in found.checks] == [broken]


@pytest.mark.spark
@pytest.mark.parametrize("screen", [None, True], ids=["numbers", "Spark"])
@pytest.mark.parametrize(
    ("narrowing", "possible"), [(Narrowing(groups=("g",)), 1), (Narrowing(from_us=START + 20_000_000), 0)]
)
def test_what_excuses_stays_whatever_is_left_out(
    narrowing: Narrowing,
    possible: int,
    screen: bool | None,
    new_history: Callable[..., Any],
    record: Callable[..., Path],
    spark: SparkSession,
) -> None:
    history = new_history()
    history.config(ordered=False, max_attempts=17)
    history.note("fault", 8, fault={"kind": "crash"})
    history.settle("ack", history.deliver("/0", 40, store_us=START + 7_000_000), 41)
    history.deliver("/0", 50, attempt=2)
    if possible:
        history.settle("ack", history.deliver("/1", 300), 301)
        history.poll(302, 303, group="another", phase="fail", result="away")
        history.deliver("/1", 304, attempt=2)
    found = audit(
        [str(record(history.end()))],
        checks=["double delivery"],
        spark=spark,
        narrowing=narrowing,
        screen=screen,
    )
    (check,) = found.checks
    assert (check.tally.broken, check.tally.possible) == (0, possible)
    assert dict(check.tally.exempted) == {"E4 restart": 1}


def test_a_time_that_is_none_is_refused_in_one_sentence() -> None:
    from aiorocketmq_audit.cli import audit as command

    done = CliRunner().invoke(command, ["runs", "--from", "yesterday"])
    assert done.exit_code == 2
    assert "'yesterday' is not a time: write it as 2026-11-21T10:00:00." in done.output


@pytest.mark.parametrize("line", [["--generate", "--help"], ["runs", "--out", "--json"]])
def test_an_option_is_not_taken_for_a_folder_to_write(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiorocketmq_audit.cli import audit as command

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 2
    assert f"'{line[-1]}' looks like an option: give a folder (./{line[-1]}, if it is one)." in done.output
    assert not list(tmp_path.iterdir())
