"""Leases here last an hour of a clock that the tests move."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._consume.leases import LeaseKeeper
from aiorocketmq._core.lease import Lease, Outcome, Step
from aiorocketmq._push.settler import order_key_of
from aiorocketmq.clock import ClockUser
from aiorocketmq.errors import LeaseLostError, UnreachableError, UsageError
from aiorocketmq.message import MessageQueue, ReceivedMessage

LEASE = 3600.0
QUEUE = MessageQueue("orders", "broker-a", 0)


class Alarm:
    """A timer of `HandClock`."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandClock:
    """A clock that is paused between two steps of a test."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._alarms: list[tuple[float, int, Alarm]] = []

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (when, len(self._alarms), alarm))
        return alarm

    def join(self, user: ClockUser) -> None:
        raise AssertionError("the keeper's owner joins")

    leave = join

    @property
    def alarms(self) -> list[float]:
        """When the timers that are set fire."""
        return sorted(when for when, _, alarm in self._alarms if not alarm.is_cancelled)

    async def pass_by(self, seconds: float) -> None:
        """Let so much time pass, each timer at its time, and what follows from it happen."""
        end = self._now + seconds
        while self._alarms and self._alarms[0][0] <= end:
            when, _, alarm = heapq.heappop(self._alarms)
            self._now = max(self._now, when)
            if not alarm.is_cancelled:
                alarm.callback()
            await self.settle()
        self._now = end
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


class Server:
    """Takes changes, and fails them or leaves them without an answer as configured."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.changed: list[tuple[str, float]] = []
        """Which messages, and when."""
        self.failures: list[Exception | None] = []
        self.hanging: dict[str, asyncio.Event] = {}

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.changed]

    def times(self, name: str) -> list[float]:
        return [at for changed, at in self.changed if changed == name]

    async def change(self, message: ReceivedMessage, seconds: float) -> None:
        assert seconds == LEASE
        begun = self._clock.time()
        self.changed.append((message.message_id, begun))
        failure = self.failures.pop(0) if self.failures else None
        if message.message_id in self.hanging:
            await self.hanging[message.message_id].wait()
        if failure is not None:
            raise failure
        assert message._lease is not None
        message._lease.ends_at = begun + seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def server(clock: HandClock) -> Server:
    return Server(clock)


@pytest.fixture
async def keeper(clock: HandClock, server: Server) -> AsyncIterator[LeaseKeeper]:
    tasks: set[asyncio.Task[None]] = set()

    def spawn(function: Callable[..., Coroutine[Any, Any, None]], *arguments: object, name: str) -> None:
        tasks.add(asyncio.create_task(function(*arguments), name=name))

    keeper = LeaseKeeper(
        invisible=LEASE, change=server.change, spawn=spawn, clock=clock, watch=Watch("renewing leases", set())
    )
    yield keeper
    keeper.close()
    for gate in server.hanging.values():
        gate.set()
    await asyncio.gather(*tasks)


@pytest.fixture
def leased(clock: HandClock) -> Callable[..., ReceivedMessage]:
    """Make a message whose lease began just now, or so many seconds ago."""

    def make(name: str = "01", age: float = 0.0) -> ReceivedMessage:
        lease = Lease(f"handle-{name}", ends_at=clock.time() - age + LEASE)
        return ReceivedMessage(topic="orders", body=b"x", message_id=name, queue=QUEUE, offset=0, lease=lease)

    return make


Leased = Callable[..., ReceivedMessage]


async def test_a_lease_is_renewed_again_and_again(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    keeper.add(leased())
    await clock.pass_by(3 * LEASE)
    assert [at - 1000.0 for at in server.times("01")] == [LEASE / 2 * n for n in range(1, 7)]


async def test_a_released_lease_is_not_renewed(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    done, other = leased("done"), leased("other")
    keeper.add(done)
    keeper.add(other)
    keeper.discard(done)
    await clock.pass_by(LEASE)
    assert server.names == ["other", "other"]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.REFUSED, Outcome.UNKNOWN])
async def test_a_message_that_its_handler_settled_itself_is_not_renewed(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased, outcome: Outcome
) -> None:
    """Nor one whose ack has failed: renewals would keep it from others forever."""
    settled, other = leased("settled"), leased("other")
    assert settled._lease is not None
    settled._lease.begin(Step.ACK)
    settled._lease.end(outcome)
    keeper.add(settled)
    keeper.add(other)
    await clock.pass_by(LEASE)
    assert set(server.names) == {"other"}


