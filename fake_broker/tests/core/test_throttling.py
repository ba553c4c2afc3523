"""Rates of calls that are let through (13.1)."""

import random

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import Refused
from aiorocketmq_fake.core.values.model import TopicConfig
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED


def limited(profile: Profile = DOCUMENTED, **rates: float) -> Broker:
    broker = Broker(profile, now=0.0, rng=random.Random(0))
    broker.create_topic(TopicConfig("t"), now=0.0)
    for rpc, rate in rates.items():
        broker.throttle.limit(rpc, rate)
    broker.take_events()
    return broker


def let_through(broker: Broker, calls: int, now: float) -> int:
    """How many of so many calls at one instant are not refused for their number."""
    count = 0
    for _ in range(calls):
        try:
            broker.query_route("t", now=now)
        except Refusal as refused:
            assert refused.code is Code.TOO_MANY_REQUESTS  # noqa: PT017  # every other refusal is a mistake here
        else:
            count += 1
    return count


def test_a_second_s_calls_may_come_at_once_and_then_as_fast_as_the_rate() -> None:
    broker = limited(QueryRoute=10)
    assert let_through(broker, 50, now=0.0) == 10
    assert let_through(broker, 50, now=0.05) == 0
    assert let_through(broker, 50, now=0.25) == 2
    assert let_through(broker, 50, now=100.0) == 10


def test_a_rate_below_one_lets_one_call_through_now_and_then() -> None:
    broker = limited(QueryRoute=0.5)
    assert [let_through(broker, 3, now=second) for second in (0.0, 1.0, 2.0, 3.0, 4.0)] == [1, 0, 1, 0, 1]


def test_zero_lets_nothing_through_and_none_everything() -> None:
    broker = limited(QueryRoute=0)
    assert let_through(broker, 5, now=1000.0) == 0
    broker.throttle.limit("QueryRoute", None)
    assert let_through(broker, 5, now=1000.0) == 5
    assert broker.throttle.rates == {}


def test_one_rpc_s_rate_is_nothing_to_the_others() -> None:
    broker = limited(SendMessage=0)
    assert let_through(broker, 5, now=0.0) == 5


@pytest.mark.parametrize(
    ("profile", "code"),
    [
        (DOCUMENTED, Code.TOO_MANY_REQUESTS),
        (APACHE_5_5, Code.INTERNAL_SERVER_ERROR),
        (APACHE_5_5_CLUSTER, Code.TOO_MANY_REQUESTS),
    ],
)
def test_a_busy_store_has_the_profiles_code(profile: Profile, code: Code) -> None:
    broker = limited(profile, SendMessage=0)
    with pytest.raises(Refusal) as refused:
        broker.send((), now=0.0)
    assert refused.value.code is code


def test_a_refusal_is_an_event() -> None:
    broker = limited(QueryRoute=0)
    let_through(broker, 1, now=0.0)
    (event,) = broker.take_events()
    assert isinstance(event, Refused)
    assert (event.command, event.code) == ("QueryRoute", Code.TOO_MANY_REQUESTS)


@pytest.mark.parametrize(
    ("rpc", "rate"), [("Nothing", 1.0), ("SendMessage", -1.0), ("SendMessage", float("nan"))]
)
def test_a_rate_that_cannot_be_is_refused(rpc: str, rate: float) -> None:
    with pytest.raises(ValueError, match=r"must be one of|must be 0 or more"):
        limited().throttle.limit(rpc, rate)
