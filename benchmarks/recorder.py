"""What a Recorder takes of a producer's and of a push consumer's throughput.

`python -m benchmarks.recorder` measures both and prints one JSON line; with ORDERS (JSON, as for the clients) and a
folder, it is the measured process, and records to the folder, or to nowhere when that is empty.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from benchmarks.clients.measuring import Meter, Orders
from benchmarks.running import BATCH, BODY_BYTES, RATE, ROOT, fake

ROUNDS = 7
SECONDS = 6.0
WARM_UP = 2.0
LOAD = 100_000


async def work(folder: str) -> None:
    """Send, or be called for a backlog, as the orders say."""
    from aiorocketmq import Producer, PushConsumer, ReceivedMessage
    from aiorocketmq.recording import Recorder

    from benchmarks.clients.ours import send_with

    orders = Orders.from_arguments()
    meter = Meter(orders)
    with ExitStack() as stack:
        hooks = [stack.enter_context(Recorder(folder))] if folder else []
        if orders.work == "send":
            await send_with(Producer(orders.endpoint, hooks=hooks), orders, meter)
        else:

            async def handle(message: ReceivedMessage) -> None:
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


def measured_recorder() -> dict[str, list[float]]:
    """Of each kind of work: the share of throughput and of CPU that a recorder takes, in percent, and microseconds of
    CPU in a process of its own for each message; by turns."""
    taken: dict[str, list[float]] = {}
    for kind in ("send", "push"):
        names = [f"{kind}-{number}" for number in range(2 * ROUNDS)]
        load = dict.fromkeys(names, LOAD) if kind == "push" else {}
        rates: dict[bool, list[float]] = {True: [], False: []}
        elsewhere: list[float] = []
        costs: dict[bool, list[float]] = {True: [], False: []}
        for number in range(ROUNDS):
            for recorded in (False, True):
                name = names[2 * number + recorded]
                with fake(topics=[name], groups=[name], load={name: load[name]} if load else {}) as endpoint:
                    result = _run(kind, endpoint, name, recorded=recorded)
                    rates[recorded].append(result["rate"])
                    costs[recorded].append(result["cpu_us"])
                if recorded:
                    elsewhere.append(result["elsewhere_us"])
        slower = 1 - statistics.median(rates[True]) / statistics.median(rates[False])
        dearer = statistics.median(costs[True]) / statistics.median(costs[False]) - 1
        taken |= {f"recorder_{kind}": [100 * slower], f"recorder_{kind}_cpu": [100 * dearer]}
        taken |= {f"recorder_{kind}_elsewhere_us": [statistics.median(elsewhere)]}
    return taken


def _run(kind: str, endpoint: str, name: str, *, recorded: bool) -> dict[str, float]:
    orders = {
        "work": kind,
        "endpoint": endpoint,
        "topic": name,
        "group": name,
        "warm_up": WARM_UP,
        "seconds": SECONDS,
        "in_flight": 32,
        "body_bytes": BODY_BYTES,
        "batch": BATCH,
        "rate": RATE,
        "load": LOAD if kind == "push" else 0,
    }
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.recorder", json.dumps(orders), folder if recorded else ""],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
            check=True,
        )
    result: dict[str, float] = {}
    for line in done.stdout.strip().splitlines():
        result |= json.loads(line)
    return result


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[2]))
    else:
        print(json.dumps(measured_recorder()))
