"""What the client library itself promises when it starts: the `sdk` rows of inventory 4.1."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from aiorocketmq import (
    Producer,
    PushConsumer,
    ReceivedMessage,
    SimpleConsumer,
    Timeouts,
    UnreachableError,
    UsageError,
)

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.fixture import Fixture

START = 2.0  # real seconds that the library is given; it has no part in a target's manual clock
Client = AbstractAsyncContextManager[object]


async def _handle(message: ReceivedMessage) -> None:
    raise AssertionError("nobody sent anything")


_CLIENTS: dict[str, Callable[[str, Timeouts], Client]] = {
    "producer": lambda where, timeouts: Producer(where, timeouts=timeouts),
    "push": lambda where, timeouts: PushConsumer(
        where, group="g", subscriptions=["t"], handler=_handle, timeouts=timeouts
    ),
    "simple": lambda where, timeouts: SimpleConsumer(
        where, group="g", subscriptions=["t"], timeouts=timeouts
    ),
}


@case(
    "life.sdk-start-bad-endpoint",
    rules=("client-behaviour.md 1",),
    needs=("sdk",),
    prepared=(),
    params=_CLIENTS,
)
async def sdk_start_bad_endpoint(fixture: Fixture, make: Callable[[str, Timeouts], Client]) -> None:
    """A {} client that is pointed at a port where nobody listens gives up within its start deadline and says so."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else can take the port
        endpoint = f"127.0.0.1:{held.getsockname()[1]}"
        began = time.monotonic()
        told = ""
        try:
            async with make(endpoint, Timeouts(start=START, request=1.0)):
                pass
        except UnreachableError as error:
            told = str(error)
        took = time.monotonic() - began
        assert told, "started against a port where nobody listens"
        assert endpoint in told, f"the error does not name the endpoint: {told}"
        assert took <= START + 3.0, f"gave up only after {took:.1f} s"
        fixture.note("took", round(took, 2))


_WRONG: dict[str, Callable[[str], object]] = {
    "endpoint": lambda where: Producer(""),
    "group": lambda where: SimpleConsumer(where, group="", subscriptions=["t"]),
    "handler": lambda where: PushConsumer(where, group="g", subscriptions=["t"]),
    "concurrency": lambda where: PushConsumer(
        where, group="g", subscriptions=["t"], handler=_handle, concurrency=0
    ),
    "timeouts": lambda where: Producer(where, timeouts=Timeouts(request=0.0)),
    "topic": lambda where: Producer(where, topics=["no spaces!"]),
}


@case("life.sdk-start-missing", rules=("client-behaviour.md 1",), needs=("sdk",), prepared=(), params=_WRONG)
async def sdk_start_missing(fixture: Fixture, make: Callable[[str], object]) -> None:
    """A client made without what it needs ({}) is refused when it is made, before anything is sent."""
    try:
        make(fixture.target.endpoint)
    except (ValueError, TypeError, UsageError):
        return
    raise AssertionError("taken as if nothing were missing")
