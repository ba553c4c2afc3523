"""Finding out whether a RocketMQ 5 proxy answers at an address, before any case blames it."""

from __future__ import annotations

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.brokers.interface import TargetUnavailable
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.probe.requests import resource

DEADLINE = 10.0
"""Real seconds that one attempt has."""
NAME = "aiorocketmq-conformance-greeting"


async def greet(endpoint: str, *, attempts: int = 1) -> None:
    """Ask for the route of a topic that hardly exists; any status is a good answer.

    Raises TargetUnavailable when none of `attempts` is answered; each has 10 s.
    """
    request = pb.QueryRouteRequest(topic=resource(NAME))
    for left in reversed(range(attempts)):
        async with ProbeClient(endpoint, NAME, RealClock()) as client:
            try:
                await client.unary("QueryRoute", request, timeout=DEADLINE)
            except grpc.aio.AioRpcError as error:
                if left == 0:
                    raise TargetUnavailable(
                        f"no RocketMQ 5 proxy answers at {endpoint} ({error.code().name}: {error.details()}): "
                        "give the host and gRPC port of a running proxy, usually 8081"
                    ) from error
            else:
                return
