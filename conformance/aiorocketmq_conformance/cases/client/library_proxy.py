"""What cases of the client library share: a proxy before the broker, and waits in real time.

The library uses real time, a fake may use a manual clock: when broker time has to pass, the case itself sleeps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiorocketmq import PushConsumer

from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy

SDK = ("sdk",)
REAL = 20.0
"""Real seconds within which the library must do what needs no waiting."""
Where = Callable[[Any], str]


class Once:
    """Contains a method's name at the first lookup only."""

    def __init__(self, name: str) -> None:
        self._names = {name}

    def __contains__(self, name: object) -> bool:
        contained = name in self._names
        self._names.discard(str(name))
        return contained


@asynccontextmanager
async def through_proxy(fixture: Fixture, faults: ProxyFaults) -> AsyncIterator[dict[str, Any]]:
    """Start a proxy before the broker; yields the settings that route all calls of a library client through it."""
    async with faulty_proxy(fixture.target.endpoint, faults) as endpoint:
        yield {"endpoint": endpoint, "address_map": lambda address: endpoint}


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait in real time; AssertionError after `REAL` seconds."""
    end = time.monotonic() + REAL
    while not holds():
        assert time.monotonic() < end, f"not in {REAL:g} s: {what}"
        await asyncio.sleep(0.01)


def push_consumer(proxied: dict[str, Any], **arguments: Any) -> PushConsumer:
    """Return a push consumer behind the proxy."""
    return PushConsumer(
        proxied["endpoint"], address_map=proxied["address_map"], shutdown_timeout=5.0, **arguments
    )
