"""Calls with many answers, read from below grpcio's own layers: what comes out is what they would give."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._transport.grpcio import GrpcioTransport, _reader
from aiorocketmq._transport.interface import Failure, TransportError

PATH = "/some.Service/Answers"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A server that sends as many answers as asked for, and ends the call as asked for."""

    async def answer(request: bytes, context: Any) -> AsyncIterator[bytes]:
        count, status = request.decode().split()
        for number in range(int(count)):
            yield b"%d" % number
        if status != "OK":
            await context.abort(grpc.StatusCode[status], "as asked for")

    server = grpc.aio.server()
    handler: Any = grpc.unary_stream_rpc_method_handler(answer)  # Any: bytes pass as they are
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("some.Service", {"Answers": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def transport() -> AsyncIterator[GrpcioTransport]:
    made = GrpcioTransport()
    yield made
    await made.close()


@pytest.mark.parametrize("count", [0, 1, 40])
async def test_all_answers_come_in_order(transport: GrpcioTransport, address: str, count: int) -> None:
    stream = transport.server_stream(parse_endpoint(address), PATH, b"%d OK" % count, (), 5.0)
    assert [answer async for answer in stream] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("count", [0, 3])
async def test_a_call_that_ends_badly_says_so_after_its_answers(
    transport: GrpcioTransport, address: str, count: int
) -> None:
    request = b"%d RESOURCE_EXHAUSTED" % count
    stream = transport.server_stream(parse_endpoint(address), PATH, request, (), 5.0)
    assert [await anext(stream) for _ in range(count)] == [b"%d" % number for number in range(count)]
    with pytest.raises(TransportError, match="as asked for") as caught:
        await anext(stream)
    assert caught.value.failure is Failure.EXHAUSTED


async def test_nobody_there_is_said_as_before(transport: GrpcioTransport) -> None:
    stream = transport.server_stream(parse_endpoint("127.0.0.1:1"), PATH, b"1 OK", (), 5.0)
    with pytest.raises(TransportError) as caught:
        await anext(stream)
    assert caught.value.failure is Failure.UNREACHABLE
    assert not caught.value.was_sent


async def test_a_library_without_what_is_below_is_read_by_its_own_way(address: str) -> None:
    class Public:
        """A call of which only the documented part is left."""

        def __init__(self, read: Callable[[], Awaitable[object]]) -> None:
            self.read = read

    async with grpc.aio.insecure_channel(address) as channel:
        call: Any = channel.unary_stream(PATH)(b"2 OK")
        read = _reader(Public(call.read))  # type: ignore[arg-type]  # as another version of the library might be
        assert [await read(), await read()] == [b"0", b"1"]
        assert not isinstance(await read(), bytes)
