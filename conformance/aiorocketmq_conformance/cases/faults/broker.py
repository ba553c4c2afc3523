"""Brokers that are killed, paused, or cut off: inventory 4.19."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc.aio

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.relay import relay_to
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, expiry_window

PROCESS = ("@process",)
# The shortest lease that every server grants.
LEASE = 10.0
PAUSE = 20.0
# Real seconds after which a client gives up an unanswered call.
PATIENCE = 1.0


class _Pump:
    """Sends continuously until the broker is unavailable."""

    def __init__(self, fixture: Fixture, topic: str, client: ProbeClient) -> None:
        """`client` is for this alone: its connection backs off after the sends have failed."""
        self._fixture = fixture
        self._topic = topic
        self._client = client
        self._enough = asyncio.Event()
        self.acknowledged: list[Sent] = []

    async def run(self) -> None:
        """Send until a send fails."""
        with suppress(grpc.aio.AioRpcError, AssertionError):
            while True:
                body = f"m{len(self.acknowledged)}"
                self.acknowledged += await self._fixture.send(self._topic, body, client=self._client)
                if len(self.acknowledged) >= 50:
                    self._enough.set()

    async def warm(self) -> None:
        """Wait until it has sent fifty."""
        await self._enough.wait()


async def _killed_under_load(fixture: Fixture) -> tuple[set[str], set[str], set[str]]:
    """Kill the broker during sends; return what it acknowledged, what of it was acked, what it delivered
    afterwards."""
    before = await fixture.consumer(await fixture.topic())
    early = await fixture.send_all(before.topic, [f"e{n}" for n in range(20)])
    done = {one.id for one in await before.take(20)}
    pump = _Pump(fixture, before.topic, await fixture.producer(before.topic))
    pumping = fixture.background(pump.run())
    await pump.warm()
    began = fixture.clock.now()
    await fixture.target.process.kill()
    await pumping
    sent = {one.id for one in [*early, *pump.acknowledged]}
    after = await _return(fixture, before)
    delivery: set[str] = set()
    end = fixture.clock.now() + expiry_window(fixture.target, LEASE).high + 4 * PROMPT
    while fixture.clock.now() < end and not sent - done <= delivery:
        answer = await after.receive(poll=SHORT_POLL, invisible=LEASE)
        await after.ack(*answer.deliveries)
        delivery |= {one.id for one in answer.deliveries}
    fixture.note("recovered after", round(fixture.clock.now() - began, 1))
    delivery |= {one.id for one in await fixture.deliveries_within(after, SHORT_POLL)}
    return sent, done, delivery


async def _return(fixture: Fixture, before: Consumer) -> Consumer:
    """Return a new consumer of the group; existing connections may need a moment until the broker is available
    again."""
    while True:
        try:
            return await fixture.consumer(before.topic, group=before.group, prime=False)
        except (ConnectionError, grpc.aio.AioRpcError):
            await asyncio.sleep(0.1)


@case("fault.broker-kill", rules=("R10.4", "R12.7"), level=SHOULD, needs=PROCESS, timeout=500.0)
async def broker_kill(fixture: Fixture) -> None:
    """A broker that is killed during sends loses no acknowledged message."""
    sent, done, delivery = await _killed_under_load(fixture)
    fixture.note("acknowledged", len(sent))
    lost = sent - done - delivery
    assert not lost, f"{len(lost)} of {len(sent)} acknowledged messages are lost"


@case("fault.broker-kill-async", rules=("R10.4", "R12.7"), level=INFORMATIONAL, needs=PROCESS, timeout=500.0)
async def broker_kill_async(fixture: Fixture) -> None:
    """How many confirmed sends and acks a killed broker has lost is recorded."""
    sent, done, delivery = await _killed_under_load(fixture)
    fixture.note("sends lost", len(sent - done - delivery))
    fixture.note("acks forgotten", len(done & delivery))


@case(
    "fault.broker-pause", rules=("R7.1", "R4.19"), level=SHOULD, needs=(*PROCESS, "type.delay"), timeout=300.0
)
async def broker_pause(fixture: Fixture) -> None:
    """After a pause of the broker delayed messages are late and never early, and leased ones are not redelivered."""
    plain, delayed = await fixture.topic(1), await fixture.topic(1, type="DELAY")
    owner, waiting = await fixture.consumer(plain), await fixture.consumer(delayed)
    await fixture.send(plain, *(f"m{n}" for n in range(4)))
    kept = await owner.one(invisible=120.0)
    leased = await owner.take(3, batch=3, invisible=LEASE, settle=False)
    wall = fixture.clock.wall()
    (within,) = await fixture.send(delayed, "within", deliver_at=wall + PAUSE / 2)
    (later,) = await fixture.send(delayed, "later", deliver_at=wall + 2 * PAUSE)
    await fixture.target.process.pause(PAUSE)
    other = await _return(fixture, owner)
    window = expiry_window(fixture.target, LEASE)
    deliveries = await other.take(3, within=window.high + PROMPT)
    first = {one.id: one for one in leased}
    assert {one.id for one in deliveries} == set(first), "of four in-flight messages three leases expired"
    for one in deliveries:
        assert one.at - first[one.id].asked_at >= window.low, f"{one} was redelivered early"
        assert one.attempt == 2
    for sent in (within, later):
        delivery = await waiting.find(sent, within=2 * PAUSE + fixture.number("delay.high") + PROMPT)
        due = sent.message.system_properties.delivery_timestamp.seconds
        early = due - (sent.wall + delivery.at - sent.at)
        assert early <= fixture.number("early"), f"{delivery.text} was {early:.2f} s early"
        await waiting.ack(delivery)
    await owner.ack(kept)
    await fixture.expect_nothing(other, SHORT_POLL)


@case("fault.pause-over-expiry", rules=("R7.1",), level=SHOULD, needs=PROCESS, timeout=300.0)
async def pause_over_expiry(fixture: Fixture) -> None:
    """Messages whose leases expired during a pause of the broker of three lease lengths are redelivered once."""
    owner = await fixture.consumer(await fixture.topic(1))
    await fixture.send(owner.topic, *(f"m{n}" for n in range(4)))
    leased = await owner.take(4, invisible=LEASE, settle=False)
    await fixture.target.process.pause(3 * LEASE + 5.0)
    other = await _return(fixture, owner)
    deliveries = await other.take(
        4, within=expiry_window(fixture.target, LEASE).high + PROMPT, invisible=60.0, settle=False
    )
    deliveries += await other.receive_for(QUIET_WINDOW, invisible=60.0)
    assert sorted(one.id for one in deliveries) == sorted(one.id for one in leased), "not each once"
    assert {one.attempt for one in deliveries} == {2}, f"attempts {sorted(one.attempt for one in deliveries)}"
    await other.ack(*deliveries)
    await fixture.expect_nothing(other, SHORT_POLL)


async def _expect_no_response(call: asyncio.Future[object] | asyncio.Task[object]) -> None:
    """Assert that the call is not answered."""
    try:
        await call
    except CallFailed as failed:
        assert failed.code == "DEADLINE_EXCEEDED", f"ended with {failed.code}"  # noqa: PT017  any other end is wrong
        return
    raise AssertionError("answered over a relay that was cut")


@case("fault.half-open", rules=("R2.15", "R5.7", "R7.1"), level=SHOULD, timeout=200.0)
async def half_open(fixture: Fixture) -> None:
    """Clients whose connections died silently reconnect with the same ids, and lose nothing."""
    clean = await fixture.consumer(await fixture.topic(1))
    endpoint, relay = await fixture.stack.enter_async_context(relay_to(fixture.target.endpoint))
    producer = await fixture.client(endpoint=endpoint)
    await producer.send_settings(requests.producer_settings(clean.topic))
    reader = await _reader(await fixture.client(endpoint=endpoint), clean)
    sent = [await fixture.send_message(fixture.message(clean.topic, f"m{n}"), producer) for n in range(2)]
    leased = await reader.take(2, invisible=LEASE, settle=False)
    polling = fixture.background(reader.receive(poll=20.0, invisible=LEASE))
    await fixture.clock.sleep(1.0)
    relay.cut()
    cut_at = fixture.clock.now()
    # The broker cannot detect that this poll is dead.
    sent += await fixture.send(clean.topic, "into the void")
    await _expect_no_response(
        asyncio.ensure_future(producer.send(fixture.message(clean.topic, "unknown"), timeout=PATIENCE))
    )
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    for client in (producer, reader.client):
        await client.disconnect()
    reconnected = ProbeClient(fixture.target.endpoint, producer.client_id, fixture.clock)
    fixture.stack.push_async_callback(reconnected.close)
    await reconnected.send_settings(requests.producer_settings(clean.topic))
    sent.append(await fixture.send_message(fixture.message(clean.topic, "after"), reconnected))
    back = ProbeClient(fixture.target.endpoint, reader.client.client_id, fixture.clock)
    fixture.stack.push_async_callback(back.close)
    successor = await _reader(back, clean)
    deliveries = await successor.take(
        len(sent), within=expiry_window(fixture.target, LEASE).high + 2 * PROMPT
    )
    deliveries += await fixture.deliveries_within(clean, SHORT_POLL)
    fixture.note("recovered after", round(fixture.clock.now() - cut_at, 1))
    once_each(sent, deliveries)
    ended = expiry_window(fixture.target, LEASE)
    for one in leased:
        ended.check_return(one, next(each for each in deliveries if each.id == one.id))


async def _reader(client: ProbeClient, like: Consumer) -> Consumer:
    await client.send_settings(requests.consumer_settings(like.group, {like.topic: "*"}, like.kind))
    return Consumer(client, like.topic, like.group, "*", like.kind)
