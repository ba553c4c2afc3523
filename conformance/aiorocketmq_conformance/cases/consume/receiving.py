"""Receiving: streams, long polls, batches, and who may see a message: inventory 4.8, first half."""

from __future__ import annotations

import asyncio

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.fixture import LEASE, SHORT_POLL, Consumer, Stage, on_stage, once_each
from aiorocketmq_conformance.probe.answers import Delivery, code_name
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, empty_poll, expiry, wake

PREPARED = ("@topic", "@group")


def _bodies(count: int) -> list[str]:
    return [f"m{n}" for n in range(count)]


@case(
    "simple.receive-ack",
    rules=("R6.5", "R6.8"),
    needs=PREPARED,
    params={"ss": (False, False), "as": (True, False), "sa": (False, True), "aa": (True, True)},
    timeout=90.0,
)
@on_stage
async def receive_ack(stage: Stage, concurrent: tuple[bool, bool]) -> None:
    """Messages that were received once and acked never come again; receives and acks one by one or at once ({})."""
    receives_at_once, acks_at_once = concurrent
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    sent = await stage.send(topic, *_bodies(20))
    seen: list[Delivery] = []
    end = stage.clock.now() + 30.0
    while len(seen) < 20 and stage.clock.now() < end:
        asks = (consumer.receive(batch=4, invisible=10.0) for _ in range(3 if receives_at_once else 1))
        fresh = [one for answer in await asyncio.gather(*asks) for one in answer.deliveries]
        seen += fresh
        if acks_at_once:
            await asyncio.gather(*(consumer.ack(one) for one in fresh))
        else:
            for one in fresh:
                await consumer.ack(one)
    seen += await stage.nothing_but(consumer, 10.0 + QUIET_WINDOW)
    once_each(sent, seen)


@case("simple.stream-shape", rules=("R5.5",), needs=PREPARED)
@on_stage
async def stream_shape(stage: Stage) -> None:
    """A receive is one status, then messages, then one delivery time stamp, then the end."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, *_bodies(3))
    full = await consumer.receive(batch=32)
    empty = await consumer.receive()
    assert full.error is None
    assert empty.error is None
    assert full.code == pb.Code.OK
    assert empty.code in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}
    assert full.kinds == ("status", *["message"] * len(full.deliveries), "delivery_timestamp")
    assert 1 <= len(full.deliveries) <= 3
    if len(full.deliveries) == 3:
        assert empty.kinds == ("status", "delivery_timestamp")
    await consumer.ack(*full.deliveries)


@case(
    "simple.error-shape",
    rules=("R5.5", "R1.7"),
    needs=PREPARED,
    params={
        "topic": ("no spaces!", None, LEASE),
        "group": (None, "no spaces!", LEASE),
        "lease": (None, None, -1.0),
    },
)
@on_stage
async def error_shape(stage: Stage, wrong: tuple[str | None, str | None, float]) -> None:
    """A refused receive (illegal {}) is one status that is not OK, and no message."""
    bad_topic, bad_group, lease = wrong
    topic = await stage.topic()
    consumer = await stage.consumer(topic, prime=False)
    await stage.send(topic, "m")
    answer = await consumer.client.receive(bad_topic or topic, bad_group or consumer.group, invisible=lease)
    assert answer.error is None
    expected = (
        "ILLEGAL_TOPIC" if bad_topic else "ILLEGAL_CONSUMER_GROUP" if bad_group else "ILLEGAL_INVISIBLE_TIME"
    )
    assert code_name(answer.code) == expected
    assert answer.kinds[0] == "status"
    assert "message" not in answer.kinds


@case("simple.empty-await", rules=("R5.17", "R5.19"), needs=PREPARED, params={"5": 5.0, "10": 10.0})
@on_stage
async def empty_await(stage: Stage, poll: float) -> None:
    """A receive of {} s on an empty topic waits that long and is then answered as empty."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    answer = await consumer.receive(poll=poll)
    assert answer.error is None
    assert answer.code in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}
    assert not answer.deliveries
    stage.target.note("took", round(answer.took, 3))
    empty_poll(stage.target, poll).check(answer.took, "an empty receive ended")


