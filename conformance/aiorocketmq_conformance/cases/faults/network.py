"""Lost calls, slow networks, partitions, pauses and crashes: inventory 4.19."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_reader, reading_group
from aiorocketmq_conformance.cases.shared.nack import retry_within
from aiorocketmq_conformance.cases.shared.transactions import NEEDS as TRANSACTIONS, always, open_transactions
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, entry_codes
from aiorocketmq_conformance.probe.checker import COMMIT
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window

# The shortest lease that every server grants.
LEASE = 10.0
# Real seconds after which a client gives up a call whose answer is lost.
PATIENCE = 1.0
# Servers flush progress every few seconds: later changes may be lost (live-broker-consumption.md 8).
FLUSH = 6.0


async def _behind(fixture: Fixture, consumer: Consumer, faults: ProxyFaults) -> Consumer:
    """Return another consumer of the same group that is connected through the faulty proxy."""
    endpoint = await fixture.stack.enter_async_context(faulty_proxy(fixture.target.endpoint, faults))
    client = await fixture.client(endpoint=endpoint)
    await client.send_settings(
        requests.consumer_settings(consumer.group, {consumer.topic: "*"}, pb.ClientType.SIMPLE_CONSUMER)
    )
    return Consumer(client, consumer.topic, consumer.group, "*", pb.ClientType.SIMPLE_CONSUMER)


async def _unheard_acks(consumer: Consumer, deliveries: Iterable[Delivery]) -> None:
    """Ack concurrently, one message per request, without responses; AssertionError if one arrives."""

    async def one(delivery: Delivery) -> None:
        entry = pb.AckMessageEntry(message_id=delivery.id, receipt_handle=delivery.handle)
        request = pb.AckMessageRequest(
            group=requests.resource(consumer.group), topic=requests.resource(consumer.topic), entries=[entry]
        )
        end = ""
        try:
            await consumer.client.unary("AckMessage", request, timeout=PATIENCE)
        except CallFailed as failed:
            end = failed.code
        assert end == "DEADLINE_EXCEEDED", f"the lost call ended with {end or 'an answer'}"

    await asyncio.gather(*map(one, deliveries))


@case("fault.ack-reply-lost", rules=("R6.1", "R6.5"), timeout=150.0)
async def ack_reply_lost(fixture: Fixture) -> None:
    """Acks whose responses are lost have settled their messages, or these are redelivered; nothing else is."""
    clean = await fixture.consumer(await fixture.topic())
    blind = await _behind(fixture, clean, ProxyFaults(unanswered=frozenset({"AckMessage"})))
    sent = await fixture.send_all(clean.topic, [f"m{n}" for n in range(60)])
    unknown = await blind.take(20, batch=10, invisible=LEASE, settle=False)
    await _unheard_acks(blind, unknown)
    others = await clean.take(60 - len(unknown))
    redelivered = await fixture.deliveries_within(clean, expiry_window(fixture.target, LEASE).high)
    assert {one.id for one in [*unknown, *others]} == {one.id for one in sent}
    assert not {one.id for one in redelivered} & {one.id for one in others}, (
        "acknowledged with a response, and redelivered"
    )
    fixture.note("redelivered", len(redelivered))
    # They reached the broker: only the responses were lost.
    assert not redelivered, f"{len(redelivered)} messages were redelivered although their acks had arrived"


@case("fault.ack-request-lost", rules=("R7.1",), timeout=150.0)
async def ack_request_lost(fixture: Fixture) -> None:
    """Messages whose acks never arrive are redelivered after their leases, each once, as attempt 2."""
    clean = await fixture.consumer(await fixture.topic())
    blind = await _behind(fixture, clean, ProxyFaults(lost=frozenset({"AckMessage"})))
    await fixture.send_all(clean.topic, [f"m{n}" for n in range(20)])
    leased = await blind.take(20, invisible=LEASE, settle=False)
    await _unheard_acks(blind, leased)
    window = expiry_window(fixture.target, LEASE)
    deliveries = await clean.take(20, within=window.high + PROMPT)
    first = {one.id: one for one in leased}
    assert {one.id for one in deliveries} == set(first)
    for one in deliveries:
        window.check_return(first[one.id], one)
        assert one.attempt == 2
    await fixture.expect_nothing(clean, SHORT_POLL)


@case("fault.receive-reply-lost", rules=("R5.7", "R7.1"), timeout=200.0)
async def receive_reply_lost(fixture: Fixture) -> None:
    """Messages of receives whose responses are lost are redelivered; their attempts may have been counted."""
    clean = await fixture.consumer(await fixture.topic(1))

    def only_the_first(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
        yield from frames[:2]

    blind = await _behind(fixture, clean, ProxyFaults(received=only_the_first))
    sent = await fixture.send(clean.topic, *(f"m{n}" for n in range(20)))
    got: list[Delivery] = []
    for _ in range(4):
        got += (await blind.receive(batch=5, invisible=LEASE, poll=SHORT_POLL)).deliveries
    assert len(got) == 4, "one of each five was forwarded"
    await clean.ack(*got)
    deliveries = await clean.take(16, within=expiry_window(fixture.target, LEASE).high + PROMPT)
    once_each(sent, [*got, *deliveries])
    fixture.note("attempts", str(sorted({one.attempt for one in deliveries})))
    assert {one.attempt for one in deliveries} <= {1, 2}


@case("fault.latency-300ms", rules=("R5.17",), level=SHOULD, timeout=200.0)
async def latency(fixture: Fixture) -> None:
    """With 300 ms of latency each way every message is delivered exactly once."""
    clean = await fixture.consumer(await fixture.topic())
    slow = await _behind(fixture, clean, ProxyFaults(delayed=0.3))
    producer = await fixture.client(endpoint=slow.client.endpoint)
    await producer.send_settings(requests.producer_settings(clean.topic))
    sent: list[Sent] = list(
        await asyncio.gather(
            *(fixture.send_message(fixture.message(clean.topic, f"m{n}"), producer) for n in range(20))
        )
    )
    deliveries = await slow.take(20, within=6 * PROMPT, batch=10)
    deliveries += await fixture.deliveries_within(clean, SHORT_POLL)
    once_each(sent, deliveries)


@case("fault.jitter-loss", rules=("R4.12", "R7.1"), level=SHOULD, timeout=300.0)
async def jitter_loss(fixture: Fixture) -> None:
    """On a network that loses every fourth call no acknowledged message is lost and no acked one is redelivered."""
    chance = random.Random(fixture.target.run_id)
    lost: set[str] = set()
    clean = await fixture.consumer(await fixture.topic())
    lossy = await _behind(fixture, clean, ProxyFaults(lost=lost))
    producer = await fixture.client(endpoint=lossy.client.endpoint)
    await producer.send_settings(requests.producer_settings(clean.topic))
    acknowledged: set[str] = set()
    attempted: set[str] = set()

    def weather() -> None:
        lost.clear()
        lost.update({"SendMessage", "AckMessage"} if chance.random() < 0.25 else ())

    for n in range(24):
        weather()
        message = fixture.message(clean.topic, f"m{n}")
        attempted.add(message.system_properties.message_id)
        with suppress(CallFailed):
            answer = await producer.send(message, timeout=PATIENCE / 2)
            if answer.status.code == pb.Code.OK:
                acknowledged.add(message.system_properties.message_id)
    lost.clear()
    settled: set[str] = set()
    leased = await lossy.take(len(acknowledged), invisible=LEASE, settle=False)
    for one in leased:
        weather()
        # An ack is refused if its lease expired while earlier acks were lost; the message is redelivered.
        with suppress(AssertionError, TimeoutError):
            await asyncio.wait_for(lossy.ack(one), PATIENCE / 2)
            settled.add(one.id)
    lost.clear()
    redelivered = await fixture.deliveries_within(clean, expiry_window(fixture.target, LEASE).high)
    assert acknowledged <= {one.id for one in [*leased, *redelivered]} <= attempted
    assert not settled & {one.id for one in redelivered}, "acknowledged, and redelivered"
    fixture.note("sends lost", len(attempted) - len(acknowledged))


@case("fault.reset-peer", rules=("R4.12", "R7.1"), level=SHOULD, timeout=300.0)
async def reset_peer(fixture: Fixture) -> None:
    """Connections that break six times under traffic lose no acknowledged message."""
    clean = await fixture.consumer(await fixture.topic())
    acknowledged: set[str] = set()
    attempted: set[str] = set()
    deliveries: list[Delivery] = []
    for round_ in range(6):
        async with faulty_proxy(fixture.target.endpoint, ProxyFaults()) as endpoint:
            async with ProbeClient(endpoint, fixture.fresh("client"), fixture.clock) as client:
                await client.send_settings(requests.producer_settings(clean.topic))
                consumer = await _over(fixture, clean, endpoint)
                for n in range(8):
                    message = fixture.message(clean.topic, f"r{round_}m{n}")
                    attempted.add(message.system_properties.message_id)
                    if (await client.send(message)).status.code == pb.Code.OK:
                        acknowledged.add(message.system_properties.message_id)
                answer = await consumer.receive(batch=4, invisible=LEASE, poll=SHORT_POLL)
                await consumer.ack(*answer.deliveries[:2])
                deliveries += answer.deliveries[:2]
                await client.disconnect()
            await consumer.client.disconnect()
    left = len(acknowledged) - len({one.id for one in deliveries})
    deliveries += await clean.take(left, within=expiry_window(fixture.target, LEASE).high + 2 * PROMPT)
    deliveries += await fixture.deliveries_within(clean, SHORT_POLL)
    assert Counter(one.id for one in deliveries) == Counter(acknowledged), "lost, or settled and redelivered"
    assert acknowledged <= attempted


async def _over(fixture: Fixture, like: Consumer, endpoint: str) -> Consumer:
    client = await fixture.client(endpoint=endpoint)
    settings = requests.consumer_settings(like.group, {like.topic: "*"}, pb.ClientType.SIMPLE_CONSUMER)
    await client.send_settings(settings)
    return Consumer(client, like.topic, like.group, "*", pb.ClientType.SIMPLE_CONSUMER)


async def _stale_acks(consumer: Consumer, held: list[Delivery]) -> None:
    """Ack with expired leases: each is refused."""
    response = await consumer.client.ack(consumer.topic, consumer.group, *held)
    codes = set(entry_codes(response))
    assert codes == {"INVALID_RECEIPT_HANDLE"}, f"late acks were answered with {codes}"


@case("fault.partition-consumer", rules=("R6.2", "R7.1"), timeout=200.0)
async def partition_consumer(fixture: Fixture) -> None:
    """Messages of a consumer that was cut off are redelivered to others; its late acks are refused and change
    nothing."""
    clean = await fixture.consumer(await fixture.topic(1))
    cut: set[str] = set()
    isolated = await _behind(fixture, clean, ProxyFaults(lost=cut))
    await fixture.send(clean.topic, *(f"m{n}" for n in range(6)))
    leased = await isolated.take(6, invisible=LEASE, settle=False)
    cut.update({"AckMessage", "ReceiveMessage", "Heartbeat", "ChangeInvisibleDuration"})
    await _unheard_acks(isolated, leased[:2])
    window = expiry_window(fixture.target, LEASE)
    deliveries = await clean.take(6, within=window.high + PROMPT, invisible=60.0, settle=False)
    assert {one.id for one in deliveries} == {one.id for one in leased}
    await fixture.clock.sleep(max(0.0, leased[0].at + 2 * LEASE - fixture.clock.now()))
    cut.clear()
    await _stale_acks(isolated, leased)
    # The others still have their leases: a late ack must not have affected them.
    await clean.ack(*deliveries)
    await fixture.expect_nothing(clean, SHORT_POLL)


@case("fault.consumer-pause", rules=("R6.2", "R7.1"), timeout=200.0)
async def consumer_pause(fixture: Fixture) -> None:
    """After a consumer was paused for two leases its messages were redelivered to others, and its acks are
    refused."""
    clean = await fixture.consumer(await fixture.topic(1))
    paused = await fixture.consumer(clean.topic, group=clean.group, prime=False)
    await fixture.send(clean.topic, *(f"m{n}" for n in range(4)))
    leased = await paused.take(4, invisible=LEASE, settle=False)
    deliveries = await clean.take(
        4, within=expiry_window(fixture.target, LEASE).high + PROMPT, invisible=60.0, settle=False
    )
    assert {one.id for one in deliveries} == {one.id for one in leased}
    assert {one.attempt for one in deliveries} == {2}
    await fixture.clock.sleep(max(0.0, leased[0].at + 2 * LEASE - fixture.clock.now()))
    await _stale_acks(paused, leased)
    await clean.ack(*deliveries)
    await fixture.expect_nothing(clean, SHORT_POLL)


@case("fault.broker-restart-clean", rules=("R10.4", "R12.7"), needs=("@restart",), timeout=500.0)
async def broker_restart_clean(fixture: Fixture) -> None:
    """After a restart under traffic every acknowledged message is delivered, and acked ones are not redelivered."""
    before = await fixture.consumer(await fixture.topic())
    sent = await fixture.send_all(before.topic, [f"m{n}" for n in range(40)])
    done = {one.id for one in await before.take(20)}
    await fixture.clock.sleep(FLUSH)
    began = fixture.clock.now()
    await fixture.target.restart()
    # The producer does not know of the restart: its client reconnects, its settings are lost.
    after = await fixture.consumer(before.topic, group=before.group, prime=False)
    sent += await fixture.send(before.topic, *(f"later{n}" for n in range(10)))
    deliveries = await after.take(50 - len(done), within=6 * PROMPT)
    fixture.note("recovered after", round(fixture.clock.now() - began, 1))
    assert {one.id for one in deliveries} == {one.id for one in sent} - done
    await fixture.expect_nothing(after, SHORT_POLL)


@case("fault.crash-loop-consumer", rules=("R5.26", "R7.5"), level=SHOULD, needs=("dlq",), timeout=300.0)
async def crash_loop_consumer(fixture: Fixture) -> None:
    """A message that crashes every consumer is delivered four times with three retries; others are not delayed."""
    readers = await reading_group(fixture)
    first = await fixture.consumer(await fixture.topic(1), max_attempts=4)
    (poison,) = await fixture.send(first.topic, "poison")
    others = await fixture.send(first.topic, *(f"good{n}" for n in range(5)))
    deaths = 0
    good: list[Delivery] = []
    crashing = first
    for _ in range(4):
        while True:
            answer = await crashing.receive(batch=1, invisible=LEASE, poll=20.0)
            if any(one.id == poison.id for one in answer.deliveries):
                break
            await crashing.ack(*answer.deliveries)
            good += answer.deliveries
        deaths += 1
        await crashing.client.disconnect()
        crashing = await fixture.consumer(first.topic, group=first.group, prime=False)
    good += await crashing.receive_for(
        expiry_window(fixture.target, LEASE).high + retry_within(fixture), settle=True
    )
    assert deaths == 4
    once_each(others, good)
    reader = await dead_letter_reader(fixture, first, readers)
    (dead,) = await reader.take(1, within=2 * PROMPT)
    assert dead.body == b"poison"


@case("fault.producer-crash-tx", rules=("R9.6", "R9.8"), needs=(*TRANSACTIONS, "type.check"), timeout=400.0)
async def producer_crash_tx(fixture: Fixture) -> None:
    """When a producer dies before its commit, another one is checked, and its resolution is applied once."""
    tx = await open_transactions(fixture, needs_checks=True)
    halves = await tx.prepare(*(f"m{n}" for n in range(3)))
    await tx.producer.disconnect()
    successor = await fixture.producer(tx.topic)
    # Servers check producers of the topic: settings that name the topic suffice.
    checker = await tx.checker(always(COMMIT), successor)
    await tx.expect_checks(checker, 3)
    once_each(halves, await tx.consumer.take(3, within=30.0))
    assert not await tx.consumer.receive_for(SHORT_POLL)


@case("fault.clock-skew-client", rules=("R4.19",), needs=("type.delay",), level=SHOULD, timeout=150.0)
async def clock_skew_client(fixture: Fixture) -> None:
    """For a client whose clock is an hour ahead the server's clock counts: messages are delivered at once, delayed
    ones at their time."""
    topic, consumer = await fixture.subscribed(1, type="DELAY")
    skewed = await fixture.client(date_time="20990101T000000Z")
    await skewed.send_settings(requests.producer_settings(topic))
    now = fixture.clock.wall()
    plain = requests.message(topic, "past", born_at=now + 3600, deliver_at=now - 1)
    delayed = requests.message(topic, "later", born_at=now + 3600, deliver_at=now + 6)
    await fixture.send_message(plain, skewed)
    sent = await fixture.send_message(delayed, skewed)
    assert (await consumer.one(batch=1, settle=True)).text == "past"
    late = await consumer.one(batch=1, settle=True, within=6 + fixture.number("delay.high") + PROMPT)
    waited = late.at - sent.at
    assert late.text == "later"
    assert waited >= 6 - fixture.number("early") - 1.0, f"delivered after {waited:.2f} s"
