"""Push consumers of the client library: concurrency, cache, subscriptions, failures: `sdk` rows of the inventory."""

from __future__ import annotations

import asyncio
import time

from aiorocketmq import CacheLimits, PushConsumer, ReceivedMessage
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.client.library_proxy import REAL, SDK, push_consumer, through_proxy, until
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import seconds_of
from aiorocketmq_conformance.probe.proxy import ProxyFaults
from aiorocketmq_conformance.tolerances import PROMPT, nack_window


@case("push.threads", rules=("client-behaviour.md 5",), level=SHOULD, needs=SDK)
async def threads(fixture: Fixture) -> None:
    """With a concurrency of 3 at most 3 of 8 slow handlers run at a time, and all finish."""
    topic = await fixture.topic(1)
    group = (await fixture.consumer(topic)).group
    await fixture.send(topic, *(f"m{n}" for n in range(8)))
    running = most = done = 0

    async def handle(_: ReceivedMessage) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        done += 1

    async with PushConsumer(
        fixture.target.endpoint,
        group=group,
        subscriptions=[topic],
        handler=handle,
        concurrency=3,
        shutdown_timeout=5.0,
    ):
        await until(lambda: done >= 8, "eight handlers done")
    assert (most, done) == (3, 8)


async def _cached(fixture: Fixture, cache: CacheLimits, body: bytes) -> tuple[int, int]:
    """Return how many messages a push consumer with this cache receives while its handler is blocked, and how many
    exist."""
    topic = await fixture.topic(1)
    group = (await fixture.consumer(topic)).group
    await fixture.send_all(topic, [body] * 60)
    blocked = asyncio.Event()

    async def handle(_: ReceivedMessage) -> None:
        await blocked.wait()

    most = 0
    async with PushConsumer(
        fixture.target.endpoint,
        group=group,
        subscriptions=[topic],
        handler=handle,
        concurrency=1,
        cache=cache,
        shutdown_timeout=0.1,
    ) as consumer:
        await until(lambda: consumer.messages_in_flight > 0, "the first messages")
        # Long enough for ten more receives, if there were any.
        for _ in range(100):
            most = max(most, consumer.messages_in_flight)
            await asyncio.sleep(0.01)
        blocked.set()
    return most, 60


@case("push.cache-count", rules=("client-behaviour.md 5",), level=SHOULD, needs=SDK, timeout=90.0)
async def cache_count(fixture: Fixture) -> None:
    """A push consumer with a cache of 8 messages receives at most one batch more than that while its handler
    waits."""
    most, waiting = await _cached(fixture, CacheLimits(messages=8), b"m")
    fixture.note("in_hand", most)
    assert 0 < most <= 8 + fixture.number("batch.max") < waiting


@case("push.cache-bytes", rules=("client-behaviour.md 5",), level=SHOULD, needs=SDK, timeout=90.0)
async def cache_bytes(fixture: Fixture) -> None:
    """A push consumer with a cache of 256 KiB receives at most one batch more than that while its handler waits."""
    body = bytes(32 * 1024)
    most, waiting = await _cached(fixture, CacheLimits(bytes=8 * len(body)), body)
    fixture.note("in_hand", most)
    assert 0 < most <= 8 + fixture.number("batch.max") < waiting


@case("push.subscribe-later", rules=("client-behaviour.md 5",), level=SHOULD, needs=SDK)
async def subscribe_later(fixture: Fixture) -> None:
    """A running push consumer receives from a topic that it subscribes to, and no longer from one that it
    unsubscribes from."""
    one, two = await fixture.topic(1), await fixture.topic(1)
    primed = await fixture.consumer(one)
    await fixture.consumer(two, group=primed.group)
    bodies: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body.decode())

    async with PushConsumer(
        fixture.target.endpoint, group=primed.group, subscriptions=[one], handler=handle, shutdown_timeout=5.0
    ) as consumer:
        await fixture.send(two, "two")
        await fixture.send(one, "one")
        await until(lambda: "one" in bodies, "the first topic's message")
        assert bodies == ["one"]
        await consumer.subscribe(two)
        await until(lambda: "two" in bodies, "the second topic's message")


