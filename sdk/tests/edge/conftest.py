"""A fresh fake broker on a real port for every test, and servers that are none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiorocketmq.config import Timeouts
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import simple_consumer
from sdk.tests.edge.watching import Watching
from sdk.tests.listening import Peer, listening

Awaiting = Callable[[type[object]], AbstractAsyncContextManager[None]]
Serve = Callable[[Peer], AbstractAsyncContextManager[str]]
ServeGrpc = Callable[..., AbstractAsyncContextManager[str]]
"""`serve_grpc(QueryRoute=[first, second], Telemetry=[...])`."""


@pytest.fixture
async def still() -> AsyncIterator[FakeBroker]:
    """A broker with a clock that only the test moves."""
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        yield broker


@pytest.fixture
async def producer(broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        yield producer


@pytest.fixture
async def consumer(broker: FakeBroker) -> AsyncIterator[SimpleConsumer]:
    async with simple_consumer(broker.endpoint) as consumer:
        yield consumer


@pytest.fixture
def awaiting(broker: FakeBroker) -> Awaiting:
    """`async with awaiting(PollParked): ...` ends when the broker has emitted such an event after the block began."""

    @asynccontextmanager
    async def awaiting(kind: type[object]) -> AsyncIterator[None]:
        async with broker.events.subscribe() as stream:
            yield
            async with asyncio.timeout(5):
                async for event in stream:
                    if isinstance(event, kind):
                        return

    return awaiting


@pytest.fixture
def soon() -> Timeouts:
    """A start that gives up soon, for tests of what cannot start."""
    return Timeouts(start=1.5, request=0.5)


@pytest.fixture
def serve() -> Serve:
    """A TCP server on a free port that answers every connection in its own way; gives its endpoint."""

    return listening


@pytest.fixture
def serve_grpc() -> ServeGrpc:
    """A gRPC server on a free port that answers each call, by its name, with given bytes; gives its endpoint.

    The last bytes of a call are repeated; a call without any is unimplemented."""
    import grpc
    import grpc.aio

    @asynccontextmanager
    async def serving(**answers: list[bytes]) -> AsyncIterator[str]:
        def next_answer(name: str) -> bytes:
            left = answers[name]
            return left.pop(0) if len(left) > 1 else left[0]

        class Handler(grpc.GenericRpcHandler):
            def service(
                self, details: grpc.HandlerCallDetails
            ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
                name = details.method.rpartition("/")[2]

                async def unary(request: bytes, context: object) -> bytes:
                    return next_answer(name)

                async def duplex(requests: AsyncIterator[bytes], context: object) -> AsyncIterator[bytes]:
                    async for _ in requests:
                        yield next_answer(name)

                if name not in answers:
                    return None
                if name == "Telemetry":
                    return grpc.stream_stream_rpc_method_handler(duplex)
                return grpc.unary_unary_rpc_method_handler(unary)

        server = grpc.aio.server(handlers=[Handler()])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)

    return serving


@pytest.fixture
def watching() -> Watching:
    return Watching()
