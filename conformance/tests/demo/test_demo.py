"""The demonstration as a user starts it: a process, an exit code, and a folder of evidence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from aiorocketmq_conformance.demo.histories import EventKind, group_waits, history_of, retries_of
from aiorocketmq_conformance.demo.scenario import BILLING, DESK
from aiorocketmq_conformance.demo.shared_queues import CLERKS, HALF, MEMBERS


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `aiorocketmq demo` in a process of its own."""
    code = "from aiorocketmq.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_without_spark_page_and_recording_have_every_retry_at_its_time(
    tmp_path: Path,
) -> None:
    done = demo("--no-spark", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Page: {tmp_path / 'out' / 'index.html'}" in done.stdout
    rows = parquet.read_table(tmp_path / "out" / "recording").to_pylist()
    (failing,) = {row["message_id"] for row in rows if row["kind"] == "dlq.deliver"}
    history = history_of(rows, message_id=failing, group=BILLING)
    assert [event.attempt for event in history.deliveries] == list(range(1, 18))
    assert history.events[-1].kind is EventKind.DEAD_LETTER
    retries = retries_of(history, group_waits(rows, BILLING))
    assert [retry.expected for retry in retries] == [
        10.0,
        30.0,
        *(60.0 * n for n in (*range(1, 11), 20, 30, 60, 120)),
    ]
    assert all(retry.observed == pytest.approx(retry.expected, abs=0.01) for retry in retries)
    held = [row["message_id"] for row in rows if row["kind"] == "expire" and row["group"] == DESK]
    assert len(held) == 3
    read = [row for row in rows if row["kind"] == "deliver" and row["group"] == CLERKS]
    assert len({(row["queue"], row["offset"]) for row in read}) == 2 * HALF
    assert len({row["client_id"] for row in read}) == MEMBERS


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    done = demo("--no-spark", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "thesis.txt" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


JUDGED = {
    *("ordering", "double delivery", "retry timing", "attempts", "dead letters", "delay", "origin", "loss"),
    *("filters", "queues", "offsets", "commits", "handles"),
}
"""Checks that have something to judge in the scenario."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("planted", "objecting"),
    [("reordering", "ordering"), ("double-delivery", "double delivery"), ("early-retry", "retry timing")],
)
def test_an_injected_fault_is_detected_by_its_check_only(
    tmp_path: Path, planted: str, objecting: str
) -> None:
    done = demo("--no-conformance", "--plant", planted, "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    summary = json.loads((tmp_path / "out" / "audit" / "summary.json").read_text(encoding="utf-8"))
    verdicts = {check["name"]: check["verdict"] for check in summary["checks"] if check["judged"]}
    assert verdicts == {name: "invalid" if name == objecting else "valid" for name in verdicts}
    # Fairness is judged by half minutes, which a play that is hurried need not fill.
    assert verdicts.keys() - {"fairness"} == JUDGED
    assert {check["verdict"] for check in summary["checks"] if not check["judged"]} == {"unknown"}
