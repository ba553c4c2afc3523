"""Start of the client library: the `sdk` rows of inventory 4.1."""

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

START = 2.0  # real seconds: the library does not use a target's manual clock
Client = AbstractAsyncContextManager[object]


async def _handle(message: ReceivedMessage) -> None:
    raise AssertionError("no message was sent")


_CLIENTS: dict[str, Callable[[str, Timeouts], Client]] = {
    "producer": lambda endpoint, timeouts: Producer(endpoint, timeouts=timeouts),
    "push": lambda endpoint, timeouts: PushConsumer(
        endpoint, group="g", subscriptions=["t"], handler=_handle, timeouts=timeouts
    ),
    "simple": lambda endpoint, timeouts: SimpleConsumer(
        endpoint, group="g", subscriptions=["t"], timeouts=timeouts
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
    """A {} client fails within its start deadline if nothing listens at its endpoint, with an error that names it."""
    with socket.socket() as reserved:
        # Bound and not listening: connections are refused, and the port is reserved.
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{reserved.getsockname()[1]}"
        began = time.monotonic()
        message = ""
        try:
            async with make(endpoint, Timeouts(start=START, request=1.0)):
                pass
        except UnreachableError as error:
            message = str(error)
        took = time.monotonic() - began
        assert message, "started although nothing listens at the endpoint"
        assert endpoint in message, f"the error does not name the endpoint: {message}"
        assert took <= START + 3.0, f"failed only after {took:.1f} s"
        fixture.note("took", round(took, 2))


_WRONG: dict[str, Callable[[str], object]] = {
    "endpoint": lambda endpoint: Producer(""),
    "group": lambda endpoint: SimpleConsumer(endpoint, group="", subscriptions=["t"]),
    "handler": lambda endpoint: PushConsumer(endpoint, group="g", subscriptions=["t"]),
    "concurrency": lambda endpoint: PushConsumer(
        endpoint, group="g", subscriptions=["t"], handler=_handle, concurrency=0
    ),
    "timeouts": lambda endpoint: Producer(endpoint, timeouts=Timeouts(request=0.0)),
    "topic": lambda endpoint: Producer(endpoint, topics=["no spaces!"]),
}


@case("life.sdk-start-missing", rules=("client-behaviour.md 1",), needs=("sdk",), prepared=(), params=_WRONG)
async def sdk_start_missing(fixture: Fixture, make: Callable[[str], object]) -> None:
    """A client with a missing or invalid argument ({}) is refused by its constructor."""
    try:
        make(fixture.target.endpoint)
    except (ValueError, TypeError, UsageError):
        return
    raise AssertionError("accepted although something is missing")
