"""Restarts of the broker and lost responses: the `@restart` and `@net` rows of the inventory."""

from __future__ import annotations

import asyncio

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import entry_codes
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window
from aiorocketmq_conformance.verdicts import Inconclusive

RESTART = ("@restart",)
# Servers flush progress every few seconds: later changes may be lost (live-broker-consumption.md 8).
FLUSH = 6.0


async def _successor(fixture: Fixture, before: Consumer) -> Consumer:
    """Return a new client of the same group: after a restart the server knows no clients (R12.7)."""
    return await fixture.consumer(before.topic, group=before.group, prime=False)


@case("send.durable-restart", rules=("R10.4",), needs=RESTART, timeout=400.0)
async def durable_restart(fixture: Fixture) -> None:
    """All of 100 acknowledged messages are delivered after a restart of the broker."""
    topic = await fixture.topic()
    before = await fixture.consumer(topic)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(100)], concurrency=8)
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _successor(fixture, before)
    deliveries = await after.take(100, within=60.0)
    assert {one.id for one in deliveries} == {one.id for one in sent}


@case("simple.inflight-survives-restart", rules=("R7.1", "R12.7"), needs=RESTART, timeout=400.0)
async def inflight_survives_restart(fixture: Fixture) -> None:
    """Messages in flight during a restart can still be acked, or are redelivered after their leases."""
    lease = 30.0 + fixture.number("restart.high")
    topic = await fixture.topic(1)
    before = await fixture.consumer(topic)
    await fixture.send(topic, *(f"m{n}" for n in range(5)))
    leased = await before.take(5, invisible=lease, settle=False)
    before.deliveries.clear()
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _successor(fixture, before)
    if fixture.clock.now() > leased[0].at + lease:
        raise Inconclusive(f"the restart took longer than the lease of {lease:g} s")
    # The handles are still valid; the client that received them is disconnected.
    acked = await after.client.ack(topic, after.group, *leased[:2])
    assert entry_codes(acked) == ["OK", "OK"]
    window = expiry_window(fixture.target, lease)
    deliveries = await after.receive_for(
        leased[0].at + window.high + PROMPT - fixture.clock.now(), settle=True
    )
    assert sorted(one.text for one in deliveries) == sorted(one.text for one in leased[2:])
    for one in deliveries:
        window.check_return(leased[0], one)
        assert one.attempt == 2


@case(
    "push.restart-ends-renewals",
    rules=("R7.8", "R12.7"),
    level=SHOULD,
    needs=(*RESTART, "autorenew"),
    timeout=400.0,
)
async def restart_ends_renewals(fixture: Fixture) -> None:
    """After a restart no lease is renewed any more, of any client: all are redelivered to others at their ends."""
    topic, kind = await fixture.topic(1), pb.ClientType.PUSH_CONSUMER
    first = await fixture.consumer(topic, kind=kind)
    second = await fixture.consumer(topic, group=first.group, prime=False, kind=kind)
    await fixture.send(topic, "m0", "m1")
    leased = [await each.one(auto_renew=True, invisible=None) for each in (first, second)]
    for each in (first, second):
        each.deliveries.clear()
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _successor(fixture, first)
    # A lease that is renewed lasts 60 s (R7.7).
    within = 60.0 + fixture.number("revive.high") + PROMPT
    deliveries = await after.take(2, within=within, poll=20.0)
    assert {(one.id, one.attempt) for one in deliveries} == {(one.id, 2) for one in leased}


@case("fifo.restart-keeps-order", rules=("R8.20",), needs=(*RESTART, "type.fifo"), timeout=400.0)
async def restart_keeps_order(fixture: Fixture) -> None:
    """An ordered group continues in order after a restart."""
    topic = await fixture.topic(4, type="FIFO")
    before = await fixture.consumer(topic, ordered=True)
    sent = await fixture.send(topic, *map(str, range(50)), group=fixture.fresh("mg"))
    for _ in range(20):
        await before.take(1, batch=1)
    await fixture.clock.sleep(FLUSH)
    await fixture.target.restart()
    after = await _successor(fixture, before)
    deliveries = [(await after.take(1, batch=1))[0] for _ in range(30)]
    assert [one.id for one in deliveries] == [one.id for one in sent[20:]]


@case(
    "delay.downtime-over-due",
    rules=("R4.19", "11"),
    level=SHOULD,
    needs=("@process", "type.delay"),
    timeout=400.0,
)
async def downtime_over_due(fixture: Fixture) -> None:
    """A message that became due while the broker was down is delivered promptly after its start, once; so if the
    broker was killed while a poll waited."""
    topic = await fixture.topic(1, type="DELAY")
    consumer = await fixture.consumer(topic)
    process = fixture.target.process
    for down in (process.down, process.kill):
        (sent,) = await fixture.send(topic, "m", deliver_at=fixture.clock.wall() + 2 * FLUSH)
        polling = fixture.background(consumer.receive(poll=4 * FLUSH))
        await fixture.clock.sleep(FLUSH)
        await down(2 * FLUSH)
        started = fixture.clock.now()
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        consumer = await _successor(fixture, consumer)
        delivery = await consumer.find(sent, within=fixture.number("delay.high") + 2 * PROMPT)
        fixture.note("delivered after the start", round(delivery.at - started, 1))
        assert delivery.at >= sent.at + 2 * FLUSH - fixture.number("early"), "delivered before its time"
        assert delivery.attempt == 1
        await consumer.ack(delivery)
        await fixture.expect_nothing(consumer, PROMPT, sentinel={"deliver_at": fixture.clock.wall()})


@case("send.deadline-unknown", rules=("R4.12",), timeout=120.0)
async def deadline_unknown(fixture: Fixture) -> None:
    """Sends whose responses are lost are delivered at most once each; no acknowledged message is lost, no other one
    appears."""
    topic, consumer = await fixture.subscribed()
    proxy = faulty_proxy(fixture.target.endpoint, ProxyFaults(unanswered=frozenset({"SendMessage"})))
    endpoint = await fixture.stack.enter_async_context(proxy)
    producer = await fixture.client(endpoint=endpoint)
    await producer.send_settings(requests.producer_settings(topic))
    acked = {one.id for one in await fixture.send(topic, *(f"acked{n}" for n in range(5)))}
    attempted = set(acked)
    messages = [fixture.message(topic, f"unknown{n}") for n in range(20)]
    attempted |= {message.system_properties.message_id for message in messages}
    ends = await asyncio.gather(
        *(producer.send(each, timeout=2.0) for each in messages), return_exceptions=True
    )
    codes = {end.code if isinstance(end, CallFailed) else repr(end) for end in ends}
    assert codes == {"DEADLINE_EXCEEDED"}, f"responses arrived that should be lost: {codes}"
    deliveries = await fixture.deliveries_within(consumer, PROMPT)
    assert acked <= {one.id for one in deliveries}
    assert {one.id for one in deliveries} <= attempted
    fixture.note("stored_unknown", len(deliveries) - len(acked))
