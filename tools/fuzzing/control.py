"""A broker whose control service is asked for anything, without a port: it answers or refuses, and never fails."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import grpc
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.client import signed
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.edge.control_server import control_service
from aiorocketmq_fake.edge.control_wire.methods import METHODS
from grpc import aio

from tools.fuzzing.requests import Kind, Maker
from tools.fuzzing.world import Broken, Call

__all__ = ["control_session"]

KINDS = (Kind.VALID, Kind.VALID, Kind.VALID, Kind.DAMAGED, Kind.DAMAGED, Kind.RANDOM, Kind.NOISE)
ADMINISTRATOR = User("root", "root-secret")
# Ports are opened and clients waited for: their own tests have them, and a campaign has no time for them.
SLOW = {"Restart", "Stop", "Start", "Crash", "CommandClient"}
REFUSED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}
# The values of plausible requests, by field.
WORDS: dict[str, tuple[Any, ...]] = {
    "name": ("normal", "fifo", "group", "new-1", "new-2", "ak", "other"),
    "type": ("NORMAL", "FIFO", "DELAY", "LITE", "PRIORITY"),
    "read_queues": (1, 2, 4),
    "write_queues": (1, 2, 4),
    "permission": ("READ", "READ_WRITE", ""),
    "backoff": (1.0, 5.0),
    "max_attempts": (0, 3, 17),
    "topic": ("normal", "fifo"),
    "group": ("group",),
    "to": ("beginning", "end", "time"),
    "time": (0.0, 1_800_000_000.0),
    "seconds": (0.0, 1.0, 3600.0, 86_400.0),
    "patience": (0.0,),
    "rpc": ("SendMessage", "*"),
    "disturbance": ("refuse", "fail", "delay", "drop_reply"),
    "code": (40000, 42900),
    "status": ("UNAVAILABLE", "INTERNAL"),
    "times": (1, 3),
    "per_second": (0.0, 10.0),
    "retention": (3600.0,),
    "disk_used": (0.1, 0.95),
    "access_key": ("ak", "other"),
    "secret": ("secret",),
    "publish": ("*", "normal"),
    "subscribe": ("*", "nor*"),
    "groups": ("*", "group"),
    "number": (1, 2),
}


def _picture(broker: FakeBroker) -> tuple[object, ...]:
    lists = (broker.topics(), broker.groups(), broker.users(), broker.leases(), broker.progress())
    return (
        *lists,
        dict(broker.rates()),
        broker.totals(),
        tuple((one.number, one.rule) for one in broker.faults),
        broker.brokers[0]._core.retention(),
    )


async def control_session(profile: Profile, rng: random.Random, calls: int) -> Counter[tuple[str, str]]:
    """Make so many calls to a fresh broker's control service; its answers. Broken where a promise does not hold."""
    codes: Counter[tuple[str, str]] = Counter()
    maker = Maker(rng, METHODS, WORDS)
    async with FakeBroker(profile=profile, clock="manual") as broker:
        await broker.create_topic("normal", queues=2)
        await broker.create_topic("fifo", type="FIFO", queues=2)
        await broker.create_group("group")
        # From the first user on, every call is an administrator's.
        await broker.put_user(ADMINISTRATOR)
        # Any: gRPC's handlers are typed for its own calls.
        service: Any = control_service(broker)
        for _ in range(calls):
            method, kind = rng.choice(sorted(set(METHODS) - SLOW)), rng.choice(KINDS)
            payload = maker.request(method, kind)
            what = f"{method} ({kind.name}) {payload.hex()}"
            named = (
                (("aiorocketmq-broker", rng.choice(("broker-a", "nobody"))),) if rng.random() < 0.1 else ()
            )
            call = Call((*named, *signed(ADMINISTRATOR)), None)
            before = _picture(broker)
            try:
                answer = await service.service(_Details(METHODS[method].path)).unary_unary(payload, call)
                answer.SerializeToString()
            except aio.AbortError:
                code, text = call.status or (grpc.StatusCode.UNKNOWN, "")
                unread = code is grpc.StatusCode.INTERNAL and "no protobuf message" in text
                if code not in REFUSED and not unread:
                    raise Broken(f"{code} {text}: {what}") from None
                if _picture(broker) != before:
                    raise Broken(f"refused ({text}), and yet changed: {what}") from None
                codes[method, code.name] += 1
            except Exception as error:
                raise Broken(f"{error!r}: {what}") from error
            else:
                codes[method, "OK"] += 1
        await broker.clock.advance(seconds=1)
    return codes


class _Details:
    """What gRPC tells a service to choose a handler by."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.invocation_metadata = ()
