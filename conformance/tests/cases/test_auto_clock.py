"""The clock that lets cases with long waits end at once on a fake."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiorocketmq_conformance.probe.clock import AutoClock, within
from aiorocketmq_conformance.probe.traffic import Call


class Manual:
    """A fake's clock and timer, driven by hand."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.deadline: float | None = None
        self.parked = 0
        self.stops: list[float] = []
        self.moved = asyncio.Event()

    async def advance_to(self, instant: float) -> None:
        self.time = instant
        self.stops.append(instant)
        self.moved.set()
        if self.deadline is not None and instant >= self.deadline:
            self.deadline = None


@pytest.fixture
def manual() -> Manual:
    return Manual()


@pytest.fixture
async def clock(manual: Manual) -> AsyncIterator[AutoClock]:
    clock_ = AutoClock(
        now=lambda: manual.time,
        advance_to=manual.advance_to,
        next_deadline=lambda: manual.deadline,
        parked=lambda: manual.parked,
    )
    async with clock_:
        yield clock_


async def test_sleepers_wake_in_order_and_at_their_own_time(clock: AutoClock, manual: Manual) -> None:
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))

    await asyncio.gather(sleeper("long", 7200.0), sleeper("short", 5.0))
    assert woken == [("short", 1_005.0), ("long", 8_200.0)]


async def test_time_stops_at_the_brokers_own_deadlines(clock: AutoClock, manual: Manual) -> None:
    manual.deadline = 1_003.0
    await clock.sleep(10.0)
    assert manual.stops == [1_003.0, 1_010.0]


async def test_time_does_not_move_while_a_call_is_in_progress(clock: AutoClock, manual: Manual) -> None:
    clock.traffic.begin(waits_for_time=False)
    sleeping = asyncio.create_task(clock.sleep(1.0))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not manual.stops
    clock.traffic.end(Call("SendMessage", "c", 0.0, 0.0, "OK"))
    await sleeping
    assert manual.stops == [1_001.0]


async def test_time_does_not_move_until_the_broker_has_parked_a_long_poll(
    clock: AutoClock, manual: Manual
) -> None:
    clock.traffic.begin(waits_for_time=True)
    manual.deadline = 1_020.0
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not manual.stops
    manual.parked = 1
    async with asyncio.timeout(5):
        await manual.moved.wait()
    assert manual.stops[0] == 1_020.0


async def test_what_is_late_is_cancelled(clock: AutoClock) -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await within(clock, 30.0, never)
    assert never.cancelled()
