import pytest
from aiorocketmq._core.assignment import AssignmentChange, assignment_change, retry_topic_refusal


def test_new_queues_are_taken_up_and_missing_ones_dropped() -> None:
    assert assignment_change(held=["a", "b"], assigned=["b", "c"]) == AssignmentChange(("c",), ("a",))


def test_the_same_answer_changes_nothing() -> None:
    assert assignment_change(held=["a"], assigned=["a", "a"]) == AssignmentChange((), ())


def test_an_empty_answer_drops_all() -> None:
    assert assignment_change(held=["a", "b"], assigned=[]) == AssignmentChange((), ("a", "b"))


def test_a_retry_topic_is_refused_with_the_reason() -> None:
    refusal = retry_topic_refusal("%RETRY%billing_orders")
    assert refusal is not None
    assert "stops the redelivery of every group" in refusal


@pytest.mark.parametrize("topic", ["orders", "%DLQ%billing"])
def test_ordinary_and_dead_letter_topics_may_be_consumed(topic: str) -> None:
    assert retry_topic_refusal(topic) is None
