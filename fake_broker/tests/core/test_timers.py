"""The timers of timers."""

from aiorocketmq_fake.core.records.timers import Timer, Timers


def ring(timer: Timer) -> None:
    """Do nothing: these tests call no action."""


def run(timers: Timers, until: int) -> list[tuple[int, Timer]]:
    due = []
    while (entry := timers.pop_due(until)) is not None:
        due.append(entry[:2])
    return due


def test_timers_fire_in_order_of_time_and_setting() -> None:
    timers = Timers()
    first, second, third = Timer(), Timer(), Timer()
    timers.set(third, 9, ring)
    timers.set(first, 5, ring)
    timers.set(second, 5, ring)
    assert run(timers, 9) == [(5, first), (5, second), (9, third)]
    assert timers.next() is None


def test_an_alarm_that_is_set_again_rings_once_at_its_new_time() -> None:
    timers = Timers()
    timer = Timer()
    timers.set(timer, 5, ring)
    timers.set(timer, 7, ring)
    assert timers.next() == 7
    assert len(timers) == 1
    assert run(timers, 10) == [(7, timer)]


def test_a_cancelled_alarm_does_not_ring() -> None:
    timers = Timers()
    kept, cancelled = Timer(), Timer()
    timers.set(cancelled, 1, ring)
    timers.set(kept, 2, ring)
    timers.cancel(cancelled)
    timers.cancel(cancelled)
    assert timers.next() == 2
    assert run(timers, 10) == [(2, kept)]
    assert len(timers) == 0


def test_timers_after_the_given_time_stay() -> None:
    timers = Timers()
    timers.set(Timer(), 5, ring)
    assert run(timers, 4) == []
    assert timers.next() == 5


def test_many_cancelled_alarms_leave_no_trace() -> None:
    """The heap must follow what is pending, or a broker with long leases would grow with every ack."""
    timers = Timers()
    kept = Timer()
    timers.set(kept, 1_000_000, ring)
    for at in range(10_000):
        timer = Timer()
        timers.set(timer, at, ring)
        timers.cancel(timer)
    assert len(timers) == 1
    assert len(timers._heap) < 200
    assert run(timers, 1_000_000) == [(1_000_000, kept)]
