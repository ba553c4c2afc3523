"""Checks whether a RocketMQ 5 proxy answers at an address, before any case runs."""

from __future__ import annotations

import asyncio
import time

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.probe.requests import resource
from aiorocketmq_conformance.targets.interface import TargetUnavailableError

DEADLINE = 10.0
"""Real seconds that one attempt has."""
STARTING = 60.0
"""Real seconds that a ready proxy may need, on a busy machine, for its port and first response."""
PAUSE = 0.2
"""Real seconds between two attempts: a port that is not open yet refuses at once."""
NAME = "aiorocketmq-conformance-readiness"


async def wait_until_ready(endpoint: str, *, patience: float = 0.0) -> None:
    """Query the route of an unlikely topic; any status will do.

    Raises TargetUnavailableError without a response: at once, or after `patience` seconds of retries.
    """
    request = pb.QueryRouteRequest(topic=resource(NAME))
    until = time.monotonic() + patience
    while True:
        async with ProbeClient(endpoint, NAME, RealClock()) as client:
            try:
                await client.unary("QueryRoute", request, timeout=DEADLINE)
            except (grpc.aio.AioRpcError, CallFailed) as error:
                if time.monotonic() >= until:
                    raise TargetUnavailableError(
                        f"no RocketMQ 5 proxy answers at {endpoint} ({_error_text(error)}): "
                        "pass host and gRPC port of a running proxy, usually 8081"
                    ) from error
            else:
                return
        await asyncio.sleep(PAUSE)


def _error_text(error: grpc.aio.AioRpcError | CallFailed) -> str:
    return str(error) if isinstance(error, CallFailed) else f"{error.code().name}: {error.details()}"
