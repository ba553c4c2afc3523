"""Requests that are valid, nearly valid and garbage: the broker lives, and what it refuses has changed nothing.

`AIOROCKETMQ_FUZZ_REQUESTS` asks for another number of requests than 100,000, `AIOROCKETMQ_FUZZ_SEED` for other ones.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED, PROFILES
from aiorocketmq_fake.edge.control_wire.methods import METHODS as CONTROL
from hypothesis import HealthCheck, given, settings, strategies as st

from tools.fuzzing.campaign import campaign, control_campaign, session
from tools.fuzzing.requests import Kind, Maker
from tools.fuzzing.world import Broken

REQUESTS = int(os.environ.get("AIOROCKETMQ_FUZZ_REQUESTS", "100000"))
SEED = int(os.environ.get("AIOROCKETMQ_FUZZ_SEED", "1"))
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OPTIONAL: dict[str, Callable[[Profile], bool]] = {
    "RecallMessage": lambda profile: profile.recall_enabled,
    "SyncLiteSubscription": lambda profile: profile.lite_service is not LiteService.REFUSED,
}
FRAME_TYPES = range(12)
# The only gRPC statuses of this server (R1.6), and the deadline of a call that waits.
ENDS = {
    *(grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT),
    *(grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DEADLINE_EXCEEDED),
}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_no_request_breaks_a_broker(profile: Any) -> None:
    """Most of the requests, by a seed: any failure names the world in which it happens again."""
    codes = campaign(profile, REQUESTS // len(PROFILES), SEED)
    done = {method for method, code in codes if code == "OK"}
    # Off by default in a real server, and impossible without a separate proxy.
    unreachable = {name for name, served in OPTIONAL.items() if not served(profile)}
    assert done >= profile.served_rpcs - unreachable


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_no_request_breaks_a_broker_with_users(profile: Any) -> None:
    """A tenth of the requests go to brokers with users: most are signed, and rights are respected."""
    codes = campaign(profile, REQUESTS // 10 // len(PROFILES), SEED, users=True)
    assert {method for method, code in codes if code == "OK"} >= {
        "SendMessage",
        "ReceiveMessage",
        "Heartbeat",
    }
    assert codes["SendMessage", "UNAUTHORIZED"]
    assert (
        codes["Telemetry", "UNAUTHENTICATED"]
        + codes["Telemetry", "UNAUTHORIZED"]
        + codes["Telemetry", "INTERNAL"]
    )


def test_no_request_breaks_the_control_service() -> None:
    """Another tenth goes to the control service: what it refuses has changed nothing, and it never fails."""
    codes = control_campaign(DOCUMENTED, REQUESTS // 10, SEED)
    done = {method for method, code in codes if code == "OK"}
    assert done >= set(CONTROL) - {"Restart", "Stop", "Start", "Crash", "CommandClient"}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(rng=st.randoms(use_true_random=False), profile=st.sampled_from([DOCUMENTED, APACHE_5_5]))
def test_no_short_story_breaks_a_broker(rng: random.Random, profile: Any) -> None:
    """The same requests by Hypothesis' choices: what fails here is shown as short as it can be."""
    asyncio.run(session(profile, rng, 12))


class Fails(Broker):
    """Fails by its own fault."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> Any:
        raise KeyError(topic)


class ChangesAndRefuses(Broker):
    """Does what it then refuses."""

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        super().heartbeat(client_id, group, now=now)
        self.delete_topic("fifo", now=now)
        raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, "no")


class AnswersStrangely(Broker):
    """Refuses with a code that the method does not have."""

    def ack(self, request: Any, *, now: float) -> Any:
        raise Refusal(Code.ILLEGAL_DELIVERY_TIME, "no")


@pytest.mark.parametrize(
    ("core", "complaint"),
    [
        (Fails, "its log says why"),
        (ChangesAndRefuses, "and yet changed"),
        (AnswersStrangely, "is no code of"),
    ],
)
def test_a_broken_broker_is_detected(core: Callable[..., Broker], complaint: str) -> None:
    with pytest.raises(Broken, match=complaint):
        campaign(DOCUMENTED, 2000, SEED, core)


def test_one_seed_makes_one_story() -> None:
    assert campaign(DOCUMENTED, 400, 5) == campaign(DOCUMENTED, 400, 5) != campaign(DOCUMENTED, 400, 6)


async def is_well(client: Any) -> bool:
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    return bool(response.status.code == pb.Code.OK)


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_no_request_over_the_port_breaks_a_broker(
    profile: str, running: Any, connect: Callable[..., Any]
) -> None:
    """A smaller share over the real port: gRPC must be able to carry every answer."""
    broker = await running(clock="manual", profile=profile)
    client = connect(broker)
    rng = random.Random(SEED)
    maker = Maker(rng)
    ends: list[tuple[Any, Any]] = []

    async def ask(method: str, payload: bytes) -> None:
        try:
            if method == "Telemetry":
                stream = client.telemetry()
                await stream.write(payload)
                await stream.done_writing()
                while await stream.read() is not grpc.aio.EOF:
                    pass
            elif METHODS[method].server_streaming:
                async for _ in client.stream(method, payload, timeout=0.3):
                    pass
            else:
                await client.call(method, payload)
        except grpc.aio.AioRpcError as error:
            ends.append((error.code(), error.details()))

    for _ in range(60):
        batch = [(rng.choice(sorted(METHODS)), rng.choice(list(Kind))) for _ in range(10)]
        await asyncio.gather(*(ask(method, maker.request(method, kind)) for method, kind in batch))
    assert {code for code, _ in ends} <= ENDS
    assert not [text for _, text in ends if "its log says why" in text]
    assert await is_well(client)


def frames(rng: random.Random) -> bytes:
    """HTTP/2 frames with headers that are correct more often than their content."""
    written = bytearray(PREFACE if rng.random() < 0.9 else rng.randbytes(24))
    for _ in range(rng.randint(1, 12)):
        body = rng.randbytes(rng.choice((0, 1, 4, 6, 8, 40, 400)))
        length = len(body) if rng.random() < 0.8 else rng.randrange(2**24)
        kind, flags = rng.choice(FRAME_TYPES), rng.choice((0, 1, 4, 5, 0x2D, rng.randrange(256)))
        stream = rng.choice((0, 1, 1, 3, 2, rng.randrange(2**31)))
        written += length.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
    return bytes(written)


async def test_no_frames_break_a_broker(broker: FakeBroker, client: Any) -> None:
    rng = random.Random(SEED)
    host, _, port = broker.endpoint.rpartition(":")

    async def disturb() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        # A server may well hang up in the middle of it.
        with suppress(OSError):
            writer.write(frames(rng))
            writer.write_eof()
            async with asyncio.timeout(30):
                await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    for _ in range(20):
        await asyncio.gather(*(disturb() for _ in range(10)))
    assert await is_well(client)


async def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_not(
    broker: FakeBroker, client: Any
) -> None:
    response = await client.send("t", bytes(5_000_000))
    assert response.status.code == pb.Code.MESSAGE_BODY_TOO_LARGE
    assert (await client.send("t", b"1")).status.code == pb.Code.OK
    assert [message.body for message in broker.messages("t")] == [b"1"]
