"""Finding out whether a RocketMQ 5 proxy answers at an address, before any case blames it."""

from __future__ import annotations

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.brokers.interface import TargetUnavailable
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.probe.requests import resource

DEADLINE = 10.0
"""Real seconds in which the first answer has to come."""


async def greet(endpoint: str) -> None:
    """Ask for the route of a topic that hardly exists; any status is a good answer. Raises TargetUnavailable."""
    request = pb.QueryRouteRequest(topic=resource("aiorocketmq-conformance-greeting"))
    async with ProbeClient(endpoint, "aiorocketmq-conformance-greeting", RealClock()) as client:
        try:
            await client.unary("QueryRoute", request, timeout=DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise TargetUnavailable(
                f"no RocketMQ 5 proxy answers at {endpoint} ({error.code().name}: {error.details()}): "
                "give the host and gRPC port of a running proxy, usually 8081"
            ) from error
