"""What a consumer may subscribe to."""

import pytest
from aiorocketmq.subscription import Sql, Tags, dead_letters, filter_of, subscriptions_by_topic


def test_topics_alone_mean_everything() -> None:
    assert subscriptions_by_topic(["a", "b"]) == {"a": Tags("*"), "b": Tags("*")}


def test_text_is_a_tag_expression_and_sql_is_itself() -> None:
    assert subscriptions_by_topic({"a": " x || y ", "b": Sql("n > 1"), "c": ""}) == {
        "a": Tags("x || y"),
        "b": Sql("n > 1"),
        "c": Tags("*"),
    }


def test_a_topic_given_as_text_is_not_taken_apart_into_letters() -> None:
    with pytest.raises(TypeError, match=r"write \['orders'\]"):
        subscriptions_by_topic("orders")


@pytest.mark.parametrize("topic", ["", "a b", "%RETRY%billing"])
def test_a_bad_topic_is_refused(topic: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        filter_of(topic)


def test_reading_redeliveries_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="can stop redelivery for every group"):
        subscriptions_by_topic(["%RETRY%billing_orders"])
    assert filter_of("%DLQ%billing") == Tags("*")


@pytest.mark.parametrize("bad", ["||", " || || "])
def test_a_tag_expression_names_a_tag(bad: str) -> None:
    with pytest.raises(ValueError, match="names no tag"):
        filter_of("t", bad)


def test_an_sql_expression_is_not_blank() -> None:
    with pytest.raises(ValueError, match="must not be blank"):
        Sql("  ")


def test_dead_letters_are_those_of_a_group() -> None:
    assert dead_letters("billing") == "%DLQ%billing"
    for group in ("", "a b", "g" * 121):
        with pytest.raises(ValueError, match="group"):
            dead_letters(group)
