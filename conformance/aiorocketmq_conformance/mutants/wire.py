"""A proxy in front of the fake that breaks what the core does not decide: headers and the order of frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS, Method

Headers = list[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Tamper:
    """What the proxy changes; bytes of everything else pass through as they are."""

    headers: Callable[[Headers], Headers] = lambda headers: headers
    received: Callable[[list[pb.ReceiveMessageResponse]], Iterable[pb.ReceiveMessageResponse]] | None = None
    """Changes the frames of a receive's answer, all at once."""


def anonymous(headers: Headers) -> Headers:
    """Give callers without a client id one of the proxy's own."""
    if any(key == "x-mq-client-id" and value for key, value in headers):
        return headers
    return [*headers, ("x-mq-client-id", "anonymous")]


def no_time_stamp(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
    """Drop the delivery time stamp."""
    return [frame for frame in frames if frame.WhichOneof("content") != "delivery_timestamp"]


@asynccontextmanager
async def tampering_proxy(endpoint: str, tamper: Tamper) -> AsyncIterator[str]:
    """A server on a free loopback port that passes calls on to `endpoint`; yields its own endpoint."""
    options = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    async with grpc.aio.insecure_channel(endpoint, options=options) as channel:
        server = grpc.aio.server(options=options)
        handlers = {name: _handler(channel, method, tamper) for name, method in METHODS.items()}
        service = "apache.rocketmq.v2.MessagingService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


def _handler(
    channel: grpc.aio.Channel, method: Method, tamper: Tamper
) -> Any:  # Any: stubs tie it to one type
    def metadata(context: Any) -> Headers:
        return tamper.headers(
            [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
        )

    async def unary(request: bytes, context: Any) -> bytes:
        call: Any = channel.unary_unary(method.path)
        answer: bytes = await call(request, metadata=metadata(context), timeout=context.time_remaining())
        return answer

    async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
        call: Any = channel.unary_stream(method.path)
        ongoing = call(request, metadata=metadata(context), timeout=context.time_remaining())
        if method.name != "ReceiveMessage" or tamper.received is None:
            async for frame in ongoing:
                yield frame
            return
        frames = [pb.ReceiveMessageResponse.FromString(frame) async for frame in ongoing]
        for changed in tamper.received(frames):
            yield changed.SerializeToString()

    async def duplex(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        call: Any = channel.stream_stream(method.path)
        async for frame in call(requests, metadata=metadata(context)):
            yield frame

    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(duplex)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(unary)
