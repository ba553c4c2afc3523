import subprocess
import sys

PROGRAM = """
import gc, random, sys
from aiorocketmq_fake.collector import spare_the_log
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.model import OutgoingMessage, TopicConfig
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

broker = Broker(DOCUMENTED, now=1000.0, rng=random.Random(1))
broker.create_topic(TopicConfig("t"), now=1000.0)
if "spared" in sys.argv:
    spare_the_log()
walks = []
gc.callbacks.append(lambda phase, facts: walks.append(facts["generation"]) if phase == "start" else None)
for number in range(40_000):
    broker.send((OutgoingMessage("t", b"body", f"01{number:032X}"),), now=1000.0)
    broker.take_events()
print(walks.count(2), walks.count(0))
"""


def walks(*words: str) -> tuple[int, int]:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], check=True, capture_output=True, text=True, timeout=60
    )
    old, young = map(int, process.stdout.split())
    return old, young


def test_a_growing_log_is_not_walked_again_and_again() -> None:
    old, _ = walks()
    assert old > 0, "this log is too short to tell"
    old, young = walks("spared")
    assert old == 0
    assert young > 0
