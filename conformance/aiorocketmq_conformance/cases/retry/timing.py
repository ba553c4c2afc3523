"""Times of redeliveries: inventory 4.11, with raw changes of the invisible duration."""

from __future__ import annotations

import asyncio
import random

from aiorocketmq.admin import ExponentialBackoff

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.nack import nack, nack_and_wait
from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.push import interval
from aiorocketmq_conformance.tolerances import PROMPT, Window, expiry_window, nack_window


def _advertised(consumer: Consumer, attempt: int) -> float:
    assert consumer.client.settings is not None
    return interval(consumer.client.settings, attempt)


async def _ladder(fixture: Fixture, consumer: Consumer, failures: int) -> list[float]:
    """Fail one message `attempts` times, each time with the advertised interval; return how late each redelivery
    was."""
    await fixture.send(consumer.topic, "m")
    delivery = await consumer.one(invisible=60.0)
    margins = []
    for attempt in range(1, failures + 1):
        assert delivery.attempt == attempt
        step = _advertised(consumer, attempt)
        delivery, took = await nack_and_wait(fixture, consumer, delivery, step)
        margins.append(round(took - step, 3))
    await consumer.ack(delivery)
    fixture.note("late", str(margins))
    return margins


async def _with_backoff(fixture: Fixture, backoff: tuple[float, ...] | ExponentialBackoff) -> Consumer:
    topic = await fixture.topic(1)
    group = await fixture.group(backoff=backoff)
    return await fixture.consumer(topic, group=group)


@case("timing.custom-ladder", rules=("R7.3", "R7.4", "R6.10"), timeout=120.0)
async def custom_ladder(fixture: Fixture) -> None:
    """A group's own intervals 2, 4, 8 s are advertised, and each retry is redelivered after its own."""
    consumer = await _with_backoff(fixture, (2.0, 4.0, 8.0))
    assert [_advertised(consumer, attempt) for attempt in (1, 2, 3)] == [2.0, 4.0, 8.0]
    await _ladder(fixture, consumer, 3)


@case("timing.exponential", rules=("R7.3", "R7.4"), level=SHOULD, timeout=120.0)
async def exponential(fixture: Fixture) -> None:
    """Exponential intervals from 2 s to 6 s are advertised as such, 2, 4, 6, 6 s, and kept."""
    consumer = await _with_backoff(fixture, ExponentialBackoff(2.0, 6.0, 2))
    assert [_advertised(consumer, attempt) for attempt in (1, 2, 3, 4)] == [2.0, 4.0, 6.0, 6.0]
    await _ladder(fixture, consumer, 4)


@case("timing.last-step-repeats", rules=("R7.3",), level=SHOULD, timeout=120.0)
async def last_step_repeats(fixture: Fixture) -> None:
    """With two intervals and four failures the third and fourth wait for the last interval."""
    consumer = await _with_backoff(fixture, (1.0, 3.0))
    assert [_advertised(consumer, attempt) for attempt in (1, 2, 3, 4)] == [1.0, 3.0, 3.0, 3.0]
    await _ladder(fixture, consumer, 4)


@case("timing.never-early", rules=("R6.10", "R7.1"), timeout=120.0)
async def never_early(fixture: Fixture) -> None:
    """Of 40 messages made invisible for different times none is redelivered before its own."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, [f"m{n}" for n in range(40)])
    leased = await consumer.take(40, settle=False, invisible=60.0)
    spans = random.Random(7)
    nacked: dict[str, tuple[float, float]] = {}

    async def fail(one: Delivery) -> None:
        seconds = round(spans.uniform(0.5, 9.5), 1)
        nacked[one.id] = (fixture.clock.now(), seconds)
        await nack(consumer, one, seconds)

    await asyncio.gather(*map(fail, leased))
    latest = nack_window(fixture.target, 9.5).high + PROMPT
    redelivered = await consumer.take(40, within=latest)
    gaps = {one.id: one.at - nacked[one.id][0] - nacked[one.id][1] for one in redelivered}
    assert len(gaps) == 40, f"{40 - len(gaps)} of 40 were not redelivered, {len(redelivered)} deliveries"
    fixture.note("least", round(min(gaps.values()), 3))
    low = fixture.number("nack.low") - fixture.number("early")
    assert min(gaps.values()) >= low, f"{low - min(gaps.values()):.3f} s too early"


@case("timing.invisible", rules=("R7.1", "R6.10"), params={"10": 10.0, "15": 15.0, "30": 30.0}, timeout=120.0)
async def invisible(fixture: Fixture, seconds: float) -> None:
    """A message received for {} s and not acked is redelivered after that time, not before."""
    topic, consumer = await fixture.subscribed(1)
    # Sent some time before: the lease is counted from the receive, not from the store.
    await fixture.send(topic, "m")
    await fixture.clock.sleep(4.0)
    first = await consumer.one(invisible=seconds)
    window = expiry_window(fixture.target, seconds)
    second = await consumer.one(until=first.at + window.high + PROMPT, poll=20.0)
    await consumer.ack(second)
    assert (second.id, second.attempt) == (first.id, 2)
    fixture.note("after_lease", round(second.at - first.at - seconds, 3))
    window.check_return(first, second)


@case("timing.change-from-call", rules=("R6.10",), timeout=120.0)
async def change_from_call(fixture: Fixture) -> None:
    """A change to 10 s in the eighth second of a lease of 10 s counts from the call, not from the receive."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await fixture.clock.sleep(8.0)
    second, took = await nack_and_wait(fixture, consumer, first, 10.0)
    await consumer.ack(second)
    assert second.attempt == 2
    fixture.note("after_change", round(took - 10.0, 3))


