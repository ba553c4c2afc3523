"""A gRPC proxy between a client and a broker that injects faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS, Method

Headers = list[tuple[str, str | bytes]]
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect quickly, so that a restarted broker is available for clients as soon as it is for the proxy.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_SERVICE = "apache.rocketmq.v2.MessagingService"


@dataclass(frozen=True, slots=True)
class ProxyFaults:
    """The faults that the proxy injects; everything else is forwarded unchanged."""

    headers: Callable[[Headers], Headers] = lambda headers: headers
    """Changes the metadata of every call."""
    received: Callable[[list[pb.ReceiveMessageResponse]], Iterable[pb.ReceiveMessageResponse]] | None = None
    """Changes the frames of a receive's answer, all at once."""
    answered: Callable[[Method, bytes], bytes] = lambda method, frame: frame
    """Changes the bytes of every answer, telemetry frames included."""
    unanswered: Container[str] = frozenset()
    """Unary methods that are forwarded, and whose responses are dropped."""
    instead: Callable[[str, bytes], list[bytes] | None] = lambda name, request: None
    """Called with every request but telemetry; frames that it returns are the response, and the request is not
    forwarded."""
    lost: AbstractSet[str] = frozenset()
    """Methods whose calls are dropped, including telemetry frames; evaluated for every call, so it may change."""
    delayed: float = 0.0
    """Latency of every call each way, in real seconds."""


@asynccontextmanager
async def faulty_proxy(endpoint: str, faults: ProxyFaults) -> AsyncIterator[str]:
    """Serve on a free loopback port and forward calls to `endpoint`; yields the proxy's endpoint."""
    async with grpc.aio.insecure_channel(endpoint, options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        handlers = {name: _handler(channel, method, faults) for name, method in METHODS.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


def _handler(
    channel: grpc.aio.Channel, method: Method, faults: ProxyFaults
) -> Any:  # Any: stubs tie it to one type
    def metadata(context: Any) -> Headers:
        return faults.headers(
            [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
        )

    async def pass_through() -> None:
        """Delay a call, or drop it."""
        if method.name in faults.lost:
            await asyncio.Event().wait()  # until the caller gives up
        if faults.delayed:
            await asyncio.sleep(faults.delayed)

    async def unary(request: bytes, context: Any) -> bytes:
        if (ready := faults.instead(method.name, request)) is not None:
            return ready[0]
        await pass_through()
        call: Any = channel.unary_unary(method.path)
        async with _errors_passed_to(context):
            answer: bytes = await call(request, metadata=metadata(context), timeout=context.time_remaining())
        if method.name in faults.unanswered:
            await asyncio.Event().wait()  # until the caller gives up
        await pass_through()
        return faults.answered(method, answer)

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        if (ready := faults.instead(method.name, request)) is not None:
            for frame in ready:
                yield frame
            return
        await pass_through()
        call: Any = channel.unary_stream(method.path)
        ongoing = call(request, metadata=metadata(context), timeout=context.time_remaining())
        if method.name != "ReceiveMessage" or faults.received is None:
            is_first = True
            async with _errors_passed_to(context):
                async for frame in ongoing:
                    if is_first:
                        await pass_through()
                    is_first = False
                    yield faults.answered(method, frame)
            return
        async with _errors_passed_to(context):
            frames = [pb.ReceiveMessageResponse.FromString(frame) async for frame in ongoing]
        for changed in faults.received(frames):
            yield changed.SerializeToString()

    async def duplex(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call: Any = channel.stream_stream(method.path)
        async with _errors_passed_to(context):
            async for frame in call(requests, metadata=metadata(context)):
                yield faults.answered(method, frame)

    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(duplex)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)


@asynccontextmanager
async def _errors_passed_to(context: Any) -> AsyncIterator[None]:
    """End the call of `context` with the broker's status."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
