"""Which sends are tried again, and when."""

from random import Random

import pytest
from aiorocketmq._core.retries import jittered, renewal_delay, send_delay, start_delay
from aiorocketmq._core.settings import Backoff
from hypothesis import given, strategies as st

SERVERS = Backoff(max_attempts=3, initial=0.01, maximum=1.0, multiplier=2.0)


def delay(
    attempt: int, *, may_retry: bool = True, throttled: bool = False, unreachable: bool = False
) -> float | None:
    return send_delay(
        attempt=attempt,
        may_retry=may_retry,
        throttled=throttled,
        unreachable=unreachable,
        backoff=SERVERS,
        random=Random(1),
    )


def test_what_cannot_succeed_is_not_tried_again() -> None:
    assert delay(1, may_retry=False) is None


def test_the_last_attempt_is_the_last() -> None:
    assert delay(2) == 0.0
    assert delay(3) is None


def test_a_throttling_server_gets_the_wait_of_the_next_attempt() -> None:
    """20 and 40 ms with the numbers that Apache's proxy sends (client-behaviour.md, 9.3)."""
    assert delay(1, throttled=True) == pytest.approx(0.02)
    assert delay(2, throttled=True) == pytest.approx(0.04)


def test_a_broken_connection_gets_a_short_pause_that_grows() -> None:
    first, second = delay(1, unreachable=True), delay(2, unreachable=True)
    assert first is not None
    assert second is not None
    assert 0.03 < first < 0.07 < second < 0.13


@given(st.integers(min_value=1, max_value=200), st.integers())
def test_pauses_grow_to_a_bound_and_are_spread(failures: int, seed: int) -> None:
    assert 0.8 <= renewal_delay(failures, Random(seed)) <= 36.0
    assert 0.08 <= start_delay(failures, Random(seed)) <= 1.2


@given(st.floats(min_value=0.001, max_value=1000), st.integers())
def test_jitter_stays_within_its_spread(seconds: float, seed: int) -> None:
    assert 0.8 * seconds <= jittered(seconds, Random(seed)) <= 1.2 * seconds * 1.000001