@case("simple.await-wakes", rules=("R5.18", "R5.20"), needs=PREPARED)
@on_stage
async def await_wakes(stage: Stage) -> None:
    """A message that arrives during a long poll ends it at once."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    waiting = stage.background(consumer.receive(poll=15.0))
    await stage.clock.sleep(3.0)
    assert not waiting.done(), "the poll ended before anything was sent"
    (sent,) = await stage.send(topic, "wake")
    answer = await waiting
    assert [one.id for one in answer.deliveries] == [sent.id]
    woken = answer.deliveries[0].at - sent.acked_at
    stage.target.note("woken", round(woken, 4))
    wake(stage.target).check(woken, "the parked poll was answered")
    await consumer.ack(*answer.deliveries)


@case("simple.batch-cap", rules=("R5.3",), needs=PREPARED, timeout=120.0)
@on_stage
async def batch_cap(stage: Stage) -> None:
    """However many are asked for, no answer holds more than the advertised batch, and 300 messages come once each."""
    topic = await stage.topic(2)
    consumer = await stage.consumer(topic)
    sent = await stage.send_all(topic, _bodies(300), lanes=16)
    largest = int(stage.target.number("batch.max"))
    seen: list[Delivery] = []
    while len(seen) < 300:
        answer = await consumer.receive(batch=50)
        assert len(answer.deliveries) <= largest, f"{len(answer.deliveries)} messages in one answer"
        assert answer.deliveries, f"{len(seen)} of 300, then an empty answer"
        seen += answer.deliveries
        await consumer.ack(*answer.deliveries)
    once_each(sent, seen)


@case("simple.batch-exact", rules=("R5.3", "R5.15"), needs=PREPARED, params={"1": 1, "5": 5, "32": 32})
@on_stage
async def batch_exact(stage: Stage, asked: int) -> None:
    """Of 64 waiting messages a receive of {} brings at least one and no more than that."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send_all(topic, _bodies(64), lanes=16)
    answer = await consumer.receive(batch=asked)
    assert 1 <= len(answer.deliveries) <= asked, f"{len(answer.deliveries)} messages for a batch of {asked}"
    await consumer.ack(*answer.deliveries)


@case("simple.inflight-hidden", rules=("R5.12", "R6.10"), needs=PREPARED, timeout=90.0)
@on_stage
async def inflight_hidden(stage: Stage) -> None:
    """Messages in one consumer's hands are not delivered to the others of its group while their leases run."""
    topic = await stage.topic(1)
    holder = await stage.consumer(topic)
    others = [await stage.consumer(topic, group=holder.group, prime=False) for _ in range(2)]
    sent = await stage.send(topic, *_bodies(3))
    held = await holder.take(3, invisible=QUIET_WINDOW + 2 * PROMPT, settle=False)
    seen = await asyncio.gather(*(other.watch(QUIET_WINDOW, settle=True) for other in others))
    beside = await stage.sentinel(others[0])
    stolen = [one for one in [*seen[0], *seen[1], *beside] if one.id in {sent_one.id for sent_one in sent}]
    await holder.ack(*held)
    assert not stolen, f"delivered to another consumer while in flight: {stolen}"


