"""A gRPC proxy between a probe client and a broker that meddles with what passes through."""

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
    # A broker that was restarted is there for clients as soon as it is for the proxy.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_SERVICE = "apache.rocketmq.v2.MessagingService"


@dataclass(frozen=True, slots=True)
class Meddling:
    """What the proxy changes; bytes of everything else pass through as they are."""

    headers: Callable[[Headers], Headers] = lambda headers: headers
    """Changes the metadata of every call."""
    received: Callable[[list[pb.ReceiveMessageResponse]], Iterable[pb.ReceiveMessageResponse]] | None = None
    """Changes the frames of a receive's answer, all at once."""
    answered: Callable[[Method, bytes], bytes] = lambda method, frame: frame
    """Changes the bytes of every answer, telemetry frames included."""
    unanswered: Container[str] = frozenset()
    """Unary methods that take effect and are never answered."""
    instead: Callable[[str, bytes], list[bytes] | None] = lambda name, request: None
    """Hears of every request but telemetry; frames that it returns are the answer, and the broker is not asked."""
    lost: AbstractSet[str] = frozenset()
    """Methods whose calls never arrive, telemetry frames included; looked at with every call, so it may change."""
    delayed: float = 0.0
    """Real seconds that every call takes longer each way."""


@asynccontextmanager
async def meddling_proxy(endpoint: str, meddling: Meddling) -> AsyncIterator[str]:
    """A server on a free loopback port that passes calls on to `endpoint`; yields its own endpoint."""
    async with grpc.aio.insecure_channel(endpoint, options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        handlers = {name: _handler(channel, method, meddling) for name, method in METHODS.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


def _handler(
    channel: grpc.aio.Channel, method: Method, meddling: Meddling
) -> Any:  # Any: stubs tie it to one type
    def metadata(context: Any) -> Headers:
        return meddling.headers(
            [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
        )

    async def pass_through() -> None:
        """Let what passes take its time, or never get through."""
        if method.name in meddling.lost:
            await asyncio.Event().wait()  # until the caller gives up
        if meddling.delayed:
            await asyncio.sleep(meddling.delayed)

    async def unary(request: bytes, context: Any) -> bytes:
        if (ready := meddling.instead(method.name, request)) is not None:
            return ready[0]
        await pass_through()
        call: Any = channel.unary_unary(method.path)
        async with _errors_passed_to(context):
            answer: bytes = await call(request, metadata=metadata(context), timeout=context.time_remaining())
        if method.name in meddling.unanswered:
            await asyncio.Event().wait()  # until the caller gives up
        await pass_through()
        return meddling.answered(method, answer)

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        if (ready := meddling.instead(method.name, request)) is not None:
            for frame in ready:
                yield frame
            return
        await pass_through()
        call: Any = channel.unary_stream(method.path)
        ongoing = call(request, metadata=metadata(context), timeout=context.time_remaining())
        if method.name != "ReceiveMessage" or meddling.received is None:
            is_first = True
            async with _errors_passed_to(context):
                async for frame in ongoing:
                    if is_first:
                        await pass_through()
                    is_first = False
                    yield meddling.answered(method, frame)
            return
        async with _errors_passed_to(context):
            frames = [pb.ReceiveMessageResponse.FromString(frame) async for frame in ongoing]
        for changed in meddling.received(frames):
            yield changed.SerializeToString()

    async def duplex(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call: Any = channel.stream_stream(method.path)
        async with _errors_passed_to(context):
            async for frame in call(requests, metadata=metadata(context)):
                yield meddling.answered(method, frame)

    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(duplex)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)


@asynccontextmanager
async def _errors_passed_to(context: Any) -> AsyncIterator[None]:
    """End the call of `context` as the broker ended its own."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
