"""Which sends are tried again, and when."""

from random import Random

from aiorocketmq._core.retries import Outage, exponential, jittered, renewal_delay, send_delay, start_delay
from aiorocketmq._core.settings import Backoff
from hypothesis import given, strategies as st

SERVERS = Backoff(max_attempts=3, initial=0.01, maximum=1.0, multiplier=2.0)
SILENT = Backoff(max_attempts=3)


def delay(
    attempt: int,
    *,
    throttled: bool = False,
    can_switch: bool = False,
    remaining: float = 10.0,
    server: Backoff = SERVERS,
    seed: int = 1,
) -> float | None:
    return send_delay(
        attempt=attempt,
        throttled=throttled,
        can_switch=can_switch,
        initial=0.1,
        maximum=2.0,
        remaining=remaining,
        server=server,
        random=Random(seed),
    )


def test_no_attempt_begins_after_the_budget() -> None:
    for throttled in (True, False):
        assert delay(1, throttled=throttled, can_switch=True, remaining=0.0) is None


def test_another_broker_is_tried_at_once_and_then_with_pauses() -> None:
    assert delay(1, can_switch=True) == 0.0
    second = delay(2, can_switch=True)
    assert second is not None
    assert 0.15 <= second <= 0.2


@given(st.integers(min_value=1, max_value=10), st.integers())
def test_a_throttling_server_gets_the_wait_of_the_next_attempt(attempt: int, seed: int) -> None:
    """20 and 40 ms with the numbers that Apache's proxy sends (client-behaviour.md, 9.3), never less."""
    pause = min(0.01 * 2**attempt, 1.0)
    waited = delay(attempt, throttled=True, can_switch=True, seed=seed)
    assert waited is not None
    assert pause <= waited <= 1.25 * pause


def test_a_throttling_server_that_names_no_wait_gets_ours() -> None:
    waited = delay(1, throttled=True, server=SILENT)
    assert waited is not None
    assert 0.075 <= waited <= 0.1


def test_a_servers_wait_beyond_the_budget_makes_the_error_final() -> None:
    slow = Backoff(max_attempts=3, steps=(3600.0,))
    assert delay(1, throttled=True, server=slow) is None


@given(st.integers(min_value=1, max_value=10**6), st.floats(min_value=1e-6, max_value=60.0), st.integers())
def test_own_waits_fit_into_the_budget(attempt: int, remaining: float, seed: int) -> None:
    waited = delay(attempt, remaining=remaining, seed=seed)
    assert waited is not None
    assert 0.0 < waited <= min(remaining, 2.0)


@given(
    st.integers(min_value=0, max_value=10**6),
    st.floats(min_value=0.001, max_value=10.0),
    st.floats(min_value=1.0, max_value=1000.0),
    st.integers(),
)
def test_waits_double_to_a_bound_and_are_spread(
    failures: int, initial: float, factor: float, seed: int
) -> None:
    maximum = initial * factor
    full = min(initial * 2.0 ** min(max(failures - 1, 0), 64), maximum)
    waited = exponential(failures, initial=initial, maximum=maximum, random=Random(seed))
    assert 0.75 * full <= waited <= full


@given(st.integers(min_value=1, max_value=200), st.integers())
def test_streams_and_starts_share_the_back_off(failures: int, seed: int) -> None:
    assert 0.75 <= renewal_delay(failures, Random(seed)) <= 2.0
    assert 0.075 <= start_delay(failures, Random(seed)) <= 1.0


@given(st.lists(st.floats(min_value=0.0, max_value=5.0), max_size=30), st.integers())
def test_an_outage_is_probed_by_its_schedule(pauses: list[float], seed: int) -> None:
    """However late an attempt begins, the next one is at most `maximum` away, and not at once."""
    outage = Outage(now=100.0, initial=0.1, maximum=2.0, random=Random(seed))
    assert outage.since == 100.0
    for number, pause in enumerate(pauses, 1):
        assert outage.attempts == number
        now = outage.next_attempt + pause
        outage.attempted(now=now)
        assert 0.075 <= outage.next_attempt - now <= 2.0


@given(st.floats(min_value=0.001, max_value=1000), st.integers())
def test_jitter_stays_within_its_spread(seconds: float, seed: int) -> None:
    assert 0.8 * seconds <= jittered(seconds, Random(seed)) <= 1.2 * seconds * 1.000001
