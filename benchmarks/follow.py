"""How many events a second `aiorocketmq audit --follow` takes in, over a backlog that the generator made.

`python -m benchmarks.follow [EVENTS]` (10,000,000 if not said) prints one JSON line. The start of Spark is not counted,
the end is: all that was read has been judged.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

EVENTS = 10_000_000
SEED = 7


def finished_in_turn(folder: Path) -> int:
    """Let the files look as if their recorders had finished them one after the other; returns how many there are."""
    from pyarrow import parquet

    ends = []
    for file in folder.rglob("*.parquet"):
        footer = parquet.read_metadata(file)
        column = footer.schema.names.index("t_wall_us")
        groups = range(footer.num_row_groups)
        ends.append((max(footer.row_group(group).column(column).statistics.max for group in groups), file))
    for at_us, file in ends:
        os.utime(file, (at_us / 1e6, at_us / 1e6))
    return len(ends)


def measured_follow(events: int = EVENTS) -> dict[str, float]:
    """Generate, follow to the end, and say how quickly that went."""
    from aiorocketmq_audit.generator import Shape, generate
    from aiorocketmq_audit.session import SMALL, session
    from aiorocketmq_audit.streaming.following import Options, follow

    with TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        made = generate(folder, events=events, seed=SEED, shape=Shape(hot=0.2, skew_ms=0))
        files = finished_in_turn(folder)
        options = Options(until_complete=True, every=0.1)
        with session(None, size=SMALL + 1) as spark:
            began = time.perf_counter()
            ended = follow([str(folder)], Path(place) / "out", spark=spark, options=options)
            took = time.perf_counter() - began
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "events": made.events,
        "files": files,
        "batches": ended.progress.batch,
        "seconds": took,
        "events_per_second": made.events / took,
        "cpu_seconds_with_start_and_generator": sum(each.ru_utime + each.ru_stime for each in spent),
        "late_rows": ended.progress.late_rows,
        "forgotten": ended.progress.forgotten,
        "is_valid": ended.verdict.value == "valid",
    }


if __name__ == "__main__":
    print(json.dumps(measured_follow(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)))
