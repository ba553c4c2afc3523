import pytest
from aiorocketmq._core.outcomes import (
    Acknowledge,
    DeadLetter,
    ForwardToDeadLetters,
    Release,
    RetryLater,
    RetryLocally,
    outcome_of,
    outcome_of_corrupted,
)
from aiorocketmq._core.settings import Backoff

LADDER = Backoff(max_attempts=3, steps=(1.0, 5.0, 10.0))


@pytest.mark.parametrize("ordered", [False, True])
def test_returning_is_success(ordered: bool) -> None:
    assert outcome_of(None, ordered=ordered, attempt=1, backoff=LADDER) == Acknowledge()


@pytest.mark.parametrize(("attempt", "delay"), [(1, 1.0), (2, 5.0), (3, 10.0), (9, 10.0)])
def test_a_normal_group_gives_a_failed_message_back_by_its_ladder(attempt: int, delay: float) -> None:
    assert outcome_of(ValueError(), ordered=False, attempt=attempt, backoff=LADDER) == Release(delay)


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_handler_may_choose_the_wait(seconds: float) -> None:
    failure = RetryLater(seconds)
    assert outcome_of(failure, ordered=False, attempt=1, backoff=LADDER) == Release(seconds)
    assert outcome_of(failure, ordered=True, attempt=1, backoff=LADDER) == RetryLocally(seconds)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("seconds", "delay"), [(30, 30.0), (0.05, 0.05), (0, 0.05)])
def test_a_handler_of_a_lite_topic_may_suspend_it(seconds: float, delay: float, ordered: bool) -> None:
    outcome = outcome_of(RetryLater(seconds), ordered=ordered, attempt=9, backoff=LADDER, lite=True)
    assert outcome == Release(delay, suspend=True)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_handler_may_give_up_at_once(ordered: bool) -> None:
    outcome = outcome_of(DeadLetter("bad order"), ordered=ordered, attempt=1, backoff=LADDER)
    assert outcome == ForwardToDeadLetters("bad order")


def test_an_ordered_group_runs_a_failed_message_again_in_place() -> None:
    assert outcome_of(ValueError(), ordered=True, attempt=2, backoff=LADDER) == RetryLocally(5.0)


@pytest.mark.parametrize("failure", [ValueError("no"), RetryLater(5)])
def test_an_ordered_group_forwards_after_the_last_attempt(failure: Exception) -> None:
    outcome = outcome_of(failure, ordered=True, attempt=3, backoff=LADDER)
    assert isinstance(outcome, ForwardToDeadLetters)
    assert "attempt 3 of 3" in outcome.reason


def test_a_corrupted_message_is_given_back_or_in_an_ordered_group_forwarded() -> None:
    assert outcome_of_corrupted("digest", ordered=False, attempt=2, backoff=LADDER) == Release(5.0)
    assert outcome_of_corrupted("digest", ordered=True, attempt=2, backoff=LADDER) == ForwardToDeadLetters(
        "digest"
    )


@pytest.mark.parametrize("seconds", [-1, 43_201, float("nan")])
def test_a_wait_outside_of_what_servers_grant_is_refused_where_it_is_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="0 to 43200 seconds"):
        RetryLater(seconds)