@case("push.unsubscribe", rules=("client-behaviour.md 5",), level=SHOULD, needs=SDK)
async def unsubscribe(fixture: Fixture) -> None:
    """A running push consumer no longer handles an unsubscribed topic, while it handles another."""
    one, two = await fixture.topic(1), await fixture.topic(1)
    primed = await fixture.consumer(one)
    await fixture.consumer(two, group=primed.group)
    bodies: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body.decode())

    async with PushConsumer(
        fixture.target.endpoint,
        group=primed.group,
        subscriptions=[one, two],
        handler=handle,
        shutdown_timeout=5.0,
    ) as consumer:
        await fixture.send(one, "before")
        await until(lambda: "before" in bodies, "the message before")
        await consumer.unsubscribe(one)
        await fixture.send(one, "after")
        await fixture.send(two, "sentinel")
        await until(lambda: "sentinel" in bodies, "the sentinel")
        await asyncio.sleep(0.2)
    assert "after" not in bodies, "handled although unsubscribed"


@case("push.close-drains", rules=("client-behaviour.md 5", "R6.8"), level=SHOULD, needs=SDK, timeout=90.0)
async def close_drains(fixture: Fixture) -> None:
    """Handlers that run when a push consumer is closed finish, and their messages are not redelivered."""
    topic = await fixture.topic(1)
    other = await fixture.consumer(topic)
    await fixture.send(topic, *(f"m{n}" for n in range(10)))
    begun: list[str] = []
    done: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        begun.append(message.body.decode())
        await asyncio.sleep(0.3)
        done.append(message.body.decode())

    async with PushConsumer(
        fixture.target.endpoint,
        group=other.group,
        subscriptions=[topic],
        handler=handle,
        shutdown_timeout=REAL,
    ):
        await until(lambda: len(begun) >= 10, "ten handlers begun")
    assert sorted(done) == sorted(begun) == sorted(f"m{n}" for n in range(10))
    await fixture.expect_settled(other, 1.0, "handled")


@case("push.corrupt-body", rules=("R5.6", "client-behaviour.md 5"), level=SHOULD, needs=SDK, timeout=90.0)
async def corrupt_body(fixture: Fixture) -> None:
    """A message whose body does not match its digest is not passed to the handler, and is redelivered."""
    topic = await fixture.topic(1)
    group = (await fixture.consumer(topic)).group
    spoiled = 0

    def corrupt(frames: list[pb.ReceiveMessageResponse]) -> list[pb.ReceiveMessageResponse]:
        nonlocal spoiled
        for frame in frames:
            if frame.HasField("message") and not spoiled:
                frame.message.body = b"spoiled"
                spoiled += 1
        return frames

    handled: list[tuple[bytes, int]] = []

    async def handle(message: ReceivedMessage) -> None:
        handled.append((message.body, message.attempt))

    async with (
        through_proxy(fixture, ProxyFaults(received=corrupt)) as proxied,
        push_consumer(proxied, group=group, subscriptions=[topic], handler=handle),
    ):
        await fixture.send(topic, "whole")
        await until(lambda: spoiled > 0, "the corrupted message")
        end = fixture.clock.now() + nack_window(fixture.target, 60.0).high
        while not handled and fixture.clock.now() < end:
            await fixture.clock.sleep(1.0)
            await asyncio.sleep(0.05)
    assert [body for body, _ in handled] == [b"whole"]


@case("push.receive-throttled", rules=("R1.3", "client-behaviour.md 9"), level=EXTENSION, needs=SDK)
async def receive_throttled(fixture: Fixture) -> None:
    """A push consumer retries receives that are refused with TOO_MANY_REQUESTS, and loses nothing."""
    topic = await fixture.topic(1)
    group = (await fixture.consumer(topic)).group
    status = pb.Status(code=pb.Code.TOO_MANY_REQUESTS, message="flow limit")
    busy = pb.ReceiveMessageResponse(status=status).SerializeToString()
    refused = 0

    def instead(name: str, request: bytes) -> list[bytes] | None:
        nonlocal refused
        if name != "ReceiveMessage" or refused >= 3:
            return None
        refused += 1
        return [busy]

    bodies: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    await fixture.send(topic, "m")
    async with (
        through_proxy(fixture, ProxyFaults(instead=instead)) as proxied,
        push_consumer(proxied, group=group, subscriptions=[topic], handler=handle),
    ):
        await until(lambda: bool(bodies), "the message")
    assert (refused, bodies) == (3, [b"m"])