@case("timing.default-ladder-4", rules=("R7.3", "R7.4"), level=INFORMATIONAL, timeout=400.0)
async def default_ladder_4(fixture: Fixture) -> None:
    """With default intervals four failures are redelivered after the published 10, 30, 60 and 120 s."""
    _, consumer = await fixture.subscribed(1)
    steps = [_advertised(consumer, attempt) for attempt in (1, 2, 3, 4)]
    fixture.note("advertised", str(steps))
    await _ladder(fixture, consumer, 4)
    # The other published intervals start with 1, 5, 10, 30 (inventory O1).
    assert steps == [10.0, 30.0, 60.0, 120.0], f"the server's intervals start with {steps}"


@case("timing.first-retry-stock", rules=("R7.3", "R6.10"), level=SHOULD, timeout=90.0)
async def first_retry_stock(fixture: Fixture) -> None:
    """In a default group a failed message is redelivered after the first interval, which is at most 10 s."""
    topic, consumer = await fixture.subscribed(1)
    step = _advertised(consumer, 1)
    assert 0 < step <= 10.0, f"the first interval is {step:g} s"
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    second, _ = await nack_and_wait(fixture, consumer, first, step)
    assert second.attempt == 2
    await consumer.ack(second)


@case("timing.independent", rules=("R6.10",), level=SHOULD, timeout=120.0)
async def independent(fixture: Fixture) -> None:
    """Messages that fail one after the other are redelivered one after the other, not all at once."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, [f"m{n}" for n in range(30)])
    leased = await consumer.take(30, settle=False, invisible=60.0)
    failed: dict[str, float] = {}
    window = nack_window(fixture.target, 4.0)

    async def fail_slowly() -> None:
        for one in leased:
            failed[one.id] = fixture.clock.now()
            await nack(consumer, one, 4.0)
            await fixture.clock.sleep(0.3)

    failing = fixture.background(fail_slowly())
    redelivered = await consumer.take(30, within=9.0 + window.high + PROMPT)
    await failing
    gaps = [one.at - failed[one.id] for one in redelivered]
    fixture.note("least", round(min(gaps), 3))
    fixture.note("most", round(max(gaps), 3))
    # A periodic job of the server may deliver together what became due within its period.
    Window(window.low, window.high).check(min(gaps), "the first redelivery")
    Window(window.low, window.high).check(max(gaps), "the last redelivery")
    span = max(one.at for one in redelivered) - min(one.at for one in redelivered)
    assert span >= 5.0, f"failed within 9 s, and redelivered within {span:.1f} s"


@case("timing.wall-clock-jump", rules=("R7.1",), level=EXTENSION, needs=("@clock",))
async def wall_clock_jump(fixture: Fixture) -> None:
    """A clock that is set back does not expire leases early, one that is set forward expires them once."""
    topic, consumer = await fixture.subscribed(1)
    other = await fixture.consumer(topic, group=consumer.group, prime=False)
    (sent,) = await fixture.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await fixture.target.privileged.jump_clock(-3600.0)
    deliveries = await other.receive_for(8.0)
    assert not deliveries, f"a lease expired early after the clock was set back: {deliveries}"
    (second,) = await other.take(
        1, batch=1, invisible=10.0, settle=False, within=expiry_window(fixture.target, 10.0).high
    )
    expiry_window(fixture.target, 10.0).check_return(first, second)
    await fixture.target.privileged.jump_clock(3600.0)
    # A client that was silent for an hour has expired, and sends its settings again.
    successor = await fixture.consumer(topic, group=consumer.group, prime=False)
    third = await successor.find(sent, invisible=60.0)
    assert (second.attempt, third.attempt) == (2, 3), "a jump of one hour expired several leases"
    await successor.ack(third)
    await fixture.expect_nothing(successor, PROMPT)


@case("timing.under-load", rules=("R6.10", "R7.1"), level=SHOULD, timeout=180.0)
async def under_load(fixture: Fixture) -> None:
    """Under traffic failed messages are redelivered in time: none early, of 20 at most one late."""
    topic, busy = await fixture.topic(1), await fixture.topic(4)
    consumer, drain = await fixture.consumer(topic), await fixture.consumer(busy)
    await fixture.send_all(topic, [f"m{n}" for n in range(20)])
    leased = await consumer.take(20, settle=False, invisible=60.0)

    async def load() -> None:
        while True:
            await fixture.send_all(busy, [b"x" * 256] * 20)
            await drain.ack(*(await drain.receive(batch=32)).deliveries)
            await fixture.clock.sleep(0.1)

    loading = fixture.background(load())
    called = fixture.clock.now()
    for one in leased:
        await nack(consumer, one, 5.0)
    answered = fixture.clock.now()
    window = nack_window(fixture.target, 5.0)
    try:
        redelivered = await consumer.take(20, within=window.high + 2 * PROMPT, poll=20.0)
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
    assert min(one.at for one in redelivered) >= called + window.low, "a message was redelivered early"
    late = [one for one in redelivered if one.at > answered + window.high]
    fixture.note("late", len(late))
    assert len(late) <= 1, f"{len(late)} of 20 were late: {late}"
