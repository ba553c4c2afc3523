"""What a thousand idle push consumers take in one process, beside the bare streams that each of them holds open.

`python -m benchmarks.idle ours|stub ENDPOINT` measures in a fresh process and prints one JSON line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.running import fake
from benchmarks.sizes import resident_mb

CONSUMERS = 1000
AT_ONCE = 50
WARM_UP = 180.0
"""Seconds until the rarer calls of every consumer have found their pace."""
SECONDS = 270.0
"""Twice the longest pause between two calls of one kind: consumers that began together still call in waves."""
STREAMS_SECONDS = 60.0
"""Bare streams have no rarer calls; without heartbeats the server forgets them after two minutes, and refuses polls."""
POLL = 20
"""Seconds of a poll: as long as Apache's servers let one wait."""


def sockets() -> int:
    """Count the connections of this process (Linux; 0 elsewhere)."""
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        return 0
    names = [os.path.join(folder, name) for name in os.listdir(folder)]
    inodes = {os.readlink(name)[8:-1] for name in names if os.path.islink(name)}
    rows: list[list[str]] = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{name}", encoding="ascii") as table:
            rows.extend(line.split() for line in table.readlines()[1:])
    return sum(1 for row in rows if row[3] == "01" and row[9] in inodes)


async def cpu_percent(seconds: float) -> float:
    """Share of one core that this process takes for so long, in percent."""
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - began) * 100


async def ours(endpoint: str) -> dict[str, float]:
    """Hold push consumers open that have nothing to do."""
    from aiorocketmq import Connection, PushConsumer, ReceivedMessage, Timeouts

    async def handle(message: ReceivedMessage) -> None:
        raise AssertionError("nothing was sent")

    async with AsyncExitStack() as stack:
        rocketmq = await stack.enter_async_context(
            Connection(endpoint, timeouts=Timeouts(start=120, stop=30))
        )

        def consumer() -> PushConsumer:
            return PushConsumer(rocketmq, group="idle", subscriptions=["idle"], handler=handle)

        await stack.enter_async_context(consumer())
        gc.collect()
        memory, tasks = resident_mb(os.getpid()), len(asyncio.all_tasks())
        for _ in range(0, CONSUMERS, AT_ONCE):
            some = [consumer() for _ in range(AT_ONCE)]
            await asyncio.gather(*(each.__aenter__() for each in some))
            for each in some:
                stack.push_async_exit(each)
        await asyncio.sleep(WARM_UP)
        share = await cpu_percent(SECONDS)
        gc.collect()
        result = {
            "kb_each": (resident_mb(os.getpid()) - memory) * 1024 / CONSUMERS,
            "tasks_each": (len(asyncio.all_tasks()) - tasks) / CONSUMERS,
            "cpu_percent": share,
            "threads": float(threading.active_count() - 1),
            "connections": float(sockets()),
        }
        print(json.dumps(result), flush=True)
        os._exit(0)  # what a stop costs is another question


async def stub(endpoint: str) -> dict[str, float]:
    """Hold open what each of them needs of the channel, a settings stream and a poll, and poll again for ever."""
    import grpc
    from aiorocketmq.wire import messages as pb
    from aiorocketmq.wire.methods import METHODS

    channel = grpc.aio.insecure_channel(
        endpoint, options=[("grpc.enable_retries", 0), ("grpc.minimal_stack", 1)]
    )
    telemetry: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
        METHODS["Telemetry"].path
    )
    receive: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
        METHODS["ReceiveMessage"].path
    )
    command = pb.TelemetryCommand(settings=pb.Settings(client_type=pb.ClientType.PUSH_CONSUMER))
    command.settings.subscription.group.name = "idle"
    command.settings.user_agent.language = pb.Language.PYTHON
    wanted = command.settings.subscription.subscriptions.add()
    wanted.topic.name, wanted.expression.type, wanted.expression.expression = "idle", pb.FilterType.TAG, "*"
    request = pb.ReceiveMessageRequest(batch_size=32)
    request.group.name = "idle"
    request.filter_expression.type, request.filter_expression.expression = pb.FilterType.TAG, "*"
    request.invisible_duration.seconds, request.long_polling_timeout.seconds = 60, POLL
    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHODS["QueryRoute"].path)
    answer = await ask(
        pb.QueryRouteRequest(topic=pb.Resource(name="idle")).SerializeToString(),
        metadata=(("x-mq-client-id", "idle"),),
    )
    request.message_queue.CopyFrom(pb.QueryRouteResponse.FromString(answer).message_queues[0])
    kept: list[Any] = []

    async def one(number: int) -> None:
        metadata = (
            ("x-mq-client-id", f"idle-{number}"),
            ("x-mq-language", "PYTHON"),
            ("x-mq-protocol", "v2"),
        )
        stream = telemetry(metadata=metadata)
        await stream.write(command.SerializeToString())
        await stream.read()
        kept.extend((stream, asyncio.create_task(polls(metadata))))

    async def polls(metadata: tuple[tuple[str, str], ...]) -> None:
        payload = request.SerializeToString()
        while True:
            poll = receive(payload, metadata=metadata, timeout=3 * POLL)
            while await poll.read() is not grpc.aio.EOF:
                pass

    await one(0)
    gc.collect()
    memory = resident_mb(os.getpid())
    for first in range(1, CONSUMERS + 1, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, first + AT_ONCE)))
    await asyncio.sleep(1)
    gc.collect()
    kb_each = (resident_mb(os.getpid()) - memory) * 1024 / CONSUMERS
    await asyncio.sleep(POLL)
    share = await cpu_percent(STREAMS_SECONDS)
    print(json.dumps({"kb_each": kb_each, "cpu_percent": share}), flush=True)
    os._exit(0)


def measured(kind: str) -> dict[str, float]:
    """Measure in a fresh process against a fresh fake in another."""
    with fake(topics=["idle"], groups=["idle"]) as endpoint:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.idle", kind, endpoint],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def measured_idle() -> dict[str, list[float]]:
    """Measure both, once: memory does not depend on what else the machine does, and the limits leave room."""
    mine, bare = measured("ours"), measured("stub")
    return {
        "idle_kb": [mine["kb_each"] - bare["kb_each"]],
        "idle_kb_in_all": [mine["kb_each"]],
        "idle_tasks": [mine["tasks_each"]],
        "idle_cpu": [mine["cpu_percent"]],
        "idle_cpu_beside": [mine["cpu_percent"] / bare["cpu_percent"]],
        "idle_connections": [mine["connections"]],
    }


if __name__ == "__main__":
    asyncio.run({"ours": ours, "stub": stub}[sys.argv[1]](sys.argv[2]))
