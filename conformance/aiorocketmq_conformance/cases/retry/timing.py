"""When a message that failed comes again: inventory 4.11, driven by raw changes of the lease."""

from __future__ import annotations

import asyncio
import random

from aiorocketmq.admin import ExponentialBackoff

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.nack import give_back, returned
from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.push import interval
from aiorocketmq_conformance.tolerances import PROMPT, Window, expiry, nack


def _advertised(consumer: Consumer, attempt: int) -> float:
    assert consumer.client.settings is not None
    return interval(consumer.client.settings, attempt)


async def _ladder(fixture: Fixture, consumer: Consumer, failures: int) -> list[float]:
    """Fail one message as often, each time with the interval that the server advertises; how late each came."""
    await fixture.send(consumer.topic, "m")
    delivery = await consumer.one(invisible=60.0)
    margins = []
    for attempt in range(1, failures + 1):
        assert delivery.attempt == attempt
        step = _advertised(consumer, attempt)
        delivery, took = await returned(fixture, consumer, delivery, step)
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
    """A group's own intervals 2, 4, 8 s are advertised, and each failure comes again after its own."""
    consumer = await _with_backoff(fixture, (2.0, 4.0, 8.0))
    assert [_advertised(consumer, attempt) for attempt in (1, 2, 3)] == [2.0, 4.0, 8.0]
    await _ladder(fixture, consumer, 3)


