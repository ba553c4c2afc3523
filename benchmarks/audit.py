"""The audit's speed beside DuckDB's: `python -m benchmarks.audit [--events N]... [--hot] [--folder DIR] [--write]`,
and with `--follow N`, `--workers N` and `--recorder` that of following a recording, of audits by worker processes, and
what making a recording takes.

Recordings are made up once in `--folder` and kept. Each measurement is a process of its own, from its command to
its end; CPU is that of the process and of all that it started. DuckDB answers the same questions on the same files,
once as plain windows and once by the same packed plan, without excuses, evidence or report.
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

from benchmarks.audit_page import AUDIT, ONE_WORKER, PACKED, PLAIN, TWO_WORKERS, merged, page, table
from benchmarks.audit_sql import VIEW, questions
from benchmarks.follow import measured_follow
from benchmarks.recorder import measured_recorder
from benchmarks.running import ROOT

REPORT = ROOT / "docs" / "reference" / "audit-speed.json"

ENGINES = (AUDIT, PLAIN, PACKED)

MASTERS = {ONE_WORKER: "local-cluster[1,1,3072]", TWO_WORKERS: "local-cluster[2,1,3072]"}
"""Worker processes of one core and 3 GB each."""


def main() -> int:
    """Measure what was asked for, print it, and write it if told to."""
    options = _arguments()
    if options.ask is not None:
        _ask(options.folder, packed=options.ask == "packed")
        return 0
    rows = []
    asked_otherwise = options.follow or options.recorder or options.workers
    sizes = options.events or ([] if asked_otherwise else [1_000, 1_000_000, 10_000_000, 50_000_000])
    for hot in (0.0, 0.2) if options.hot else (0.0,):
        for events in sizes:
            folder = _recording(options.folder, events, hot)
            for engine in options.engine or ENGINES:
                row = {"events": events, "hot": hot, "engine": engine} | _measured(engine, folder)
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
            _recording(options.folder, options.workers, 0.0), options.workers
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
    parser.add_argument("--ask", choices=("plain", "packed"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _recording(folder: Path, events: int, hot: float) -> Path:
    from aiorocketmq_audit.generator import Shape, generate

    path = folder / f"{events}-{'hot' if hot else 'even'}"
    done = path / "_made"
    if not done.exists():
        shape = Shape(hot=hot, skew_ms=0, message_groups=1000, queues=8, rows_per_file=2_000_000)
        generate(path, events=events, seed=1, shape=shape)
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
        plan = engine.removeprefix("duckdb ")
        command = [sys.executable, "-m", "benchmarks.audit", "--ask", plan, "--folder", str(folder)]
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
        "seconds": round(took, 2),
        "cpu_seconds": round(cpu, 2),
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


def _ask(folder: Path, *, packed: bool) -> None:
    """DuckDB's process: all questions, one after the other."""
    import duckdb

    database = duckdb.connect()
    database.execute(VIEW.format(files=f"{folder}/*.parquet"))
    took = {}
    for name, text in questions(packed=packed).items():
        began = time.monotonic()
        database.execute(text).fetchall()
        took[name] = round(time.monotonic() - began, 2)
    print(json.dumps({"by_part": took}))


if __name__ == "__main__":
    sys.exit(main())