@case("simple.expiry-redelivers", rules=("R7.1", "R7.2"), needs=PREPARED, timeout=90.0)
@on_stage
async def expiry_redelivers(stage: Stage) -> None:
    """A message that is not acked comes again after its lease, not before, as attempt 2 with a new handle."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    # Sent a while before it is received: the lease counts from the receive, not from the store.
    await stage.send(topic, "m")
    await stage.clock.sleep(4.0)
    first = await consumer.one(invisible=10.0)
    second = await consumer.one(within=40.0, invisible=LEASE, poll=20.0)
    assert second.id == first.id
    assert second.attempt == first.attempt + 1 == 2
    assert second.handle != first.handle
    stage.target.note("after_lease", round(second.at - first.at - 10.0, 3))
    expiry(stage.target, 10.0).check_return(first, second)
    await consumer.ack(second)


@case("simple.two-consumers-disjoint", rules=("R5.10", "R8.16"), needs=PREPARED, timeout=120.0)
@on_stage
async def two_consumers_disjoint(stage: Stage) -> None:
    """Two consumers of one group share 200 messages: all of them, none to both."""
    topic = await stage.topic()
    one = await stage.consumer(topic)
    two = await stage.consumer(topic, group=one.group, prime=False)
    sent = await stage.send_all(topic, _bodies(200), lanes=16)
    await _share([one, two], 200)
    once_each(sent, one.seen + two.seen)


@case("simple.four-pollers", rules=("R5.10", "R5.13"), needs=PREPARED, timeout=120.0)
@on_stage
async def four_pollers(stage: Stage) -> None:
    """Four concurrent receives of one consumer bring each of 100 messages once."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    sent = await stage.send_all(topic, _bodies(100), lanes=16)
    await _share([consumer] * 4, 100)
    once_each(sent, consumer.seen)


async def _share(consumers: list[Consumer], count: int) -> None:
    """Let all `consumers` receive and ack side by side until `count` came or nothing comes any more."""
    total = 0

    async def drain(consumer: Consumer) -> None:
        nonlocal total
        empty = 0
        while total < count and empty < 2:
            # Small batches, so that everybody gets a share.
            answer = await consumer.receive(batch=8, poll=SHORT_POLL)
            total += len(answer.deliveries)
            empty = 0 if answer.deliveries else empty + 1
            await consumer.ack(*answer.deliveries)

    await asyncio.gather(*map(drain, consumers))


@case("simple.unknown-topic", rules=("R5.1",), needs=PREPARED)
@on_stage
async def unknown_topic(stage: Stage) -> None:
    """A receive from a topic that does not exist is refused, brings nothing, and does not create it."""
    known = await stage.topic()
    consumer = await stage.consumer(known, prime=False)
    nowhere = stage.target.fresh("nowhere")
    answer = await consumer.client.receive(nowhere, consumer.group)
    assert answer.error is None
    assert code_name(answer.code) == stage.target.numbers["receive.unknown-topic"]
    assert not answer.deliveries
    route = await consumer.client.query_route(nowhere)
    assert code_name(route.status.code) == "TOPIC_NOT_FOUND", "a refused receive created the topic"


@case("simple.system-group", rules=("R10.2",), needs=PREPARED)
@on_stage
async def system_group(stage: Stage) -> None:
    """A receive in the name of a system group is refused."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic, prime=False)
    await stage.send(topic, "m")
    answer = await consumer.client.receive(topic, "CID_RMQ_SYS_" + stage.target.fresh("group"))
    assert answer.error is None
    assert answer.code not in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}, "answered like any group"
    assert not answer.deliveries


@case("simple.cancelled-receive", rules=("R5.7", "R7.2"), needs=PREPARED, timeout=120.0)
@on_stage
async def cancelled_receive(stage: Stage) -> None:
    """When a receive of 32 is cancelled after its first message, the others are delivered to somebody else."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    other = await stage.consumer(topic, group=consumer.group, prime=False)
    sent = await stage.send_all(topic, _bodies(32), lanes=16)
    began = stage.clock.now()
    broken = await consumer.receive(invisible=10.0, stop_after=1)
    assert len(broken.deliveries) == 1
    # All that the cancelled call took comes back by the end of its lease, the first message too: nobody acked it.
    within = 10.0 + stage.target.number("revive.high") + 2 * PROMPT
    seen: set[str] = set()
    while len(seen) < 32 and stage.clock.now() < began + within:
        answer = await other.receive(poll=SHORT_POLL)
        seen |= {one.id for one in answer.deliveries}
        await other.ack(*answer.deliveries)
    lost = {one.id for one in sent} - seen
    assert not lost, f"{len(lost)} of 32 lost with a cancelled receive"
