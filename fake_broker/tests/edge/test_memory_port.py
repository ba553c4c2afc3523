"""A port in memory: it serves as the gRPC port does, and ends calls when it is closed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.clock import ManualClock
from aiorocketmq_fake.edge.memory_port import Exchange, MemoryHost, MemoryPort
from aiorocketmq_fake.edge.node import Node

SERVICE = "/apache.rocketmq.v2.MessagingService/"


class Call(Exchange):
    """A call that keeps its responses."""

    def __init__(self, method: str, *requests: bytes) -> None:
        self.path = SERVICE + method
        self.metadata: Sequence[tuple[str, str]] = (
            ("x-mq-client-id", "c1"),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.0.0"),
        )
        self.peer = "ipv4:10.0.0.9:40000"
        self.deadline: float | None = None
        self.requests = list(requests)
        self.responses: list[bytes] = []
        self.ends: list[tuple[str, str]] = []

    async def read(self) -> bytes | None:
        return self.requests.pop(0) if self.requests else None

    def write(self, payload: bytes) -> None:
        self.responses.append(payload)

    def end(self, status: str, text: str) -> None:
        self.ends.append((status, text))


async def node_on(host: MemoryHost, port: int = 0) -> Node:
    clock = ManualClock(0.0)
    core = Broker(PROFILES["documented"], now=0.0, rng=random.Random(0), host="10.0.0.1", port=port)
    node = Node(core, clock, Address("10.0.0.1", port), None, make_port=host.port)
    await node.start()
    return node


async def served(host: MemoryHost, call: Call, address: str = "10.0.0.1:8081") -> Call:
    port = host.listening(address)
    assert isinstance(port, MemoryPort)
    await port.serve(call)
    return call


async def test_it_answers_calls() -> None:
    host = MemoryHost()
    node = await node_on(host)
    await node.create_topic("orders", queues=2)
    request = pb.QueryRouteRequest()
    request.topic.name = "orders"
    request.endpoints.scheme = pb.AddressScheme.IPv4
    request.endpoints.addresses.add(host="10.0.0.1", port=8081)
    call = await served(host, Call("QueryRoute", request.SerializeToString()))
    route = pb.QueryRouteResponse.FromString(call.responses[0])
    assert [queue.id for queue in route.message_queues] == [0, 1]
    assert route.message_queues[0].broker.endpoints.addresses[0].port == 8081
    assert call.ends == [("OK", "")]
    await node.stop()


async def test_unknown_methods_and_malformed_requests_end_with_a_status() -> None:
    host = MemoryHost()
    node = await node_on(host)
    assert (await served(host, Call("Nothing", b""))).ends[0][0] == "UNIMPLEMENTED"
    assert (await served(host, Call("QueryRoute", b"\xff"))).ends[0][0] == "INTERNAL"
    await node.stop()


async def test_a_crash_ends_calls_in_progress_and_frees_the_port() -> None:
    host = MemoryHost()
    node = await node_on(host)
    port = host.listening("10.0.0.1:8081")
    assert port is not None

    class Silent(Call):
        async def read(self) -> bytes | None:
            await asyncio.Event().wait()
            return None

    call = Silent("Telemetry")
    task = port.serve(call)
    await asyncio.sleep(0)
    await node.crash()
    assert task.done()
    assert [status for status, _ in call.ends] == ["UNAVAILABLE"]
    assert host.listening("10.0.0.1:8081") is None
    await node.start()
    assert host.listening("10.0.0.1:8081") is port
    await node.stop()


async def test_a_port_is_taken_once() -> None:
    host = MemoryHost()
    node = await node_on(host)
    with pytest.raises(OSError, match="taken"):
        await node_on(host, 8081)
    await node.stop()
