from aiorocketmq._core.renewals import Renewals
from hypothesis import given, strategies as st


def test_a_lease_is_renewed_before_two_thirds_have_passed() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=130.0)

    due_at = renewals.next_deadline()
    assert due_at is not None
    assert 100.0 < due_at < 120.0
    assert renewals.due(100.1) == []
    assert renewals.due(120.0) == ["m"]


def test_a_renewed_lease_is_renewed_again() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
    renewals.due(15.0)

    renewals.renewed("m", ends_at=45.5)
    assert renewals.next_deadline() == 30.5
    assert renewals.due(30.5) == ["m"]


def test_a_lease_is_not_renewed_twice_at_once() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)

    assert renewals.due(15.0) == ["m"]
    assert renewals.due(29.0) == []


def test_nothing_is_renewed_once_settling_began() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
    renewals.discard("m")

    assert renewals.due(20.0) == []
    assert renewals.next_deadline() is None


def test_a_renewal_that_returns_after_settling_began_plans_nothing() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
    renewals.due(15.0)
    renewals.discard("m")

    renewals.renewed("m", ends_at=45.1)
    assert len(renewals) == 0


def test_a_failed_renewal_is_tried_again_while_the_lease_lasts() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
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
    renewals.add("m", ends_at=30.0)
    renewals.due(15.0)
    renewals.failed("m", now=15.0)

    assert renewals.due(18.0) == ["m"]
    renewals.renewed("m", ends_at=48.0)
    assert renewals.next_deadline() == 33.0


def test_a_lost_lease_is_forgotten() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
    renewals.due(15.0)
    renewals.discard("m")

    assert len(renewals) == 0


def test_a_lease_that_began_earlier_than_others_is_due_before_them() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("late", ends_at=130.0)
    renewals.add("early", ends_at=120.0)
    assert renewals.next_deadline() == 105.0
    assert renewals.due(105.0) == ["early"]


def test_what_was_released_after_a_failure_is_not_due() -> None:
    renewals = Renewals[str](30.0)
    renewals.add("m", ends_at=30.0)
    renewals.due(15.0)
    renewals.failed("m", now=15.0)
    renewals.discard("m")
    renewals.add("m", ends_at=40.0)
    assert renewals.next_deadline() == 25.0
    assert renewals.due(18.0) == []


LEASE = 30.0


@given(data=st.data())
def test_no_renewal_is_planned_later_than_promised(data: st.DataObject) -> None:
    """A lease is due before two thirds of it have passed, a failed one a tenth of a lease later, no other at all.

    Deliveries whose leases began up to a third of a lease ago, renewals that take a while, failures and releases
    come in any order; time goes from deadline to deadline."""
    renewals = Renewals[int](LEASE)
    now = 100.0
    promised: dict[int, float] = {}
    ends: dict[int, float] = {}
    in_flight: dict[int, float] = {}

    def pass_to(instant: float) -> None:
        nonlocal now
        while (deadline := renewals.next_deadline()) is not None and deadline <= instant:
            now = max(now, deadline)
            due = renewals.due(now)
            assert due
            for key in due:
                assert now <= promised.pop(key) + 1e-6
                in_flight[key] = now
        now = max(now, instant)
        assert all(promise >= now - 1e-6 for promise in promised.values())

    for key in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["hold", "hold", "pass", "renewed", "failed", "release"])):
            case "hold":
                ends[key] = now + LEASE - data.draw(st.floats(0, LEASE / 3))
                promised[key] = ends[key] - LEASE / 3
                renewals.add(key, ends_at=ends[key])
            case "pass":
                pass_to(now + data.draw(st.floats(0, LEASE)))
            case "renewed" if in_flight:
                other = data.draw(st.sampled_from(sorted(in_flight)))
                ends[other] = in_flight.pop(other) + LEASE
                # It took effect when it was sent; an answer that took longer than promised is due at once.
                promised[other] = max(ends[other] - LEASE / 3, now)
                renewals.renewed(other, ends_at=ends[other])
            case "failed" if in_flight:
                other = data.draw(st.sampled_from(sorted(in_flight)))
                del in_flight[other]
                is_planned = renewals.failed(other, now=now)
                assert is_planned == (now + LEASE / 10 < ends[other])
                if is_planned:
                    promised[other] = now + LEASE / 10
            case "release" if ends:
                other = data.draw(st.sampled_from(sorted(ends)))
                renewals.discard(other)
                promised.pop(other, None)
                in_flight.pop(other, None)
            case _:
                pass
        assert len(renewals) == len(promised) + len(in_flight)
        assert set(renewals.in_flight) == set(in_flight)
    pass_to(now + 2 * LEASE)
    assert promised == {}


def test_leases_that_each_end_a_little_earlier_are_renewed_in_time() -> None:
    plan = Renewals[str](100.0)
    for key, ends_at in (("a", 100.0), ("b", 91.0), ("c", 82.0)):
        plan.add(key, ends_at=ends_at)
    assert plan.next_deadline() == 32.0
    assert plan.due(32.0) == ["c"]


def test_an_earlier_schedule_of_a_lease_does_not_count_for_its_later_one() -> None:
    plan = Renewals[str](100.0)
    plan.add("b", ends_at=90.0)
    assert plan.due(40.0) == ["b"]
    plan.renewed("b", ends_at=140.0)  # due at 90, before the outdated schedule
    for now in (50.0, 80.0):
        plan.add("a", ends_at=now + 50.0)
        assert plan.due(now) == ["a"]
        plan.renewed("a", ends_at=now + 100.0)
        if now == 50.0:
            plan.discard("a")
    assert plan.due(129.0) == ["b"]
    assert plan.due(130.0) == ["a"]
