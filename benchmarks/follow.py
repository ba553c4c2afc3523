"""How long `aiorocketmq audit --follow` takes for a backlog that the generator made, for a look that finds nothing, and
for a batch with one small file.

`python -m benchmarks.follow [EVENTS]` (5,000,000 if not said) prints one JSON line. The start of Spark is not counted,
the end is: all that was read has been judged.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

EVENTS = 5_000_000
SEED = 7


def measured_follow(events: int = EVENTS) -> dict[str, float]:
    """Generate, follow to the end, and say how quickly that went."""
    from aiorocketmq_audit.generator import Shape, generate
    from aiorocketmq_audit.spark.session import SMALL, session
    from aiorocketmq_audit.streaming.following import Options, follow

    stop = threading.Event()
    stop.set()
    with TemporaryDirectory() as place:
        runs, more, out = Path(place) / "runs", Path(place) / "more", Path(place) / "out"
        made = generate(runs, events=events, seed=SEED, shape=Shape(hot=0.2, skew_ms=0))
        generate(more, events=1000, seed=SEED + 1, shape=Shape(skew_ms=0))
        before = _cpu_seconds()
        with session(f"local[{os.cpu_count()}]", size=SMALL + 1) as spark:

            def seconds(options: Options, stop: threading.Event | None = None) -> float:
                began = time.perf_counter()
                follow([str(runs)], out, spark=spark, options=options, stop=stop)
                return time.perf_counter() - began

            backlog = seconds(Options(until_complete=True))
            told = json.loads((out / "following.json").read_text("utf-8"))
            idle = min(seconds(Options(), stop) for _ in range(3))
            small = []
            for file in sorted(more.rglob("*.parquet"))[:3]:
                shutil.copy(file, runs / f"more-{file.name}")
                small.append(seconds(Options(), stop))
        spent = _cpu_seconds() - before
    return {
        "events": made.events,
        "seconds": backlog,
        "idle_seconds": idle,
        "small_batch_seconds": min(small),
        "cpu_seconds_of_all": spent,
        "late_rows": told["late_rows"],
        "forgotten": told["forgotten"],
        "is_valid": told["verdict"] == "valid",
    }


def _cpu_seconds() -> float:
    """Of this process, and of the processes that it waited for."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


if __name__ == "__main__":
    print(json.dumps(measured_follow(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)))
