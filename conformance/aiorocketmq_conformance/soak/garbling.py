"""A gRPC stand-in between clients and a server that damages some of the answers; requests pass unchanged.

Only such damage is done that leaves nothing to believe: bytes that do not parse as the answer's message, or that parse
into one without a status code and without content. A flipped bit can also make a valid answer that is wrong, another
receipt handle or an OK for a refused call; no client can detect that, and a message lost by it would prove nothing, so
each damage is checked with the call's own message class and repeated until the answer states nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from random import Random
from types import MappingProxyType, TracebackType
from typing import Self, cast

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS, Method
from google.protobuf.message import DecodeError, Message

HOST = "127.0.0.1"
OVERSIZED = 5 * 1024 * 1024
"""Bytes of an oversized answer: more than the 4 MiB that gRPC accepts by default."""
_TRIES = 50
_SURE = b"\xff" * 16
"""Bytes that parse as no message."""
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # A server that was restarted is available again to clients as soon as it is.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_BY_PATH = {method.path: method for method in METHODS.values()}
_OTHERS = tuple(
    message.SerializeToString()
    for message in (
        pb.Address(host="elsewhere.example", port=8081),
        pb.Message(topic=pb.Resource(name="another"), body=b"another message"),
        pb.MessageQueue(id=7, permission=pb.Permission.READ_WRITE, topic=pb.Resource(name="another")),
        pb.FilterExpression(type=pb.FilterType.TAG, expression="another"),
    )
)
"""Valid messages of types that are no answers."""

Requests = AsyncIterator[bytes]
Call = grpc.aio.StreamStreamCall[bytes, bytes]
Context = grpc.aio.ServicerContext[bytes, bytes]


def _truncated(payload: bytes, rng: Random) -> bytes:
    return payload[: rng.randrange(len(payload) or 1)]


def _random(payload: bytes, rng: Random) -> bytes:
    return rng.randbytes(rng.randint(1, max(64, len(payload))))


def _flipped(payload: bytes, rng: Random) -> bytes:
    damaged = bytearray(payload)
    for _ in range(rng.randint(1, 8) if damaged else 0):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _empty(payload: bytes, rng: Random) -> bytes:
    return b""


def _oversized(payload: bytes, rng: Random) -> bytes:
    return rng.randbytes(OVERSIZED)


def _of_another_type(payload: bytes, rng: Random) -> bytes:
    return rng.choice(_OTHERS)


DAMAGES: Mapping[str, Callable[[bytes, Random], bytes]] = MappingProxyType(
    {
        "truncated": _truncated,
        "random bytes": _random,
        "flipped bits": _flipped,
        "empty": _empty,
        "oversized": _oversized,
        "another type": _of_another_type,
    }
)


def states_nothing(response: type[Message], payload: bytes) -> bool:
    """Whether `payload` does not parse as `response`, or has neither a status code nor content."""
    try:
        answer = response.FromString(payload)
    except DecodeError:
        return True
    names = {field.name for field, _ in answer.ListFields()}
    if names <= {"status"}:
        # `names` has proven that the class has this field.
        return not names or cast("pb.HeartbeatResponse", answer).status.code == pb.Code.CODE_UNSPECIFIED
    return False


class Garbling:
    """Decides which answers are damaged, and how; counts both."""

    def __init__(self, rate: float, rng: Random) -> None:
        """Damage each answer with likelihood `rate`, 0 to 1."""
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"rate must be 0 to 1, got {rate:g}")
        self.rate = rate
        self.answers: Counter[str] = Counter()
        """Answers that passed or were damaged, by RPC; each message of a stream is one."""
        self.garbled: Counter[str] = Counter()
        """Those of them that were damaged."""
        self.kinds: Counter[str] = Counter()
        """Damaged answers by kind of damage."""
        self._rng = rng

    def __call__(self, method: Method, payload: bytes) -> bytes:
        """Return the answer as it reaches the client."""
        self.answers[method.name] += 1
        if self._rng.random() >= self.rate:
            return payload
        kind = self._rng.choice(tuple(DAMAGES))
        self.garbled[method.name] += 1
        self.kinds[kind] += 1
        return damaged(DAMAGES[kind], method.response, payload, self._rng)


def damaged(
    damage: Callable[[bytes, Random], bytes], response: type[Message], payload: bytes, rng: Random
) -> bytes:
    """Return `payload` after `damage`, repeated until the result states nothing."""
    for _ in range(_TRIES):
        if states_nothing(response, result := damage(payload, rng)):
            return result
    return _SURE


class StandIn(grpc.GenericRpcHandler):
    """Serves every call of the contract on a port of its own by making it at `target`; an `async with` block.

    Routes and assignments that name `target` name the stand-in instead, so that clients stay behind it.
    """

    def __init__(self, target: str, garbling: Garbling) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._garbling = garbling
        self._port = 0

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        host, port = self._target
        self._channel = grpc.aio.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self,))
        self._port = self._server.add_insecure_port(f"{HOST}:0")
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)
        await self._channel.close()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Return the relay of one call; unknown ones are UNIMPLEMENTED."""
        method = _BY_PATH.get(details.method)
        if method is None:
            return None

        async def relay(requests: Requests, context: Context) -> None:
            await self._relay(method, requests, context)

        # On the wire a unary call is a stream of one message, so that one relay serves all calls.
        return grpc.stream_stream_rpc_method_handler(relay)

    async def _relay(self, method: Method, requests: Requests, context: Context) -> None:
        metadata = tuple(
            (key, value)
            for key, value in context.invocation_metadata() or ()
            if not key.startswith("grpc-") and key != "user-agent"
        )
        call: Call = self._channel.stream_stream(method.path)(
            metadata=metadata, timeout=context.time_remaining()
        )
        sending = asyncio.get_running_loop().create_task(_pass_on(requests, call))
        try:
            async for answer in call:
                await context.write(self._garbling(method, self._renamed(method, answer)))
            context.set_trailing_metadata(tuple(await call.trailing_metadata() or ()))
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
        finally:
            call.cancel()
            sending.cancel()
            await asyncio.wait([sending])

    def _renamed(self, method: Method, payload: bytes) -> bytes:
        if method.name == "QueryRoute":
            route = pb.QueryRouteResponse.FromString(payload)
            queues = list(route.message_queues)
            answer: Message = route
        elif method.name == "QueryAssignment":
            assigned = pb.QueryAssignmentResponse.FromString(payload)
            queues = [assignment.message_queue for assignment in assigned.assignments]
            answer = assigned
        else:
            return payload
        for queue in queues:
            for address in queue.broker.endpoints.addresses:
                if (address.host, address.port) == self._target:
                    address.host, address.port = HOST, self._port
        return answer.SerializeToString()


async def _pass_on(requests: Requests, call: Call) -> None:
    # A call that has ended, its answer tells why; nothing more can be sent then.
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        async for request in requests:
            await call.write(request)
        await call.done_writing()
