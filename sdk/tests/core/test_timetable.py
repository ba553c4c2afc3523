"""Regular jobs come due together, and less often where there are very many clients."""

import random

import pytest
from aiorocketmq._core.timetable import CROWD, Timetable


class Middle(random.Random):
    """No jitter."""

    def random(self) -> float:
        return 0.5


@pytest.fixture
def timetable() -> Timetable[str]:
    return Timetable(Middle())


def test_a_job_is_due_once_until_it_is_planned_again(timetable: Timetable[str]) -> None:
    timetable.plan("beat", 2.0, now=0.5)
    assert timetable.next_deadline() == 2.5
    assert timetable.due(2.4) == []
    assert timetable.due(2.5) == ["beat"]
    assert timetable.due(100.0) == []
    assert timetable.next_deadline() is None


def test_long_periods_end_at_full_seconds_so_that_many_clients_wake_up_together(
    timetable: Timetable[str],
) -> None:
    for number in range(10):
        timetable.plan(f"beat {number}", 10.0, now=number / 20)
    assert timetable.due(10.0) == ["beat 0"]
    assert len(timetable.due(11.0)) == 9


def test_a_crowd_makes_its_calls_less_often_but_never_so_rarely_that_servers_forget_it(
    timetable: Timetable[str],
) -> None:
    pauses = []
    for clients in (1, CROWD, 2 * CROWD, 4 * CROWD, 100 * CROWD):
        timetable.clients = clients
        timetable.plan("beat", 10.0, now=0.0)
        pauses.append(timetable.next_deadline())
        timetable.forget("beat")
    assert pauses == [10.0, 10.0, 20.0, 40.0, 45.0]


def test_the_jobs_of_a_crowd_wake_up_together_every_five_seconds(timetable: Timetable[str]) -> None:
    timetable.clients = 2 * CROWD
    for number in range(10):
        timetable.plan(f"beat {number}", 10.0, now=number / 2)
    assert timetable.due(20.0) == ["beat 0"]
    assert timetable.due(24.0) == []
    assert len(timetable.due(25.0)) == 9


def test_a_forgotten_job_is_not_due_any_more(timetable: Timetable[str]) -> None:
    timetable.plan("beat", 1.0, now=0.0)
    timetable.plan("routes", 2.0, now=0.0)
    timetable.forget("beat")
    timetable.forget("beat")
    assert timetable.due(5.0) == ["routes"]


def test_jobs_that_come_and_go_leave_nothing_behind(timetable: Timetable[str]) -> None:
    for number in range(1000):
        timetable.plan(f"job {number}", 30.0, now=0.0)
        timetable.forget(f"job {number}")
    assert len(timetable) == 0
    assert len(timetable._heap) < 20


def test_a_job_planned_again_is_due_at_its_last_time_only(timetable: Timetable[str]) -> None:
    timetable.plan("beat", 1.0, now=0.0)
    timetable.plan("beat", 3.0, now=0.0)
    assert timetable.due(2.0) == []
    assert timetable.due(3.0) == ["beat"]
