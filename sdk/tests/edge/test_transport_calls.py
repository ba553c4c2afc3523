"""Calls on a channel of grpcio: answers, errors, cancellation and the end of the channel."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
import grpc
import pytest
from aiorocketmq._core.endpoint import Endpoint, parse_endpoint
from aiorocketmq._transport.grpcio import Channel, GrpcioTransport, _target
from aiorocketmq._transport.interface import Failure, TransportError

from sdk.tests.edge import http2
from sdk.tests.listening import listening

MANY, ONE = "/some.Service/Many", "/some.Service/One"


class Server:
    """Sends as many answers as asked for, and ends calls as asked for."""

    def __init__(self) -> None:
        self.address = ""
        self.waiting = asyncio.Event()
        """Set when a call waits for ever."""
        self.left = asyncio.Event()
        """Set when a caller has left such a call."""
        self.metadata: dict[str, str] = {}

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.metadata = dict(context.invocation_metadata())
        count, status = request.decode().split()
        for number in range(int(count)):
            yield b"%d" % number
        await self._end(status, context)

    async def one(self, request: bytes, context: Any) -> bytes:
        self.metadata = dict(context.invocation_metadata())
        await self._end(request.decode(), context)
        return request

    async def _end(self, status: str, context: Any) -> None:
        if status == "WAIT":
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        if status != "OK":
            await context.abort(grpc.StatusCode[status], "as asked for")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    started = Server()
    running = grpc.aio.server()
    handlers: Any = {  # Any: bytes pass as they are
        "Many": grpc.unary_stream_rpc_method_handler(started.many),
        "One": grpc.unary_unary_rpc_method_handler(started.one),
    }
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("some.Service", handlers),))
    started.address = f"127.0.0.1:{running.add_insecure_port('127.0.0.1:0')}"
    await running.start()
    yield started
    await running.stop(None)


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[Channel]:
    channel = Channel(grpc.aio.insecure_channel(server.address))
    yield channel
    await channel.close()


async def answers(channel: Channel, request: bytes, timeout: float = 5.0) -> list[bytes]:
    got: list[bytes] = []
    await channel.server_stream(MANY, request, (), timeout, got.append)
    return got


@pytest.mark.parametrize("count", [0, 1, 40])
async def test_all_answers_come_in_order(channel: Channel, count: int) -> None:
    assert await answers(channel, b"%d OK" % count) == [b"%d" % number for number in range(count)]


async def test_headers_arrive(channel: Channel, server: Server) -> None:
    await channel.server_stream(MANY, b"0 OK", (("x-some", "thing"),), 5.0, lambda answer: None)
    assert server.metadata["x-some"] == "thing"
    await channel.unary(ONE, b"OK", (("x-other", "thing"),), 5.0)
    assert server.metadata["x-other"] == "thing"


@pytest.mark.parametrize("count", [0, 3])
async def test_a_call_that_ends_badly_says_so_after_its_answers(channel: Channel, count: int) -> None:
    got: list[bytes] = []
    with pytest.raises(TransportError, match="as asked for") as caught:
        await channel.server_stream(MANY, b"%d RESOURCE_EXHAUSTED" % count, (), 5.0, got.append)
    assert got == [b"%d" % number for number in range(count)]
    assert caught.value.failure is Failure.EXHAUSTED
    assert caught.value.was_sent


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ("UNAVAILABLE", Failure.UNREACHABLE),
        ("DEADLINE_EXCEEDED", Failure.TIMEOUT),
        ("PERMISSION_DENIED", Failure.UNAUTHENTICATED),
        ("NOT_FOUND", Failure.REFUSED),
        ("DATA_LOSS", Failure.INTERNAL),
    ],
)
async def test_a_refusal_is_said_with_its_text(channel: Channel, status: str, failure: Failure) -> None:
    with pytest.raises(TransportError, match="as asked for") as caught:
        await channel.unary(ONE, status.encode(), (), 5.0)
    assert caught.value.failure is failure


async def test_a_path_that_is_not_served_is_unimplemented(channel: Channel) -> None:
    for call in (
        channel.unary("/no.Service/One", b"", (), 5.0),
        channel.server_stream("/no.Service/Many", b"", (), 5.0, lambda answer: None),
    ):
        with pytest.raises(TransportError) as caught:
            await call
        assert caught.value.failure is Failure.UNIMPLEMENTED


async def test_a_call_that_ends_well_without_its_answer_is_a_failure_of_the_server(channel: Channel) -> None:
    with pytest.raises(TransportError, match="without an answer") as caught:
        await channel.unary(MANY, b"0 OK", (), 5.0)
    assert (caught.value.failure, caught.value.was_sent) == (Failure.INTERNAL, True)


async def test_a_stream_that_its_server_ends_without_a_status_can_be_closed() -> None:
    def answer(stream: int) -> Iterable[bytes]:
        return http2.beginning(stream), http2.message(stream, b"1", flags=http2.END_STREAM)

    async with listening(http2.answering(answer)) as endpoint:
        transport = GrpcioTransport()
        stream = await transport.duplex(parse_endpoint(endpoint), MANY, ())
        await stream.write(b"x")
        assert await stream.read() == b"1"
        await stream.close()
        await transport.close()


async def test_a_compressed_answer_is_refused_before_it_is_expanded() -> None:
    """A megabyte of it would become a gigabyte, and nobody asked for compression."""

    def answer(stream: int) -> Iterable[bytes]:
        packed = http2.message(stream, gzip.compress(b"1" * 100), compressed=True)
        return http2.beginning(stream, ("grpc-encoding", "gzip")), packed, http2.end(stream)

    async with listening(http2.answering(answer)) as endpoint:
        transport = GrpcioTransport()
        with pytest.raises(TransportError, match="gzip"):
            await transport.unary(parse_endpoint(endpoint), ONE, b"", (), 5.0)
        await transport.close()


async def test_an_answer_comes_back_whole(channel: Channel) -> None:
    assert await channel.unary(ONE, b"OK", (), 5.0) == b"OK"


async def test_a_burst_of_calls_gets_every_answer(channel: Channel, server: Server) -> None:
    results = await asyncio.gather(*(channel.unary(ONE, b"OK", (), 5.0) for _ in range(40)))
    assert results == [b"OK"] * 40
    waiting = [asyncio.ensure_future(channel.unary(ONE, b"WAIT", (), 60.0)) for _ in range(40)]
    await server.waiting.wait()
    for each in waiting:
        each.cancel()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert not channel.in_flight
    assert await channel.unary(ONE, b"OK", (), 5.0) == b"OK"


async def test_no_listener_is_distinguished_from_a_lost_request() -> None:
    channel = Channel(grpc.aio.insecure_channel("127.0.0.1:1"))
    for call in (channel.unary(ONE, b"OK", (), 5.0), answers(channel, b"1 OK")):
        with pytest.raises(TransportError) as caught:
            await call
        assert caught.value.failure is Failure.UNREACHABLE
        assert not caught.value.was_sent
    assert not channel.in_flight
    await channel.close()


async def test_a_deadline_ends_a_call_and_the_server_hears_of_it(channel: Channel, server: Server) -> None:
    for call in (channel.unary(ONE, b"WAIT", (), 0.05), answers(channel, b"0 WAIT", timeout=0.05)):
        with pytest.raises(TransportError) as caught:
            await call
        assert caught.value.failure is Failure.TIMEOUT
        await server.left.wait()
        server.left.clear()


async def test_a_cancelled_call_is_cancelled_at_the_server_too(channel: Channel, server: Server) -> None:
    for call in (channel.unary(ONE, b"WAIT", (), 60.0), answers(channel, b"0 WAIT", timeout=60.0)):
        server.waiting.clear()
        task = asyncio.ensure_future(call)
        await server.waiting.wait()
        assert channel.in_flight == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left.wait()
        server.left.clear()
        assert not channel.in_flight


@pytest.mark.parametrize("path", [ONE, MANY])
async def test_a_time_limit_of_anyio_ends_a_call(channel: Channel, server: Server, path: str) -> None:
    """Its cancellation keeps the text by which anyio knows it; otherwise the whole task would be cancelled."""
    with anyio.move_on_after(0.2) as limit:
        if path == ONE:
            await channel.unary(ONE, b"WAIT", (), 10.0)
        else:
            await channel.server_stream(MANY, b"0 WAIT", (), 10.0, lambda answer: None)
    assert limit.cancelled_caught
    await asyncio.wait_for(server.left.wait(), 5.0)


async def test_what_a_taker_raises_ends_the_call(channel: Channel, server: Server) -> None:
    def take(answer: bytes) -> None:
        raise LookupError("no thanks")

    with pytest.raises(LookupError, match="no thanks"):
        await channel.server_stream(MANY, b"1 WAIT", (), 60.0, take)
    await server.left.wait()


async def test_calls_in_flight_end_with_an_error_when_their_channel_is_closed(
    channel: Channel, server: Server
) -> None:
    async with asyncio.TaskGroup() as group:
        one = group.create_task(failure_of(channel.unary(ONE, b"WAIT", (), 60.0)))
        await server.waiting.wait()
        server.waiting.clear()
        many = group.create_task(failure_of(answers(channel, b"1 WAIT", timeout=60.0)))
        await server.waiting.wait()
        await channel.close()
    assert one.result() is many.result() is Failure.CANCELLED
    assert await failure_of(channel.unary(ONE, b"OK", (), 5.0)) is Failure.UNREACHABLE
    assert await failure_of(answers(channel, b"1 OK")) is Failure.UNREACHABLE
    assert not channel.in_flight


async def failure_of(call: Any) -> Failure:
    with pytest.raises(TransportError) as caught:
        await call
    return caught.value.failure


async def test_a_retiring_channel_waits_for_all_its_calls_and_closes(
    channel: Channel, server: Server
) -> None:
    calls = [
        asyncio.ensure_future(failure_of(answers(channel, b"1 WAIT", timeout=timeout)))
        for timeout in (0.1, 0.3)
    ]
    await server.waiting.wait()
    await channel.retire(60.0)
    assert await asyncio.gather(*calls) == [Failure.TIMEOUT, Failure.TIMEOUT]
    assert await failure_of(answers(channel, b"1 OK")) is Failure.UNREACHABLE


async def test_a_retiring_channel_waits_no_longer_than_its_grace(channel: Channel, server: Server) -> None:
    call = asyncio.ensure_future(failure_of(answers(channel, b"1 WAIT", timeout=60.0)))
    await server.waiting.wait()
    await channel.retire(0.01)
    assert await call is Failure.CANCELLED
    assert not channel.in_flight


async def test_a_channel_without_calls_retires_at_once(channel: Channel) -> None:
    async with asyncio.timeout(5.0):
        await channel.retire(60.0)
    assert await failure_of(answers(channel, b"1 OK")) is Failure.UNREACHABLE


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("mq.example.org:8081", "dns:///mq.example.org:8081"),
        ("10.0.0.1:8081;10.0.0.2:8082", "ipv4:10.0.0.1:8081,10.0.0.2:8082"),
        ("[::1]:8081;[fe80::2]:8082", "ipv6:[::1]:8081,[fe80::2]:8082"),
    ],
)
def test_grpcio_is_given_all_addresses_of_a_server_by_their_kind(endpoint: str, address: str) -> None:
    assert _target(parse_endpoint(endpoint)) == address


async def test_first_calls_at_one_time_share_a_channel(server: Server) -> None:
    class Counting(GrpcioTransport):
        opened = 0

        async def _grpcio_channel(self, endpoint: Endpoint) -> grpc.aio.Channel:
            self.opened += 1
            await asyncio.sleep(0)  # as for a certificate
            return await super()._grpcio_channel(endpoint)

    transport, endpoint = Counting(), parse_endpoint(server.address)
    calls = [transport.unary(endpoint, ONE, b"OK", (), 5.0) for _ in range(5)]
    assert await asyncio.gather(*calls) == [b"OK"] * 5
    assert transport.opened == 1
    await transport.close()


async def test_a_transport_that_closes_waits_for_no_connection_that_retires(server: Server) -> None:
    transport, endpoint = GrpcioTransport(), parse_endpoint(server.address)
    call = asyncio.ensure_future(failure_of(transport.unary(endpoint, ONE, b"WAIT", (), 60.0)))
    await server.waiting.wait()
    await transport.reconnect(endpoint, 60.0)
    await asyncio.sleep(0)
    async with asyncio.timeout(5.0):
        await transport.close()
        assert await call is Failure.CANCELLED


async def test_a_poll_that_waits_leaves_little_for_the_garbage_collector(channel: Channel) -> None:
    async def objects(polls: int) -> int:
        tasks = [asyncio.ensure_future(answers(channel, b"0 WAIT", timeout=60.0)) for _ in range(polls)]
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        count = len(gc.get_objects())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return count

    await objects(1)
    each = (await objects(101) - await objects(1)) / 100
    assert each < 80