@case(
    "push.attempt-id-kept", rules=("R8.14", "client-behaviour.md 5"), level=SHOULD, needs=(*SDK, "type.fifo")
)
async def attempt_id_kept(fixture: Fixture) -> None:
    """A failed receive is retried with its attempt id; after a successful one the next has another."""
    topic = await fixture.topic(1, type="FIFO")
    group = (await fixture.consumer(topic, ordered=True)).group
    ids: list[str] = []
    fault = pb.Status(code=pb.Code.INTERNAL_SERVER_ERROR, message="a fault")
    failed = pb.ReceiveMessageResponse(status=fault).SerializeToString()

    def instead(name: str, request: bytes) -> list[bytes] | None:
        if name != "ReceiveMessage":
            return None
        ids.append(pb.ReceiveMessageRequest.FromString(request).attempt_id)
        return [failed] if len(ids) == 1 else None

    bodies: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    await fixture.send(topic, "m", group=fixture.fresh("mg"))
    async with (
        through_proxy(fixture, ProxyFaults(instead=instead)) as proxied,
        push_consumer(proxied, group=group, subscriptions=[topic], handler=handle),
    ):
        await until(lambda: bool(bodies) and len(ids) >= 3, "the message, and a receive after it")
    assert ids[0], "receives of an ordered group carry no attempt id"
    assert ids[0] == ids[1], "a receive that failed was repeated with another attempt id"
    assert ids[2] != ids[1], "the attempt id was not changed after a successful receive"


@case("timing.fifo-step", rules=("R7.3", "R8.4"), level=SHOULD, needs=(*SDK, "type.fifo"))
async def fifo_step(fixture: Fixture) -> None:
    """The library retries a failed message of an ordered group after the group's interval; the next one waits."""
    topic = await fixture.topic(1, type="FIFO")
    group = await fixture.group(ordered=True, backoff=(1.0,))
    await fixture.consumer(topic, group=group)
    runs: list[tuple[str, float]] = []

    async def handle(message: ReceivedMessage) -> None:
        runs.append((message.body.decode(), time.monotonic()))
        if len(runs) == 1:
            raise RuntimeError("the handler's own failure")

    await fixture.send(topic, "head", "next", group=fixture.fresh("mg"))
    async with PushConsumer(
        fixture.target.endpoint, group=group, subscriptions=[topic], handler=handle, shutdown_timeout=5.0
    ):
        await until(lambda: len(runs) >= 3, "three runs")
    assert [body for body, _ in runs] == ["head", "head", "next"]
    waited = runs[1][1] - runs[0][1]
    fixture.note("waited", round(waited, 3))
    assert 1.0 <= waited <= 1.0 + PROMPT


@case("timing.sdk-first-step", rules=("R7.3",), level=INFORMATIONAL, needs=SDK)
async def sdk_first_step(fixture: Fixture) -> None:
    """The library makes a message that failed once invisible for the group's first interval."""
    topic = await fixture.topic(1)
    group = await fixture.group(backoff=(2.0, 7.0))
    await fixture.consumer(topic, group=group)
    durations: list[float] = []

    def observe(name: str, request: bytes) -> None:
        if name == "ChangeInvisibleDuration":
            span = pb.ChangeInvisibleDurationRequest.FromString(request).invisible_duration
            durations.append(seconds_of(span))

    async def handle(_: ReceivedMessage) -> None:
        raise RuntimeError("the handler's own failure")

    await fixture.send(topic, "m")
    async with (
        through_proxy(fixture, ProxyFaults(instead=observe)) as proxied,
        push_consumer(proxied, group=group, subscriptions=[topic], handler=handle),
    ):
        await until(lambda: bool(durations), "the nack")
    fixture.note("asked", durations[0])
    assert durations[0] == 2.0
