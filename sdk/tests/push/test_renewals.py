from aiorocketmq._core.renewals import Renewals
from hypothesis import given, strategies as st


def test_a_lease_is_renewed_before_two_thirds_have_passed() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=100.0)

    assert renewals.next_deadline() is not None
    assert 100.0 < renewals.next_deadline() < 120.0
    assert renewals.due(100.1) == []
    assert renewals.due(120.0) == ["m"]


def test_a_renewed_lease_is_renewed_again() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    renewals.due(15.0)

    renewals.renewed("m", now=15.5)
    assert renewals.next_deadline() == 30.5
    assert renewals.due(30.5) == ["m"]


def test_a_lease_is_not_renewed_twice_at_once() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)

    assert renewals.due(15.0) == ["m"]
    assert renewals.due(29.0) == []


def test_nothing_is_renewed_once_settling_began() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    renewals.release("m")

    assert renewals.due(20.0) == []
    assert renewals.next_deadline() is None


def test_a_renewal_that_returns_after_settling_began_plans_nothing() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    renewals.due(15.0)
    renewals.release("m")

    renewals.renewed("m", now=15.1)
    assert len(renewals) == 0


def test_a_failed_renewal_is_tried_again_while_the_lease_lasts() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    tries = 0
    now = 15.0
    while renewals.due(now):
        tries += 1
        if not renewals.failed("m", now=now):
            break
        now = renewals.next_deadline() or 0.0

    assert tries == 5
    assert now < 30.0
    assert len(renewals) == 0


def test_a_retry_that_succeeds_plans_on() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    renewals.due(15.0)
    renewals.failed("m", now=15.0)

    assert renewals.due(18.0) == ["m"]
    renewals.renewed("m", now=18.0)
    assert renewals.next_deadline() == 33.0


def test_a_lost_lease_is_forgotten() -> None:
    renewals = Renewals[str](30.0)
    renewals.hold("m", now=0.0)
    renewals.due(15.0)
    renewals.release("m")

    assert len(renewals) == 0


@given(
    gaps=st.lists(st.floats(0, 40), min_size=1, max_size=40),
    releases=st.sets(st.integers(0, 39)),
)
def test_every_lease_in_hand_is_renewed_in_time_and_no_other(gaps: list[float], releases: set[int]) -> None:
    renewals = Renewals[int](30.0)
    now = 0.0
    held: dict[int, float] = {}
    for key, gap in enumerate(gaps):
        arrival = now + gap
        while (deadline := renewals.next_deadline()) is not None and deadline <= arrival:
            for due in renewals.due(deadline):
                assert deadline - held[due] <= 20.0
                held[due] = deadline
                renewals.renewed(due, now=deadline)
        now = arrival
        renewals.hold(key, now=now)
        held[key] = now
        if key in releases:
            renewals.release(key)
            del held[key]
    assert len(renewals) == len(held)
