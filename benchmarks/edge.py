"""What a send costs the fake's process, beside a bare `grpc.aio` server that answers the same bytes to everything.

`python -m benchmarks --part edge` measures. `python -m benchmarks.edge fake|bare` serves one of the two: it prints its
endpoint, then its CPU seconds for each line of standard input, and ends with it.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from benchmarks.running import BODY_BYTES, ROOT

METHOD = METHODS["SendMessage"]
CALLS, IN_FLIGHT, WARM_UP, ROUNDS = 6_000, 32, 500, 5
METADATA = (
    ("x-mq-client-id", "bench"),
    ("x-mq-language", "PYTHON"),
    ("x-mq-client-version", "5.0.5"),
    ("x-mq-protocol", "v2"),
)


@asynccontextmanager
async def fake() -> AsyncIterator[str]:
    """The fake as it comes."""
    from aiorocketmq_fake import FakeBroker

    async with FakeBroker() as broker:
        await broker.create_topic("t")
        yield broker.endpoint


@asynccontextmanager
async def bare() -> AsyncIterator[str]:
    """A server that reads nothing and decides nothing, on grpcio as it comes."""
    import grpc

    answer = pb.SendMessageResponse(status=pb.Status(code=pb.Code.OK, message="OK"))
    answer.entries.add(message_id="0" * 34, offset=1).status.CopyFrom(answer.status)
    payload = answer.SerializeToString()

    async def handle(request: bytes, context: Any) -> bytes:
        return payload

    service, name = METHOD.path.strip("/").split("/")
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handler: Any = grpc.unary_unary_rpc_method_handler(handle)  # Any: bytes pass as they are
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def serve(kind: str) -> None:
    """Serve until standard input ends; tell the CPU time whenever it has a line."""
    async with {"fake": fake, "bare": bare}[kind]() as endpoint:
        print(endpoint, flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            used = resource.getrusage(resource.RUSAGE_SELF)
            print(used.ru_utime + used.ru_stime, flush=True)


async def load(endpoint: str, calls: int) -> None:
    """Make so many sends, as bytes, so that the client takes as little of the machine as it can."""
    import grpc

    message = pb.Message(topic=pb.Resource(name="t"), body=bytes(BODY_BYTES))
    message.system_properties.message_id = "01" + "0" * 32
    message.system_properties.born_host = "bench"
    message.system_properties.message_type = pb.MessageType.NORMAL
    message.system_properties.body_encoding = pb.Encoding.IDENTITY
    message.system_properties.born_timestamp.seconds = int(time.time())
    payload = pb.SendMessageRequest(messages=[message]).SerializeToString()
    async with grpc.aio.insecure_channel(endpoint) as channel:
        send: Any = channel.unary_unary(METHOD.path)  # Any: bytes pass as they are

        async def lane() -> None:
            for _ in range(calls // IN_FLIGHT):
                await send(payload, metadata=METADATA, timeout=60)

        await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))


def cost(kind: str) -> float:
    """Return the CPU seconds of a server for all calls."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.edge", kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def used() -> float:
        assert server.stdin is not None
        assert server.stdout is not None
        print(file=server.stdin, flush=True)
        return float(server.stdout.readline())

    try:
        endpoint = server.stdout.readline().strip()
        asyncio.run(load(endpoint, WARM_UP))
        before = used()
        asyncio.run(load(endpoint, CALLS))
        return used() - before
    finally:
        server.stdin.close()
        server.wait(10)


def measured_edge() -> dict[str, list[float]]:
    """Measure both in turns; the cheapest round of each counts, since other work can only add to it."""
    pairs = [(cost("fake"), cost("bare")) for _ in range(ROUNDS)]
    return {"edge_cost": [min(mine for mine, _ in pairs) / min(theirs for _, theirs in pairs)]}


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
