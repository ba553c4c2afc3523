"""Settings: what servers say, laid over what was in force."""

import pytest
from aiorocketmq._core.settings import Answer, Backoff, Declaration, FilterText, ServerSettings

STEPS = Backoff(max_attempts=17, steps=(1.0, 5.0, 10.0))
FORMULA = Backoff(max_attempts=3, initial=0.01, maximum=1.0, multiplier=2.0)


def test_a_table_of_waits_repeats_its_last_step() -> None:
    assert [STEPS.delay(attempt) for attempt in (1, 2, 3, 4, 100)] == [1.0, 5.0, 10.0, 10.0, 10.0]


def test_a_formula_of_waits_grows_to_its_maximum() -> None:
    assert [FORMULA.delay(attempt) for attempt in (1, 2, 3)] == pytest.approx([0.01, 0.02, 0.04])
    assert FORMULA.delay(10_000) == 1.0


@pytest.mark.parametrize("attempt", [0, -1, -(2**31)])
def test_an_attempt_below_one_waits_like_the_first(attempt: int) -> None:
    assert STEPS.delay(attempt) == STEPS.delay(1)
    assert FORMULA.delay(attempt) == FORMULA.delay(1)


def test_an_answer_replaces_what_it_says_and_leaves_the_rest() -> None:
    before = ServerSettings(max_body=100, receive_batch=16)
    after = before.merged(Answer(ordered=True, long_polling=15.0, backoff=STEPS))
    assert after == ServerSettings(
        max_body=100, receive_batch=16, ordered=True, long_polling=15.0, backoff=STEPS
    )


def test_a_body_limit_of_zero_does_not_forbid_every_message() -> None:
    assert ServerSettings().merged(Answer(max_body=0)).max_body == 4 * 1024 * 1024


def test_a_group_can_stop_being_ordered() -> None:
    assert ServerSettings(ordered=True).merged(Answer(ordered=False)).ordered is False


def test_a_server_can_stop_checking_types_of_messages() -> None:
    after = ServerSettings().merged(Answer(validate_message_type=False))
    assert after.validate_message_type is False
    assert after.merged(Answer()).validate_message_type is False


def test_a_producer_takes_the_waits_and_keeps_its_own_number_of_attempts() -> None:
    after = ServerSettings().merged(Answer(backoff=FORMULA), own_attempts=5)
    assert (after.backoff.max_attempts, after.backoff.multiplier) == (5, 2.0)


def test_the_topics_of_a_client_are_those_it_sends_to_or_subscribes() -> None:
    producer = Declaration(client_type="PRODUCER", topics=("a", "b"))
    consumer = Declaration(client_type="SIMPLE_CONSUMER", group="g", subscriptions={"c": FilterText()})
    assert (producer.all_topics, consumer.all_topics) == (("a", "b"), ("c",))
