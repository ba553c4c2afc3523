"""The core of the fake alone: what a message costs it, and that neither stored messages nor groups change that.

Each figure is CPU time of one fresh process, so that other work on the machine disturbs it little; its collector of
cycles is set as `fake serve` sets it. A message of 1 KiB is sent, received and acknowledged: by calls of its own, or 32
by one receive and one ack, as consumers ask by default.
"""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.running import ROOT

PRELUDE = """
import random, time
from aiorocketmq_fake.collector import spare_the_log
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, OffsetPolicy, TopicType
from aiorocketmq_fake.core.values.model import *
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

spare_the_log()

class Work:
    def __init__(self, groups=1):
        self.now, self.serial = 1000.0, 0
        self.broker = Broker(DOCUMENTED, now=self.now, rng=random.Random(1))
        for topic in ("t", "quiet"):
            self.broker.create_topic(TopicConfig(topic, TopicType.NORMAL, 4, 4), now=self.now)
        for number in range(groups):
            self.broker.create_group(GroupConfig(f"g{number}"), now=self.now)
        subscription = Subscription("g0")
        self.broker.settings("c", ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=subscription), now=self.now)

    def send(self, body=bytes(1024)):
        self.serial += 1
        self.now += 0.001
        message = OutgoingMessage("t", body, f"01{self.serial:032X}", born_timestamp=self.now)
        self.broker.send((message,), now=self.now, client_id="p")

    def receive(self, topic="t", group="g0", batch=1, polling=0.0):
        request = ReceiveRequest(
            "c", group, topic, batch_size=batch, invisible=30.0, polling=polling, remaining_deadline=3600.0
        )
        return self.broker.receive(request, now=self.now)

    def ack(self, deliveries):
        entries = tuple(AckEntry(each.message.content.message_id, each.receipt_handle) for each in deliveries)
        self.broker.ack(AckRequest("c", "g0", "t", entries), now=self.now)

    def message(self):
        self.send()
        self.ack(self.receive().deliveries)
        self.tell()

    def messages(self):
        '''32 of them, sent one by one.'''
        for _ in range(32):
            self.send()
            self.tell()
        left = 32
        while left:
            deliveries = self.receive(batch=32).deliveries
            self.ack(deliveries)
            self.tell()
            left -= len(deliveries)

    def tell(self):
        self.broker.take_events()
        self.broker.take_outputs()
        if not self.serial % 1000:
            self.broker.keep_alive("c", now=self.now)

    def fill(self, count):
        for number in range(count):
            self.send(b"%01024d" % number)
            self.tell()
        end = OffsetPolicy.END
        self.broker.reset_offset("g0", "t", end, now=self.now)
        self.tell()

    def cost(self, count=5000, repeats=7, step=None):
        '''Microseconds of CPU for one step; the best of some runs.'''
        step = step or self.message
        step()
        best = float("inf")
        for _ in range(repeats):
            began = time.process_time()
            for _ in range(count):
                step()
            best = min(best, time.process_time() - began)
        return best / count * 1e6
"""

SINGLE = "print(Work().cost(20_000))"
COST = """
work = Work()
print(work.cost(20_000 // 32, step=work.messages) / 32)
"""
STORED = """
work = Work()
work.fill(1_000)
few = work.cost()
work.fill(1_000_000)
print(work.cost() / few)
"""
GROUPS = """
few = Work().cost()
work = Work(groups=1_000)
for number in range(1_000):
    work.receive(group=f"g{number}")
work.tell()
print(work.cost() / few)
"""
MEMORY = """
import re
work = Work()
work.fill(1_000_000)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e6)
"""
POLLS = """
work = Work(groups=100)
before = work.cost(2_000)
for number in range(10_000):
    work.receive("quiet", f"g{number % 100}", polling=3_000.0)
work.tell()
print((work.cost(2_000) - before) / 3 / 1000)
"""

PROGRAMS = {
    "core_us": COST,
    "core_single_us": SINGLE,
    "core_stored_ratio": STORED,
    "core_groups_ratio": GROUPS,
    "core_million_gb": MEMORY,
    "core_polls_ms": POLLS,
}
"""What measures each figure, by its key in `plan.SIZES`."""


def measured_core(repeats: int = 3) -> dict[str, list[float]]:
    """Measure each figure in `repeats` fresh processes; takes minutes, most of them for the million messages."""
    return {key: [_or_before(program) for _ in range(repeats)] for key, program in PROGRAMS.items()}


def _or_before(program: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ),
    )
    return float(done.stdout)
