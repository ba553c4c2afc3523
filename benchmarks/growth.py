"""Whether memory or tasks grow: sends and consumes a million messages in one process.

`python -m benchmarks.growth [N]` prints a line per tenth, then the MB that the second half added; exit 1 if tasks did
grow. The fake serves from a process of its own, and deletes what is old.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys

from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage

from benchmarks.running import ROOT, fake
from benchmarks.sizes import resident_mb

AT_ONCE = 32
MESSAGES = 1_000_000
STEPS = 10


async def work(endpoint: str, messages: int) -> int:
    """Send and be called; return the exit code."""
    step = messages // STEPS
    handled = 0
    news = asyncio.Event()
    seen: list[tuple[float, int]] = []

    async def handle(message: ReceivedMessage) -> None:
        nonlocal handled
        handled += 1
        news.set()

    async with (
        Producer(endpoint) as producer,
        PushConsumer(endpoint, group="growth", subscriptions=["growth"], handler=handle) as consumer,
    ):
        sent = 0
        while handled < messages:
            while sent < messages and sent - handled < 4096:
                await producer.send_many([Message("growth", b"x" * 100) for _ in range(AT_ONCE)])
                sent += AT_ONCE
            news.clear()
            await news.wait()
            if handled >= step * (len(seen) + 1):
                gc.collect()
                seen.append((resident_mb(os.getpid()), len(asyncio.all_tasks())))
                print(
                    f"{handled:>9,} messages: {seen[-1][0]:6.1f} MB, {seen[-1][1]} tasks, {consumer.statistics}",
                    flush=True,
                )
    middle, end = seen[len(seen) // 2 - 1], seen[-1]
    print(end[0] - middle[0])
    return 1 if end[1] > middle[1] + 5 else 0


def measured_growth() -> dict[str, list[float]]:
    """Measure once, in a fresh process; takes minutes. Raises CalledProcessError if tasks grow."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth"], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    return {"growth_mb": [float(done.stdout.splitlines()[-1])]}


def main() -> int:
    """Start the fake and work against it."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    with fake(topics=["growth"], groups=["growth"]) as endpoint:
        return asyncio.run(work(endpoint, messages))


if __name__ == "__main__":
    sys.exit(main())
