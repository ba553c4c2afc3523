"""What a broker with `--data` holds in memory while a million messages pass through it.

`python -m benchmarks.stored [N] [--memory MIB]` starts `aiorocketmq fake serve --data` in a process of its own, sends N
messages of 1 KiB, consumes all of them, and prints the resident memory of that process per tenth; the last line is the
most of them, and what it had before the first message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage, Timeouts

from benchmarks.running import BATCH, BODY_BYTES, ROOT
from benchmarks.sizes import command, resident_mb

MESSAGES = 1_000_000
MEMORY = 64
STEPS = 10
AT_ONCE = 8 * BATCH
# The disk decides how long a call takes, and a busy machine has little of it.
PATIENT = Timeouts(request=60.0)


@contextmanager
def serving(memory: int) -> Iterator[tuple[str, int]]:
    """Run the fake with a data folder that goes with it; gives endpoint and process id."""
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-stored-") as folder:
        bound = ("--data", folder, "--data-memory", str(memory))
        process = subprocess.Popen(
            [
                command(),
                "fake",
                "serve",
                *("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"),
                "--topic",
                "stored",
                "--group",
                "g",
                *bound,
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            found = next(word for word in line.split() if word.startswith("grpc="))
            yield found.removeprefix("grpc="), process.pid
        finally:
            process.terminate()
            process.wait(60)


async def _fill(endpoint: str, process_id: int, messages: int) -> list[float]:
    """Send everything; the memory after each tenth."""
    seen: list[float] = []
    body = b"x" * BODY_BYTES
    async with Producer(endpoint, topics=["stored"], linger=0.002, timeouts=PATIENT) as producer:
        sent = 0
        while sent < messages:
            await producer.send_many([Message("stored", body) for _ in range(AT_ONCE)])
            sent += AT_ONCE
            if sent >= messages // STEPS * (len(seen) + 1):
                seen.append(resident_mb(process_id))
                print(f"{sent:>9,} stored: {seen[-1]:6.1f} MB", flush=True)
    return seen


async def _drain(endpoint: str, process_id: int, messages: int) -> list[float]:
    """Consume and acknowledge everything; the memory after each tenth."""
    seen: list[float] = []
    handled = 0
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        handled += 1
        if handled >= messages // STEPS * (len(seen) + 1):
            seen.append(resident_mb(process_id))
            print(f"{handled:>9,} consumed: {seen[-1]:6.1f} MB", flush=True)
        if handled >= messages:
            done.set()

    async with PushConsumer(endpoint, group="g", subscriptions=["stored"], handler=handle, timeouts=PATIENT):
        await done.wait()
    return seen


def measured_stored() -> dict[str, list[float]]:
    """Measure once, in fresh processes; takes minutes."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.stored"], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    last = json.loads(done.stdout.splitlines()[-1])
    return {"stored_mb": [last["most_mb"]]}


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stored", description=__doc__)
    parser.add_argument("messages", type=int, nargs="?", default=MESSAGES)
    parser.add_argument("--memory", type=int, default=MEMORY)
    given = parser.parse_args()
    with serving(given.memory) as (endpoint, process_id):
        idle = resident_mb(process_id)
        seen = asyncio.run(_fill(endpoint, process_id, given.messages))
        seen += asyncio.run(_drain(endpoint, process_id, given.messages))
    print(json.dumps({"most_mb": max(seen), "idle_mb": idle, "setting_mib": given.memory}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
