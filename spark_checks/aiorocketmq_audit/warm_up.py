"""Prepares a machine: a class archive for the Java at hand, so that later audits start in half the time.

It takes some ten seconds and 200 MB in the user's cache folder, hence only on request (spark-audit.md section 3).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from aiorocketmq_audit import java
from aiorocketmq_audit.recording.schema import COLUMNS, RECORDING
from aiorocketmq_audit.session import session


def warm_up() -> Path:
    """Run one small audit whose Java process writes the archive as it ends; returns the archive's path."""
    from aiorocketmq_audit.run import audit

    archive = java.archive(java.find())
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder, session("local[*]", size=1, warm_up=True) as spark:
        recording = f"{folder}/recording"
        spark.createDataFrame(_rows(), RECORDING).coalesce(1).write.parquet(recording)
        audit([recording], spark=spark, violations=f"{folder}/violations")
    return archive


def _rows() -> list[tuple[object, ...]]:
    """Two deliveries of one message, a change between them: enough to touch every part of the plan."""
    rows = []
    kinds = ("recorder.start", "config", "deliver", "change", "receive", "deliver", "recorder.end")
    for seq, kind in enumerate(kinds):
        cells: dict[str, object] = dict.fromkeys(COLUMNS)
        cells |= dict.fromkeys(("run_id", "case_id", "recorder", "boot", "group", "topic", "message_id"), "w")
        cells |= {"observer": "client", "seq": seq, "kind": kind, "t_wall_us": seq, "t_mono_ns": seq * 1000}
        cells |= {
            "invoked_us": seq,
            "invisible_ms": 10,
            "attempt": 1,
            "cfg": {"version": "1", "ordered": "false"},
        }
        cells |= {"phase": "ok" if kind in ("change", "receive") else None, "reason": "retry"}
        rows.append(tuple(cells[name] for name in COLUMNS))
    return rows
