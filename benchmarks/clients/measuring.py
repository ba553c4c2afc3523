"""What every measured process shares: its orders, its clocks and its result. Standard library only."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Orders:
    """What one process is to do, given as JSON in its first argument."""

    work: str
    endpoint: str
    topic: str
    group: str
    warm_up: float
    seconds: float
    in_flight: int
    body_bytes: int
    batch: int
    rate: float
    load: int

    @classmethod
    def from_arguments(cls) -> Orders:
        """Read them from the command line."""
        return cls(**json.loads(sys.argv[1]))

    @property
    def body(self) -> bytes:
        """The body that every message carries; it does not compress."""
        return bytes(i * 7919 % 251 for i in range(self.body_bytes))


@dataclass
class Meter:
    """Counts messages and times calls between the end of the warm-up and the end of the work."""

    orders: Orders
    began: float = field(default_factory=time.perf_counter)
    messages: int = 0
    seen: int = 0
    latencies: list[float] = field(default_factory=list)
    started: float = 0.0
    stopped: float = 0.0
    cpu_at_start: float = 0.0
    cpu: float = 0.0
    reported: bool = False

    @property
    def over(self) -> bool:
        """Tell whether the work is done; starts and stops the measurement by the way."""
        now = time.perf_counter()
        if not self.started:
            if not self.seen:
                self.began = (
                    now  # clients need unlike times to get going: the warm-up starts with the first message
                )
            if now - self.began >= self.orders.warm_up:
                gc.collect()
                self.messages, self.latencies = 0, []
                self.cpu_at_start, self.started = time.process_time(), time.perf_counter()
            return False
        if not self.stopped and now - self.started >= self.orders.seconds:
            self.stop()
        return bool(self.stopped)

    def count(self, messages: int, latency: float | None = None) -> None:
        """Note messages that went through, and how long the call took."""
        if self.stopped:
            return
        self.seen += messages
        self.messages += messages
        if latency is not None:
            self.latencies.append(latency)
        if self.started and 0 < self.orders.load <= self.seen:
            self.stop()  # all is consumed: waiting for more is not work

    async def run_out(self) -> None:
        """Wait until the work is over, for clients that are called."""
        while not self.over:  # noqa: ASYNC110  # threads feed a meter, too: it has no event of one loop
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """End the measurement."""
        self.stopped, self.cpu = time.perf_counter(), time.process_time() - self.cpu_at_start

    def report(self) -> None:
        """Print the result as one JSON line; what happens afterwards, like closing, is not measured."""
        if self.reported:
            return
        self.reported = True
        if not self.stopped:
            self.stop()
        took = self.stopped - self.started
        ordered = sorted(self.latencies)
        facts = {
            "messages": self.messages,
            "seconds": took,
            "rate": self.messages / took,
            "cpu_us": self.cpu / max(1, self.messages) * 1e6,
            "p50_ms": quantile(ordered, 0.50),
            "p99_ms": quantile(ordered, 0.99),
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(facts), flush=True)


def quantile(ordered: list[float], share: float) -> float | None:
    """Return a quantile of sorted seconds, in milliseconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else None
