"""What a Recorder takes of a producer's and of a push consumer's throughput.

`python -m benchmarks.recorder` measures all kinds and prints one JSON line; with ORDERS (JSON, as for the clients), a
way, a folder and the turns of a loop, it is the measured process: it records to the folder in that way, and each call
of its handler works for so many turns.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from benchmarks.clients.measuring import Meter, Orders
from benchmarks.running import BATCH, BODY_BYTES, RATE, ROOT, fake

ROUNDS = 7
SECONDS = 6.0
WARM_UP = 2.0
LOAD = 100_000
HANDLER = 100e-6
"""Seconds of CPU that a handler works, of the kind `push-100us`."""
NONE, THREAD, PROCESS = "none", "thread", "process"
"""Ways to record: not at all, by a thread alone, and by a process of its own (the default of `Recorder`)."""
KINDS = ("send", "push", "push-100us")


def spin(turns: int) -> None:
    """Use the CPU for a fixed amount of work, which also takes longer if another thread has the interpreter."""
    for _ in range(turns):
        pass


def turns_of(seconds: float) -> int:
    """Return how many turns of `spin` take `seconds` of CPU on this machine, undisturbed."""
    turns = 100_000
    took = []
    for _ in range(50):
        began = time.perf_counter()
        spin(turns)
        took.append(time.perf_counter() - began)
    return round(turns * seconds / min(took))


async def work(way: str, folder: str, turns: int) -> None:
    """Send, or be called for a backlog, as the orders say."""
    from aiorocketmq import Producer, PushConsumer, ReceivedMessage
    from aiorocketmq.recording import Recorder

    from benchmarks.clients.ours import send_with

    orders = Orders.from_arguments()
    meter = Meter(orders)
    with ExitStack() as stack:
        hooks = []
        if way != NONE:
            hooks.append(stack.enter_context(Recorder(folder, own_process=way == PROCESS)))
        if orders.work == "send":
            await send_with(Producer(orders.endpoint, hooks=hooks), orders, meter)
        else:

            async def handle(message: ReceivedMessage) -> None:
                spin(turns)
                meter.count(1)

            async with PushConsumer(
                orders.endpoint,
                group=orders.group,
                subscriptions=[orders.topic],
                handler=handle,
                concurrency=20,
                hooks=hooks,
            ):
                await meter.run_out()
    meter.report()
    # What runs elsewhere has ended by now, and has counted what came before and after the measurement, too.
    elsewhere = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"elsewhere_us": 1e6 * (elsewhere.ru_utime + elsewhere.ru_stime) / max(1, meter.seen)}))


def measured_recorder(kinds: Sequence[str] = KINDS) -> dict[str, list[float]]:
    """Of each kind of work and way to record: the shares of throughput and of CPU that it takes, in percent, medians
    over rounds in which all ways take turns; and microseconds of CPU in another process for each message."""
    taken: dict[str, list[float]] = {}
    turns = turns_of(HANDLER)
    for kind in kinds:
        runs: dict[str, list[dict[str, float]]] = {NONE: [], THREAD: [], PROCESS: []}
        for number in range(ROUNDS):
            for way in (NONE, THREAD, PROCESS):
                name = f"{kind}-{number}-{way}"
                load = {} if kind == "send" else {name: LOAD}
                with fake(topics=[name], groups=[name], load=load) as endpoint:
                    runs[way].append(_run(kind, endpoint, name, way, turns if kind == "push-100us" else 0))
        for way, suffix in ((PROCESS, ""), (THREAD, "_thread")):
            slower = statistics.median(
                1 - run["rate"] / base["rate"] for run, base in zip(runs[way], runs[NONE], strict=True)
            )
            dearer = statistics.median(
                run["cpu_us"] / base["cpu_us"] - 1 for run, base in zip(runs[way], runs[NONE], strict=True)
            )
            taken |= {
                f"recorder_{kind}{suffix}": [100 * slower],
                f"recorder_{kind}{suffix}_cpu": [100 * dearer],
            }
        elsewhere = statistics.median(run["elsewhere_us"] for run in runs[PROCESS])
        taken[f"recorder_{kind}_elsewhere_us"] = [elsewhere]
    return taken


def _run(kind: str, endpoint: str, name: str, way: str, turns: int) -> dict[str, float]:
    orders = {
        "work": kind.partition("-")[0],
        "endpoint": endpoint,
        "topic": name,
        "group": name,
        "warm_up": WARM_UP,
        "seconds": SECONDS,
        "in_flight": 32,
        "body_bytes": BODY_BYTES,
        "batch": BATCH,
        "rate": RATE,
        "load": 0 if kind == "send" else LOAD,
    }
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.recorder", json.dumps(orders), way, folder, str(turns)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
            check=True,
        )
    result: dict[str, float] = {}
    for line in done.stdout.strip().splitlines():
        result |= json.loads(line)
    print(f"{name}: {result}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    if len(sys.argv) > 3:
        asyncio.run(work(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        print(json.dumps(measured_recorder(sys.argv[1:] or KINDS)))
