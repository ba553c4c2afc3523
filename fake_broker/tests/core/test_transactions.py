"""Half messages, commit and rollback (9.1, 9.2)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, Resolution, TopicType
from aiorocketmq_fake.core.values.events import Prepared, Stored, StoredAs, TransactionEnded
from aiorocketmq_fake.core.values.model import EndTransactionRequest, TopicConfig


@pytest.fixture
def half(make_desk: Any) -> Any:
    """A TRANSACTION topic with one half message `m`, in each profile."""
    desk = make_desk(type=TopicType.TRANSACTION)
    desk.outcome = desk.send("m", message_type=MessageType.TRANSACTION)
    return desk


def end(desk: Any, resolution: Resolution, transaction_id: str = "m", topic: str = "t") -> Code:
    request = EndTransactionRequest("p", topic, transaction_id, resolution)
    try:
        desk.broker.end_transaction(request, now=desk.now)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


def test_a_half_message_is_hidden(half: Any) -> None:
    assert half.outcome.transaction_id == "m"
    assert half.ids() == []
    (prepared,) = half.seen(Prepared)
    assert prepared.due is None
    assert half.broker.totals().half == 1


def test_a_committed_message_is_delivered_as_transactional(half: Any) -> None:
    """R9.14."""
    poll_id = half.park()
    assert end(half, Resolution.COMMIT) is Code.OK
    (delivery,) = half.answers()[poll_id].deliveries
    assert (delivery.message.message_type, delivery.message.transaction_id) == (MessageType.TRANSACTION, "m")
    assert [event.reason for event in half.seen(Stored)] == [StoredAs.COMMITTED]
    assert half.broker.totals().half == 0


def test_a_rolled_back_message_never_comes(half: Any) -> None:
    assert end(half, Resolution.ROLLBACK) is Code.OK
    assert half.ids() == []
    (ended,) = half.seen(TransactionEnded)
    assert ended.resolution is Resolution.ROLLBACK


def test_a_transaction_ends_once(half: Any) -> None:
    end(half, Resolution.COMMIT)
    assert end(half, Resolution.COMMIT) is half.profile.unknown_transaction_code
    assert half.ids() == ["m"]


def test_no_decision_uses_the_chance_up(half: Any) -> None:
    """9.2: OK, no effect, but the next decision is too late."""
    assert end(half, Resolution.UNSPECIFIED) is Code.OK
    assert end(half, Resolution.COMMIT) is half.profile.unknown_transaction_code
    assert half.broker.totals().half == 1


def test_a_decision_counts_for_thirty_seconds(half: Any) -> None:
    """R9.1."""
    half.send("n", message_type=MessageType.TRANSACTION)
    half.wait(30.0)
    assert end(half, Resolution.COMMIT, "n") is Code.OK
    half.wait(0.001)
    assert end(half, Resolution.COMMIT) is half.profile.unknown_transaction_code


@pytest.mark.parametrize(
    ("transaction_id", "topic", "code"),
    [(" ", "t", Code.INVALID_TRANSACTION_ID), ("m", " ", Code.ILLEGAL_TOPIC)],
)
def test_blank_names_are_refused(half: Any, transaction_id: str, topic: str, code: Code) -> None:
    assert end(half, Resolution.COMMIT, transaction_id, topic) is code


def test_the_transaction_of_another_topic_is_unknown(half: Any) -> None:
    half.broker.create_topic(TopicConfig("u", TopicType.TRANSACTION), now=half.now)
    assert end(half, Resolution.COMMIT, topic="u") is half.profile.unknown_transaction_code


def test_two_half_messages_of_one_id_end_one_by_one(half: Any) -> None:
    half.send("m", message_type=MessageType.TRANSACTION)
    assert end(half, Resolution.COMMIT) is Code.OK
    assert end(half, Resolution.COMMIT) is Code.OK
    assert half.ids() == ["m", "m"]


def test_a_restart_forgets_what_is_awaited(half: Any) -> None:
    """R12.7."""
    half.broker.restart(now=half.now)
    assert end(half, Resolution.COMMIT) is half.profile.unknown_transaction_code
    assert half.broker.totals().half == 1


def test_a_deleted_topic_takes_its_half_messages_along(half: Any) -> None:
    half.broker.delete_topic("t", now=half.now)
    assert half.broker.totals().half == 0


def test_the_newest_decisions_of_one_id_are_awaited(half: Any) -> None:
    """R9.1: the newest is used up first; of many only the last 15 are kept."""
    most = limits.TRANSACTION_MEMORY_MAX
    for number in range(most + 1):
        half.send("n", message_type=MessageType.TRANSACTION, tag=f"t{number}")
    codes = [end(half, Resolution.COMMIT, "n") for _ in range(most + 1)]
    assert codes == [Code.OK] * most + [half.profile.unknown_transaction_code]
    tags = [delivery.message.content.tag for delivery in half.receive()]
    assert tags == [f"t{number}" for number in range(most, 0, -1)]
