"""The agenda of alarms."""

from aiorocketmq_fake.core.records.timers import Agenda, Alarm


def ring(alarm: Alarm) -> None:
    """Do nothing: these tests call no action."""


def run(agenda: Agenda, until: int) -> list[tuple[int, Alarm]]:
    due = []
    while (entry := agenda.pop_due(until)) is not None:
        due.append(entry[:2])
    return due


def test_alarms_come_in_order_of_time_and_then_in_the_order_they_were_set() -> None:
    agenda = Agenda()
    first, second, third = Alarm(), Alarm(), Alarm()
    agenda.set(third, 9, ring)
    agenda.set(first, 5, ring)
    agenda.set(second, 5, ring)
    assert run(agenda, 9) == [(5, first), (5, second), (9, third)]
    assert agenda.next() is None


def test_an_alarm_that_is_set_again_rings_once_at_its_new_time() -> None:
    agenda = Agenda()
    alarm = Alarm()
    agenda.set(alarm, 5, ring)
    agenda.set(alarm, 7, ring)
    assert agenda.next() == 7
    assert len(agenda) == 1
    assert run(agenda, 10) == [(7, alarm)]


def test_a_cancelled_alarm_does_not_ring() -> None:
    agenda = Agenda()
    kept, cancelled = Alarm(), Alarm()
    agenda.set(cancelled, 1, ring)
    agenda.set(kept, 2, ring)
    agenda.cancel(cancelled)
    agenda.cancel(cancelled)
    assert agenda.next() == 2
    assert run(agenda, 10) == [(2, kept)]
    assert len(agenda) == 0


def test_alarms_later_than_asked_for_stay() -> None:
    agenda = Agenda()
    agenda.set(Alarm(), 5, ring)
    assert run(agenda, 4) == []
    assert agenda.next() == 5


def test_many_cancelled_alarms_leave_no_trace() -> None:
    """The heap must follow what is pending, or a broker with long leases would grow with every ack."""
    agenda = Agenda()
    kept = Alarm()
    agenda.set(kept, 1_000_000, ring)
    for at in range(10_000):
        alarm = Alarm()
        agenda.set(alarm, at, ring)
        agenda.cancel(alarm)
    assert len(agenda) == 1
    assert len(agenda._heap) < 200
    assert run(agenda, 1_000_000) == [(1_000_000, kept)]
