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
from aiorocketmq_audit.audit import audit
from aiorocketmq_audit.cli import audit as command
from aiorocketmq_audit.recording.narrowing import Narrowing
from aiorocketmq_audit.spark.java import launching
from aiorocketmq_audit.spark.session import SMALL, TINY, settings
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_checks.tests.histories import SECOND, START, History

Plant = Callable[[str], tuple[History, History]]

SOME = ("--check", "double delivery", "--check", "handles")
"""A check that looks for exemptions, and one of another frame."""


@pytest.fixture
def conf(tmp_path: Path) -> str:
    """A folder with the settings of small recordings, as those of a cluster would take a minute longer."""
    lines = [f"{name} {value}" for name, value in settings("local[1]", TINY, None).items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
    return str(tmp_path)


def told(command: list[str], **environment: str) -> tuple[int, str]:
    """Exit code and verdict of an audit in a process of its own."""
    code, output = run(command, **environment)
    return code, output["verdict"]


def run(command: list[str], **environment: str) -> tuple[int, Any]:
    """Exit code of a process, and the JSON of its last line."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} | environment
    with launching():
        variables["JAVA_HOME"] = os.environ.get("JAVA_HOME", "")
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, timeout=900
        )
    assert done.stdout.strip(), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.spark
def test_spark_submit_runs_the_installed_package(
    plant: Plant, record: Callable[..., Path], conf: str
) -> None:
    import pyspark

    folder = record(*(history.end() for history in plant("double delivery")))
    script = Path(aiorocketmq_audit.__path__[0]) / "__main__.py"
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    command = [submit, "--master", "local[1]"]
    assert told([*command, str(script), str(folder), "--json", *SOME], SPARK_CONF_DIR=conf) == (1, "invalid")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("chosen", "found"), [((), "1"), (("--conf", "spark.sql.shuffle.partitions=7"), "7")]
)
def test_a_shuffle_has_the_partitions_that_were_chosen_or_that_fit_the_recording(
    chosen: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    import pyspark

    script = tmp_path / "ask.py"
    script.write_text(
        "import json\n"
        "from aiorocketmq_audit.spark.session import TINY, session\n"
        "with session(size=TINY) as spark:\n"
        "    print(json.dumps(spark.conf.get('spark.sql.shuffle.partitions')))\n",
        encoding="utf-8",
    )
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    assert run([submit, "--master", "local[1]", *chosen, str(script)]) == (0, found)


@pytest.mark.spark
def test_spark_connect_gives_the_same_verdict(plant: Plant, record: Callable[..., Path], conf: str) -> None:
    for needed in ("grpc_status", "google.rpc.error_details_pb2", "zstandard"):
        pytest.importorskip(needed)
    folder = record(*(history.end() for history in plant("double delivery")))
    command = [sys.executable, "-m", "aiorocketmq_audit", str(folder), "--json", *SOME]
    assert told(command, SPARK_REMOTE="local[1]", SPARK_CONF_DIR=conf) == (1, "invalid")


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
    ("words", "code"),
    [
        (("--group", "billing"), 1),
        (("--group", "shipping"), 0),
        (("--to", "2023-11-14T22:15:00.5"), 0),
        (("--from", "2023-11-14T22:15:00.5+00:00"), 0),
        (("--tolerance", "30000"), 0),
    ],
)
@pytest.mark.usefixtures("spark")
def test_what_is_left_out_is_not_judged(
    words: tuple[str, ...], code: int, plant: Plant, record: Callable[..., Path]
) -> None:
    """A message was delivered twice within a second, 100 s after the begin."""
    folder = record(*(history.end() for history in plant("double delivery")))
    # Commits are judged of each group, so that something is.
    line = [str(folder), "--check", "double delivery", "--check", "commits", *words]
    done = CliRunner().invoke(command, line)
    assert done.exit_code == code, done.output


@pytest.mark.spark
def test_what_exempts_stays_whatever_is_left_out(record: Callable[..., Path], spark: SparkSession) -> None:
    """A crash, and a poll of another group that recorded an unavailable server."""
    history = History()
    history.config(ordered=False, max_attempts=17)
    history.note("fault", 8, fault={"kind": "crash"})
    history.settle("ack", history.deliver("/0", 40, store_us=START + 7 * SECOND), 41)
    history.deliver("/0", 50, attempt=2)
    history.settle("ack", history.deliver("/1", 300), 301)
    history.poll(302, 303, group="another", phase="fail", result="away")
    history.deliver("/1", 304, attempt=2)
    narrowing = Narrowing(groups=("g",), from_us=START + 20 * SECOND)
    result = audit([str(record(history.end()))], checks=["double delivery"], spark=spark, narrowing=narrowing)
    (check,) = result.checks
    assert (check.tally.broken, check.tally.possible) == (0, 1)
    assert dict(check.tally.exempted) == {"restart": 1}


def test_a_time_that_is_none_is_refused_in_one_sentence() -> None:
    done = CliRunner().invoke(command, ["runs", "--from", "yesterday"])
    assert done.exit_code == 2
    assert "'yesterday' is not a time: write it as 2026-11-21T10:00:00." in done.output


@pytest.mark.parametrize("line", [["--generate", "--help"], ["runs", "--out", "--json"]])
def test_an_option_is_not_taken_for_a_folder_to_write(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, line)
    assert done.exit_code == 2
    assert f"'{line[-1]}' looks like an option: give a folder (./{line[-1]}, if it is one)." in done.output
    assert not list(tmp_path.iterdir())
