"""What a redrive makes of dead letters: which are meant, where each goes, and where it stops."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiorocketmq import DeadLetterFilter, MessageQueue, Redriven
from aiorocketmq._core.names import check_group
from aiorocketmq._core.remoting.records import Record, masked_crc
from aiorocketmq._remoting.messages import received
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.redrive import _prepared, progress_group

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
FIRST = "DLQ_ORIGIN_TOPIC\x01orders"


def letter(offset: int = 0, text: str = FIRST, **changes: Any) -> ReceivedMessage:
    """A dead letter of group `billing`, stored at MOMENT."""
    body = b"%d" % offset
    record = Record(
        0, offset, "%DLQ%billing", body, f"UNIQ_KEY\x01M{offset}\x02{text}", stored_ms=1_700_000_000_000,
        crc=masked_crc(body),
    )._replace(**changes)  # fmt: skip
    return received(record, MessageQueue("%DLQ%billing", "broker-a", 0), "g", 1000)[0]


def prepared(
    *letters: ReceivedMessage,
    done: Redriven | None = None,
    to: str | None = None,
    chosen: DeadLetterFilter | None = None,
    room: int | None = None,
) -> tuple[list[tuple[Message, str]], Redriven, int | None]:
    chosen = chosen or DeadLetterFilter()
    return _prepared(letters, done or Redriven(), group="billing", to=to, chosen=chosen, room=room)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("DLQ_ORIGIN_TOPIC\x01orders", "orders"),
        ("RETRY_TOPIC\x01orders", "orders"),
        ("RETRY_TOPIC\x01older\x02DLQ_ORIGIN_TOPIC\x01orders", "orders"),
        ("DLQ_ORIGIN_TOPIC\x01%RETRY%billing_orders", "orders"),
        ("DLQ_ORIGIN_TOPIC\x01%RETRY%billing+orders", "orders"),
        ("RETRY_TOPIC\x01%RETRY%billing_my_orders", "my_orders"),
    ],
)
def test_a_dead_letter_goes_to_the_topic_that_it_was_sent_to_first(text: str, topic: str) -> None:
    ((message, message_id),), done, _ = prepared(letter(4, text))
    assert (message.topic, message_id, done.sent) == (topic, "M4", {topic: 1})


@pytest.mark.parametrize(
    "text", ["", "DLQ_ORIGIN_TOPIC\x01%RETRY%other_orders", "RETRY_TOPIC\x01%RETRY%billing"]
)
def test_a_dead_letter_of_unknown_origin_needs_a_topic(text: str) -> None:
    with pytest.raises(UsageError, match="M4 does not name the topic it came from"):
        prepared(letter(4, text))
    ((message, _),), done, _ = prepared(letter(4, text), to="refunds")
    assert (message.topic, done.sent) == ("refunds", {"refunds": 1})


def test_a_topic_for_all_replaces_the_origin_and_is_counted() -> None:
    ((message, _),), done, _ = prepared(letter(4), to="refunds")
    assert (message.topic, done.sent) == ("refunds", {"refunds": 1})


def test_a_message_is_sent_as_it_was_without_its_delay() -> None:
    text = f"{FIRST}\x02TAGS\x01paid\x02KEYS\x01a b\x02__SHARDINGKEY\x01g\x02color\x01red\x02DELAY\x014"
    ((message, _),), _, _ = prepared(letter(4, text))
    assert message == Message(
        "orders", b"4", tag="paid", keys=["a", "b"], properties={"color": "red"}, message_group="g"
    )


@pytest.mark.parametrize(("more", "priority"), [("", 3), ("\x02__SHARDINGKEY\x01g", None)])
def test_a_priority_stays_unless_the_message_is_ordered(more: str, priority: int | None) -> None:
    """Brokers before 5.4 may have stored both; a message group is the stronger promise."""
    ((message, _),), _, _ = prepared(letter(4, f"{FIRST}\x02_SYS_MSG_PRIORITY_\x013{more}"))
    assert (message.priority, message.properties) == (priority, {})


def test_what_is_full_stops_at_the_next_letter_which_is_not_counted() -> None:
    before = Redriven(read=7, sent={"orders": 1, "refunds": 2}, filtered=3, unusable=("M0",))
    letters = [letter(10), letter(12, f"{FIRST}\x02TAGS\x01a"), letter(13), letter(17)]
    messages, done, stopped_at = prepared(*letters, done=before, room=2)
    assert [message.body for message, _ in messages] == [b"10", b"12"]
    assert (done, stopped_at) == (replace(before, read=9, sent={"orders": 3, "refunds": 2}), 13)
    assert before.sent == {"orders": 1, "refunds": 2}
    assert prepared(*letters, room=4)[2] is None


def test_what_is_filtered_out_or_unusable_takes_no_room(caplog: pytest.LogCaptureFixture) -> None:
    letters = [
        letter(1),
        letter(2, f"{FIRST}\x02TAGS\x01a", crc=1),
        letter(3, f"{FIRST}\x02TAGS\x01a"),
        letter(4),
    ]
    messages, done, stopped_at = prepared(*letters, chosen=DeadLetterFilter(tag="a"), room=1)
    assert [message.body for message, _ in messages] == [b"3"]
    assert (done, stopped_at) == (Redriven(read=3, sent={"orders": 1}, filtered=1, unusable=("M2",)), 4)
    assert "dead letter M2 cannot be sent and stays: its body is damaged" in caplog.text


@pytest.mark.parametrize(
    ("chosen", "matches"),
    [
        (DeadLetterFilter(since=MOMENT), True),
        (DeadLetterFilter(since=MOMENT + timedelta(milliseconds=1)), False),
        (DeadLetterFilter(until=MOMENT), False),
        (DeadLetterFilter(until=MOMENT + timedelta(milliseconds=1)), True),
        (DeadLetterFilter(topic="orders"), True),
        (DeadLetterFilter(topic="%DLQ%billing"), False),
        (DeadLetterFilter(key="b"), True),
        (DeadLetterFilter(key="a b"), False),
        (DeadLetterFilter(tag="paid", key="c"), False),
        (DeadLetterFilter(tag="open", key="a"), False),
    ],
)
def test_a_filter_leaves_out_what_does_not_fit_all_of_it(chosen: DeadLetterFilter, matches: bool) -> None:
    of_two_keys = letter(1, f"{FIRST}\x02TAGS\x01paid\x02KEYS\x01a b")
    messages, done, _ = prepared(of_two_keys, chosen=chosen)
    assert (bool(messages), done.read, done.filtered) == (matches, 1, int(not matches))


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_bound_in_time_has_a_zone_and_leaves_out_letters_of_unknown_time(bound: str) -> None:
    naive: dict[str, Any] = {bound: MOMENT.replace(tzinfo=None)}
    aware: dict[str, Any] = {bound: MOMENT}
    with pytest.raises(ValueError, match=f"{bound} must have a time zone"):
        DeadLetterFilter(**naive)
    messages, done, _ = prepared(letter(stored_ms=2**63 - 1), chosen=DeadLetterFilter(**aware))
    assert (messages, done.filtered) == ([], 1)


def test_the_progress_of_a_filter_is_found_again_by_later_releases() -> None:
    assert progress_group("billing", DeadLetterFilter()) == "redrive-billing"
    names = {
        progress_group("billing", each) for each in (DeadLetterFilter(tag="a"), DeadLetterFilter(key="a"))
    }
    assert len(names) == 2
    assert progress_group("billing", DeadLetterFilter(tag="a")) == "redrive-billing-6b5df277"


def test_the_progress_of_a_group_with_the_longest_name_has_a_group_of_its_own() -> None:
    filters = DeadLetterFilter(), DeadLetterFilter(tag="a"), DeadLetterFilter(key="a")
    names = {progress_group(group, each) for group in ("a" * 120, "b" * 120) for each in filters}
    assert len(names) == 6
    for name in (*names, progress_group("a" * 112, DeadLetterFilter())):
        check_group(name)
    assert progress_group("a" * 112, DeadLetterFilter()) == f"redrive-{'a' * 112}"