@case("timing.exponential", rules=("R7.3", "R7.4"), level=SHOULD, timeout=120.0)
async def exponential(fixture: Fixture) -> None:
    """Intervals that begin at 2 s, double and end at 6 s are advertised as such: 2, 4, 6, 6 s, and kept."""
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
    """Of 40 messages given back for different times none comes before its own, whatever the others do."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, [f"m{n}" for n in range(40)])
    held = await consumer.take(40, settle=False, invisible=60.0)
    spans = random.Random(7)
    asked: dict[str, tuple[float, float]] = {}

    async def fail(one: Delivery) -> None:
        seconds = round(spans.uniform(0.5, 9.5), 1)
        asked[one.id] = (fixture.clock.now(), seconds)
        await give_back(consumer, one, seconds)

    await asyncio.gather(*map(fail, held))
    latest = nack(fixture.target, 9.5).high + PROMPT
    again = await consumer.take(40, within=latest)
    gaps = {one.id: one.at - asked[one.id][0] - asked[one.id][1] for one in again}
    assert len(gaps) == 40, f"{40 - len(gaps)} of 40 did not come again, {len(again)} deliveries"
    fixture.note("least", round(min(gaps.values()), 3))
    low = fixture.number("nack.low") - fixture.number("early")
    assert min(gaps.values()) >= low, f"{low - min(gaps.values()):.3f} s too early"


@case("timing.invisible", rules=("R7.1", "R6.10"), params={"10": 10.0, "15": 15.0, "30": 30.0}, timeout=120.0)
async def invisible(fixture: Fixture, seconds: float) -> None:
    """A message received for {} s and left alone comes again after that time, not before."""
    topic, consumer = await fixture.subscribed(1)
    # Sent a while before: the lease counts from the receive, not from the store.
    await fixture.send(topic, "m")
    await fixture.clock.sleep(4.0)
    first = await consumer.one(invisible=seconds)
    window = expiry(fixture.target, seconds)
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
    second, took = await returned(fixture, consumer, first, 10.0)
    await consumer.ack(second)
    assert second.attempt == 2
    fixture.note("after_change", round(took - 10.0, 3))


@case("timing.default-ladder-4", rules=("R7.3", "R7.4"), level=INFORMATIONAL, timeout=400.0)
async def default_ladder_4(fixture: Fixture) -> None:
    """Four failures of a group without intervals of its own come again after the published 10, 30, 60 and 120 s."""
    _, consumer = await fixture.subscribed(1)
    steps = [_advertised(consumer, attempt) for attempt in (1, 2, 3, 4)]
    fixture.note("advertised", str(steps))
    await _ladder(fixture, consumer, 4)
    # The other published ladder begins 1, 5, 10, 30 (inventory O1).
    assert steps == [10.0, 30.0, 60.0, 120.0], f"the server's own ladder begins {steps}"


@case("timing.first-retry-stock", rules=("R7.3", "R6.10"), level=SHOULD, timeout=90.0)
async def first_retry_stock(fixture: Fixture) -> None:
    """A group as every server makes it sees a failed message again after its first interval, which is at most 10 s."""
    topic, consumer = await fixture.subscribed(1)
    step = _advertised(consumer, 1)
    assert 0 < step <= 10.0, f"the first interval is {step:g} s"
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    second, _ = await returned(fixture, consumer, first, step)
    assert second.attempt == 2
    await consumer.ack(second)


@case("timing.independent", rules=("R6.10",), level=SHOULD, timeout=120.0)
async def independent(fixture: Fixture) -> None:
    """Messages that fail one after the other come again one after the other, not all at one instant."""
    topic, consumer = await fixture.subscribed()
    await fixture.send_all(topic, [f"m{n}" for n in range(30)])
    held = await consumer.take(30, settle=False, invisible=60.0)
    failed: dict[str, float] = {}
    window = nack(fixture.target, 4.0)

    async def fail_slowly() -> None:
        for one in held:
            failed[one.id] = fixture.clock.now()
            await give_back(consumer, one, 4.0)
            await fixture.clock.sleep(0.3)

    failing = fixture.background(fail_slowly())
    again = await consumer.take(30, within=9.0 + window.high + PROMPT)
    await failing
    gaps = [one.at - failed[one.id] for one in again]
    fixture.note("least", round(min(gaps), 3))
    fixture.note("most", round(max(gaps), 3))
    # A round of the server may gather what became due within it.
    Window(window.low, window.high).check(min(gaps), "the first came again")
    Window(window.low, window.high).check(max(gaps), "the last came again")
    span = max(one.at for one in again) - min(one.at for one in again)
    assert span >= 5.0, f"failed over 9 s, and came again within {span:.1f} s"


@case("timing.wall-clock-jump", rules=("R7.1",), level=EXTENSION, needs=("@clock",))
async def wall_clock_jump(fixture: Fixture) -> None:
    """A clock that is set back ends no lease early, and one that is set forward ends it once; both go on working."""
    topic, consumer = await fixture.subscribed(1)
    other = await fixture.consumer(topic, group=consumer.group, prime=False)
    (sent,) = await fixture.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await fixture.target.special.jump_clock(-3600.0)
    seen = await other.watch(8.0)
    assert not seen, f"the clock was set back, and a lease ended early: {seen}"
    (second,) = await other.take(
        1, batch=1, invisible=10.0, settle=False, within=expiry(fixture.target, 10.0).high
    )
    expiry(fixture.target, 10.0).check_return(first, second)
    await fixture.target.special.jump_clock(3600.0)
    # Who is away for an hour is forgotten, and says who it is again.
    again = await fixture.consumer(topic, group=consumer.group, prime=False)
    third = await again.find(sent, invisible=60.0)
    assert (second.attempt, third.attempt) == (2, 3), "an hour at once counted as several leases"
    await again.ack(third)
    await fixture.expect_nothing(again, PROMPT)


@case("timing.under-load", rules=("R6.10", "R7.1"), level=SHOULD, timeout=180.0)
async def under_load(fixture: Fixture) -> None:
    """Beside a stream of other messages failed ones still come again in time: none early, of 20 at most one late."""
    topic, busy = await fixture.topic(1), await fixture.topic(4)
    consumer, drain = await fixture.consumer(topic), await fixture.consumer(busy)
    await fixture.send_all(topic, [f"m{n}" for n in range(20)])
    held = await consumer.take(20, settle=False, invisible=60.0)

    async def load() -> None:
        while True:
            await fixture.send_all(busy, [b"x" * 256] * 20)
            await drain.ack(*(await drain.receive(batch=32)).deliveries)
            await fixture.clock.sleep(0.1)

    loading = fixture.background(load())
    called = fixture.clock.now()
    for one in held:
        await give_back(consumer, one, 5.0)
    answered = fixture.clock.now()
    window = nack(fixture.target, 5.0)
    try:
        again = await consumer.take(20, within=window.high + 2 * PROMPT, poll=20.0)
    finally:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
    assert min(one.at for one in again) >= called + window.low, "a message came early"
    late = [one for one in again if one.at > answered + window.high]
    fixture.note("late", len(late))
    assert len(late) <= 1, f"{len(late)} of 20 came late: {late}"
