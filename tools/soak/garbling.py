"""A gRPC stand-in between clients and a server that damages some of the answers; requests pass unchanged.

Only such damage is done that leaves nothing to believe: bytes that do not parse as the answer's message, or that parse
into one without a status code and without content. A flipped bit can also make a valid answer that is wrong, another
receipt handle or an OK for a refused call; no client can detect that, and a message lost by it would prove nothing, so
each damage is checked with the call's own message class and repeated until the answer states nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from types import MappingProxyType
from typing import cast

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import Method
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from google.protobuf.message import DecodeError, Message

OVERSIZED = 5 * 1024 * 1024
"""Bytes of an oversized answer: more than the 4 MiB that gRPC accepts by default."""
_TRIES = 50
_SURE = b"\xff" * 16
"""Bytes that parse as no message."""
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


@asynccontextmanager
async def stand_in(target: str, garbling: Garbling) -> AsyncIterator[str]:
    """A server on a free loopback port that passes calls on to `target` and garbles answers; yields its endpoint.

    Routes and assignments that name `target` name the stand-in instead, so that clients stay behind it.
    """

    def answered(method: Method, frame: bytes) -> bytes:
        return garbling(method, _renamed(method, frame, target, own))

    async with faulty_proxy(target, ProxyFaults(answered=answered)) as own:
        yield own


def _renamed(method: Method, frame: bytes, target: str, own: str) -> bytes:
    """The answer with the address `own` for each `target` that it names."""
    answer: pb.QueryRouteResponse | pb.QueryAssignmentResponse
    if method.name == "QueryRoute":
        answer = pb.QueryRouteResponse.FromString(frame)
        queues = list(answer.message_queues)
    elif method.name == "QueryAssignment":
        answer = pb.QueryAssignmentResponse.FromString(frame)
        queues = [assignment.message_queue for assignment in answer.assignments]
    else:
        return frame
    host, _, port = own.rpartition(":")
    for queue in queues:
        for address in queue.broker.endpoints.addresses:
            if f"{address.host}:{address.port}" == target:
                address.host, address.port = host, int(port)
    return answer.SerializeToString()
