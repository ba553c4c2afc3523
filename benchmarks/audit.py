"""The audit's speed beside DuckDB's: `python -m benchmarks.audit [--events N]... [--hot] [--faults] [--write]`,
and with `--follow N`, `--workers N` and `--recorder` that of following a recording, of audits by worker processes, and
what making a recording takes.

Recordings are generated once in `--folder` and kept. Each measurement is a process of its own, from its command to its
end; CPU is that of the process and of all that it started. The warm audit is the second one of a process. DuckDB
answers the same questions on the same files as plain windows, without exemptions, evidence or report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.audit_page import (
    AUDIT,
    EVEN,
    FAULTY,
    HOT,
    ONE_WORKER,
    PLAIN,
    TWO_WORKERS,
    WARM,
    merged,
    page,
    table,
)
from benchmarks.audit_sql import PLAIN as QUESTIONS, VIEW
from benchmarks.follow import measured_follow
from benchmarks.recorder import measured_recorder
from benchmarks.running import ROOT

REPORT = ROOT / "docs" / "reference" / "audit-speed.json"

ENGINES = (AUDIT, WARM, PLAIN)
FAULTS = 1_000
"""One planted fault for so many events."""

MASTERS = {ONE_WORKER: "local-cluster[1,1,3072]", TWO_WORKERS: "local-cluster[2,1,3072]"}
"""Worker processes of one core and 3 GB each."""


def main() -> int:
    """Measure what was asked for, print it, and write it if told to."""
    options = _arguments()
    if options.ask is not None:
        (_ask_duckdb if options.ask == PLAIN else _audit_twice)(options.folder)
        return 0
    rows = []
    asked_otherwise = options.follow or options.recorder or options.workers
    sizes = options.events or ([] if asked_otherwise else [1_000, 1_000_000, 10_000_000, 50_000_000])
    shapes = [EVEN, *([HOT] if options.hot else []), *([FAULTY] if options.faults else [])]
    for shape in shapes:
        for events in sizes:
            folder = _recording(options.folder, events, shape)
            for engine in options.engine or ENGINES:
                row = {"events": events, "shape": shape, "engine": engine} | _measured(engine, folder)
                del row["checks"]
                rows.append(row)
                print(json.dumps(row), flush=True)
    facts: dict[str, Any] = {"cores": os.cpu_count(), "runs": rows}
    if options.follow:
        facts["follow"] = measured_follow(options.follow)
    if options.recorder:
        facts["recorder"] = measured_recorder()
    if options.workers:
        facts["workers"] = _measured_workers(
            _recording(options.folder, options.workers, EVEN), options.workers
        )
    if options.write:
        before = json.loads(REPORT.read_text(encoding="utf-8")) if REPORT.exists() else {}
        facts = merged(before, facts)
        REPORT.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        REPORT.with_suffix(".md").write_text(page(facts), encoding="utf-8")
    print(table(facts["runs"]))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--events", type=int, action="append", help="size of a recording; may be repeated")
    parser.add_argument(
        "--hot", action="store_true", help="also with one message group that has a fifth of all"
    )
    parser.add_argument("--faults", action="store_true", help="also with one planted fault in 1,000 events")
    parser.add_argument("--follow", type=int, metavar="EVENTS", help="follow a recording of this size")
    parser.add_argument("--recorder", action="store_true", help="what a recorder takes of its client's speed")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="EVENTS",
        help="audit a recording of this size on one and on two workers",
    )
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "aiorocketmq-recordings")
    parser.add_argument(
        "--write", action="store_true", help="publish it, and keep the other rows of the page"
    )
    parser.add_argument("--ask", choices=(PLAIN, WARM), help=argparse.SUPPRESS)
    return parser.parse_args()


def _recording(folder: Path, events: int, shape: str) -> Path:
    from aiorocketmq_audit.generator import Shape, generate
    from aiorocketmq_audit.generator.faults import KINDS

    path = folder / f"{events}-{shape}".replace(" ", "-")
    done = path / "_made"
    if not done.exists():
        made = Shape(
            hot=0.2 if shape == HOT else 0.0,
            skew_ms=0,
            message_groups=1000,
            queues=8,
            rows_per_file=2_000_000,
        )
        each = max(1, events // FAULTS // len(KINDS))
        plants = dict.fromkeys(KINDS, each) if shape == FAULTY else {}
        generate(path, events=events, seed=1, shape=made, plants=plants)
        done.touch()
    return path


def _measured_workers(folder: Path, events: int) -> dict[str, Any]:
    """Audits of one recording by one worker and by two: what each took, and whether they said the same."""
    rows = {engine: _measured(engine, folder) for engine in MASTERS}
    agree = len({json.dumps(row.pop("checks"), sort_keys=True) for row in rows.values()}) == 1
    return {"events": events, "agree": agree} | {engine: row["seconds"] for engine, row in rows.items()}


def _measured(engine: str, folder: Path) -> dict[str, Any]:
    """One process to its end: seconds, CPU seconds of it and of what it started, and what it said."""
    if engine == AUDIT or engine in MASTERS:
        command = [sys.executable, "-m", "aiorocketmq_audit", str(folder), "--json"]
        command += ["--master", MASTERS[engine]] if engine in MASTERS else []
    else:
        command = [sys.executable, "-m", "benchmarks.audit", "--ask", engine, "--folder", str(folder)]
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        tree = _Tree(process.pid)
        out, err = process.communicate()
    took, cpu = time.monotonic() - began, tree.seconds()
    if process.returncode not in (0, 1, 3):
        raise SystemExit(f"{engine} failed: {err.strip()[-2000:]}")
    said: dict[str, Any] = json.loads(out)
    verdict = said.get("verdict")
    return {
        "seconds": said.get("seconds", round(took, 2)),
        "cpu_seconds": said.get("cpu_seconds", round(cpu, 2)),
        "verdict": verdict,
        "by_part": said.get("by_part"),
        "checks": said.get("checks"),
    }


class _Tree:
    """The CPU seconds of a process and of all that it starts, looked up while they run: Spark's daemon does not wait
    for its Python workers, so that nobody is told what they took. What lives for less than EVERY may be missed."""

    EVERY = 0.1

    def __init__(self, root: int) -> None:
        self._parents, self._ticks = {root: 0}, dict[int, int]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """All that was taken. Ends the watch."""
        self._ended.set()
        self._thread.join()
        return self.so_far()

    def so_far(self) -> float:
        """What was taken until now."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._ended.wait(self.EVERY):
            seen = {}
            for path in Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
                except OSError:
                    continue
                seen[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
            # Parents first: who was started by one of them is one of them, also when its parent has ended.
            for pid in sorted(seen):
                parent, ticks = seen[pid]
                if pid in self._parents or parent in self._parents:
                    self._parents.setdefault(pid, parent)
                    self._ticks[pid] = ticks


def _ask_duckdb(folder: Path) -> None:
    """DuckDB's process: all questions, one after the other."""
    import duckdb

    database = duckdb.connect()
    database.execute(VIEW.format(files=f"{folder}/*.parquet"))
    took = {}
    for name, text in QUESTIONS.items():
        began = time.monotonic()
        database.execute(text).fetchall()
        took[name] = round(time.monotonic() - began, 2)
    print(json.dumps({"by_part": took}))


def _audit_twice(folder: Path) -> None:
    """The audit's process: the second audit of one session."""
    from aiorocketmq_audit.audit import audit
    from aiorocketmq_audit.recording import files
    from aiorocketmq_audit.spark.session import session

    tree = _Tree(os.getpid())
    with session(size=files.find((str(folder),)).size) as spark:
        audit((str(folder),), spark=spark)
        began, before = time.monotonic(), tree.so_far()
        result = audit((str(folder),), spark=spark)
        took, cpu = time.monotonic() - began, tree.so_far() - before
    tree.seconds()
    said = {"verdict": result.overall.verdict.value, "seconds": round(took, 2), "cpu_seconds": round(cpu, 2)}
    print(json.dumps(said))


if __name__ == "__main__":
    sys.exit(main())
