"""How long each strategy takes to share 1,000 queues over 100 consumers, beside one answer of a name server:
`python -m benchmarks.shares [--real VERSION]`.

The name server is the fake's or a real one, in a process of its own; its answer is the route of a topic with as many
queues. Computations count as CPU time, which they take alone; the answer as it is waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from aiorocketmq import Admin, MessageQueue
from aiorocketmq.allocation import (
    Allocation,
    Averagely,
    AveragelyByCircle,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    share,
)
from aiorocketmq_conformance.targets.apache.server import ApacheServer

from benchmarks.running import fake

QUEUES, CONSUMERS, ROUNDS = 1000, 100, 100
ROOMS = ("east", "west")
TOPIC = "shared"


def queues(topic: str) -> Sequence[MessageQueue]:
    """The queues of a topic on four brokers in two rooms."""
    names = [f"{room}@broker-{number}" for room in ROOMS for number in range(2)]
    return [MessageQueue(topic, name, number) for name in names for number in range(QUEUES // len(names))]


STRATEGIES: Mapping[str, Allocation] = MappingProxyType(
    {
        "averagely": Averagely(),
        "by_circle": AveragelyByCircle(),
        "consistent_hash": ConsistentHash(),
        "configured": Configured(queues(TOPIC)[:10]),
        "machine_room": MachineRoom(ROOMS[:1]),
        "nearby": MachineRoomNearby(lambda queue: queue.broker[:4], lambda consumer: consumer[:4]),
    }
)
_numbers = itertools.count()


def members(count: int) -> list[str]:
    """Client ids that were never met before."""
    return [f"{ROOMS[next(_numbers) % 2]}@10.0.0.7#{next(_numbers)}" for _ in range(count)]


def joined(strategy: Allocation) -> float:
    """The seconds of one computation after a member has joined, the best of some: others only add to it."""
    shared, known = queues(TOPIC), members(CONSUMERS - 1)

    def once() -> float:
        group = [*known, *members(1)]
        begin = time.process_time()
        share(strategy, shared, group, known[0])
        return time.process_time() - begin

    once()
    return min(once() for _ in range(ROUNDS))


def first(strategy: Allocation) -> float:
    """The seconds of one computation of a topic and a group that are new, the best of some."""

    def once() -> float:
        shared, group = queues(f"{TOPIC}-{next(_numbers)}"), members(CONSUMERS)
        begin = time.process_time()
        share(strategy, shared, group, group[0])
        return time.process_time() - begin

    return min(once() for _ in range(ROUNDS))


async def answered(namesrv: str) -> float:
    """The seconds of one answer of a name server, the best of some."""
    async with Admin(f"namesrv://{namesrv}") as admin:
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await admin.route(TOPIC)
            times.append(time.perf_counter() - begin)
    return min(times)


def of_the_fake() -> float:
    """The seconds of an answer of the fake."""
    with fake(topics=[TOPIC], groups=(), queues=QUEUES, is_remoting=True) as endpoint:
        return asyncio.run(answered(endpoint))


def of_a_real_one(version: str) -> float:
    """The seconds of an answer of Apache's name server, which gets fast with use."""

    async def measured() -> float:
        async with ApacheServer(version) as server:
            async with Admin(f"namesrv://{server.namesrv}") as admin:
                await admin.create_topic(TOPIC, queues=QUEUES)
            return min([await answered(server.namesrv) for _ in range(10)])

    return asyncio.run(measured())


def measured_shares(answer: Callable[[], float] = of_the_fake) -> dict[str, list[float]]:
    """Measure all strategies, as ratios."""
    beside = answer()
    ratios = {f"share_{name}": [joined(strategy) / beside] for name, strategy in STRATEGIES.items()}
    return {**ratios, "share_first": [first(ConsistentHash()) / beside]}


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares", description=__doc__)
    parser.add_argument("--real", metavar="VERSION", help="beside Apache's name server of this version")
    version = parser.parse_args().real
    found = measured_shares(lambda: of_a_real_one(version)) if version else measured_shares()
    for name, (ratio,) in found.items():
        print(f"{name}: {ratio:.2f} times an answer of the name server")


if __name__ == "__main__":
    main()
