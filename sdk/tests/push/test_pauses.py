import random

import pytest
from aiorocketmq._core.pauses import FREE_ANSWERS, failure_pause, idle_pause, poll_length, scan_pause


class Most(random.Random):
    """No jitter."""

    def random(self) -> float:
        return 0.0


def test_pauses_double_from_a_fifth_of_a_second_to_two_seconds() -> None:
    pauses = [failure_pause(n, throttled=False, rng=Most()) for n in range(1, 7)]
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


def test_a_throttled_call_is_tried_sooner() -> None:
    assert failure_pause(1, throttled=True, rng=Most()) == pytest.approx(0.02)


def test_a_long_outage_does_not_overflow() -> None:
    assert failure_pause(10**6, throttled=False, rng=Most()) == 2.0


def test_jitter_takes_off_up_to_a_quarter() -> None:
    rng = random.Random(1)
    pauses = [failure_pause(6, throttled=False, rng=rng) for _ in range(200)]
    assert 1.5 <= min(pauses) < max(pauses) <= 2.0


def test_empty_answers_at_once_cause_pauses_after_some() -> None:
    assert {idle_pause(n, rng=Most()) for n in range(FREE_ANSWERS + 1)} == {0.0}
    pauses = [idle_pause(FREE_ANSWERS + n, rng=Most()) for n in range(1, 8)]
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5])


def test_scans_grow_rare_while_nothing_changes() -> None:
    assert [scan_pause(n) for n in (0, 1, 2, 3, 4, 10**6)] == [5.0, 10.0, 20.0, 30.0, 30.0, 30.0]


def test_long_polls_end_together_and_short_ones_are_left_alone() -> None:
    assert [poll_length(20.0, now=now) for now in (100.0, 100.25, 104.75)] == [20.0, 19.75, 15.25]
    assert [poll_length(longest, now=104.0) for longest in (5.0, 9.5, 10.0, 12.0)] == [5.0, 9.5, 6.0, 11.0]
