"""Priorities: larger numbers first, and redeliveries last (4.10)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, TopicType


@pytest.fixture
def ranked(make_desk: Any) -> Any:
    """A PRIORITY topic of eight queues, in each profile."""
    return make_desk(type=TopicType.PRIORITY, queues=8)


def test_larger_numbers_come_first(ranked: Any) -> None:
    """Session §7.1: 24 messages of shuffled priority, batch 1 and batch 32."""
    levels = [3, 0, 7, 5, 1, 6, 2, 4] * 3
    for number, level in enumerate(levels):
        ranked.send(f"{level}-{number}", priority=level)
    ids = [ranked.ids(1)[0] for _ in range(12)] + ranked.ids(32)
    assert [int(name.partition("-")[0]) for name in ids] == sorted(levels, reverse=True)


@pytest.mark.parametrize(("priority", "queue"), [(0, 0), (6, 6), (7, 7), (100, 7), (2**31 - 1, 7)])
def test_a_priority_chooses_its_queue_and_is_kept(ranked: Any, priority: int, queue: int) -> None:
    """R4.28: the highest queue takes all that is above it."""
    ranked.send("m", priority=priority)
    delivery = ranked.one()
    assert (delivery.queue_id, delivery.message.content.priority) == (queue, priority)
    assert delivery.message.message_type is MessageType.PRIORITY


def test_a_negative_priority_is_refused(ranked: Any) -> None:
    with pytest.raises(Refusal) as refused:
        ranked.send("m", priority=-1)
    assert refused.value.code is ranked.profile.store_refusal_code


def test_a_priority_topic_takes_nothing_else(ranked: Any) -> None:
    with pytest.raises(Refusal) as refused:
        ranked.send("m")
    assert refused.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_redeliveries_come_after_fresh_messages_of_any_level(ranked: Any) -> None:
    """R4.29: the retry topic is tried last, and has one queue for all levels."""
    for level in (7, 2):
        ranked.send(f"old-{level}", priority=level)
        ranked.change(ranked.one(), 0.0)
        ranked.wait(ranked.profile.revive_latency)
    ranked.send("fresh", priority=0)
    assert [ranked.ids(1) for _ in range(3)] == [["fresh"], ["old-7"], ["old-2"]]


def test_without_a_backlog_messages_come_as_they_are_sent(ranked: Any) -> None:
    poll_id = ranked.park(1)
    ranked.send("low", priority=0)
    assert [one.message.content.message_id for one in ranked.answers()[poll_id].deliveries] == ["low"]
    ranked.send("high", priority=7)
    assert ranked.ids() == ["high"]