async def test_a_failed_renewal_is_repeated_in_time_beside_another_lease(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    """The timer was set for the other lease already, which is due later than the next try."""
    server.failures = [UnreachableError("gone")]
    keeper.add(leased("first"))
    await clock.pass_by(0.4 * LEASE)
    keeper.add(leased("other"))
    await clock.pass_by(0.3 * LEASE)
    assert server.times("first") == pytest.approx([1000 + 0.5 * LEASE, 1000 + 0.6 * LEASE])


@pytest.mark.parametrize("end", ["renewed", "discarded", "expired"])
async def test_renewing_is_degraded_only_while_a_renewal_is_repeated(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased, end: str
) -> None:
    server.failures = [UnreachableError("gone")] * (9 if end == "expired" else 1)
    message = leased()
    keeper.add(message)
    await clock.pass_by(0.5 * LEASE)
    assert keeper._watch.reason == "gone"
    if end == "discarded":
        keeper.discard(message)
    else:
        await clock.pass_by(0.5 * LEASE)
    assert keeper._watch.reason is None


async def test_a_renewal_that_fails_unexpectedly_is_logged_and_repeated(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased, caplog: pytest.LogCaptureFixture
) -> None:
    server.failures = [ValueError("garbled")]
    keeper.add(leased())
    await clock.pass_by(0.7 * LEASE)
    assert server.names == ["01", "01"]
    assert "renewing leases failed unexpectedly" in caplog.text
    assert "ValueError: garbled" in caplog.text
    caplog.clear()  # elsewhere such a record is a fault


async def test_a_renewal_without_an_answer_delays_no_other(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    server.hanging["stuck"] = asyncio.Event()
    keeper.add(leased("stuck"))
    keeper.add(leased("other"))
    await clock.pass_by(LEASE)
    assert server.names == ["stuck", "other", "other"]


async def test_a_lease_that_began_before_it_was_held_is_renewed_in_time(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    """What a simple consumer kept for its next call has used up a part of its lease, another has not."""
    keeper.add(leased("fresh"))
    keeper.add(leased("kept", age=0.45 * LEASE))
    assert len(clock.alarms) == 1
    await clock.pass_by(0.1 * LEASE)
    assert server.names == ["kept"]


async def test_a_slow_renewal_counts_from_when_it_was_sent(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    """The answer took 0.4 of a lease; counted from there, the next one would come when 0.9 of the lease are gone."""
    gate = server.hanging["01"] = asyncio.Event()
    keeper.add(leased())
    await clock.pass_by(0.9 * LEASE)
    gate.set()
    await clock.pass_by(0.0)
    await clock.pass_by(0.2 * LEASE)
    assert server.times("01") == [1000 + 0.5 * LEASE, 1000 + LEASE]


@pytest.mark.parametrize("error", [LeaseLostError("over"), UsageError("in doubt")])
async def test_a_lost_lease_is_let_go(
    keeper: LeaseKeeper,
    server: Server,
    clock: HandClock,
    leased: Leased,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.failures = [error]
    keeper.add(leased("lost"))
    await clock.pass_by(0.6 * LEASE)
    keeper.add(leased("next"))
    await clock.pass_by(0.6 * LEASE)
    assert server.names == ["lost", "next"]
    assert "may be redelivered" in caplog.text


async def test_a_keeper_with_nothing_to_keep_sets_no_timer(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    only = leased()
    keeper.add(only)
    keeper.discard(only)
    await clock.pass_by(LEASE)
    assert server.changed == []
    assert clock.alarms == []


async def test_a_closed_keeper_renews_no_more(
    keeper: LeaseKeeper, server: Server, clock: HandClock, leased: Leased
) -> None:
    gate = server.hanging["01"] = asyncio.Event()
    keeper.add(leased())
    await clock.pass_by(0.5 * LEASE)
    keeper.add(leased("waiting"))
    keeper.close()
    gate.set()
    await clock.pass_by(0.0)
    await clock.pass_by(2 * LEASE)
    assert server.names == ["01"]
    assert clock.alarms == []


@pytest.mark.parametrize(
    ("message_group", "ordered", "expected"),
    [("a", True, ("orders", "a")), (None, True, QUEUE), ("a", False, None)],
)
def test_an_ordered_groups_message_keeps_order_with_its_message_group_or_queue(
    message_group: str | None, ordered: bool, expected: object
) -> None:
    message = ReceivedMessage(
        topic="orders", body=b"x", message_id="01", queue=QUEUE, offset=0, message_group=message_group
    )
    assert order_key_of(message, ordered=ordered) == expected
