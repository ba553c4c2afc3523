"""Delayed messages and their recall (4.7, 4.8)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, TopicType
from aiorocketmq_fake.core.values.events import Prepared, Recalled
from aiorocketmq_fake.core.values.model import TopicConfig


@pytest.fixture
def delay(make_desk: Any) -> Any:
    """A DELAY topic in each profile, with recall switched on."""
    return make_desk(type=TopicType.DELAY, fields={"recall_enabled": True})


def recall(desk: Any, handle: str, topic: str = "t") -> Code:
    try:
        desk.broker.recall(topic, handle, now=desk.now)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


@pytest.mark.parametrize("ahead", [1.0, 1.001, 1.3, 1.5, 1.999, 86_400.0])
def test_a_delayed_message_is_never_early(delay: Any, ahead: float) -> None:
    """R4.19, session §5: at the next whole second on a real server, exactly in the contract."""
    delay.send("m", delivery_timestamp=delay.now + ahead)
    (prepared,) = delay.seen(Prepared)
    due = delay.broker.next_deadline() if ahead < 100 else prepared.due
    assert due == prepared.due
    assert 0.0 <= due - (delay.now + ahead) <= 1.02
    delay.wait(due - delay.now - 0.001)
    assert delay.ids() == []
    delay.wait(0.001)
    delivery = delay.one()
    assert (delivery.attempt, delivery.message.message_type) == (1, MessageType.DELAY)
    assert delivery.message.content.delivery_timestamp is not None
    assert delivery.store_timestamp == pytest.approx(due)


def test_fractions_of_a_second(documented: Any, make_documented: Any, make_apache: Any) -> None:
    for make, expected in ((make_documented, 1.5), (make_apache, 2.01)):
        desk = make(type=TopicType.DELAY)
        desk.send("m", delivery_timestamp=desk.now + 1.5)
        (prepared,) = desk.seen(Prepared)
        assert prepared.due - desk.now == pytest.approx(expected)


def test_a_time_in_the_past_means_now(delay: Any) -> None:
    """R4.18."""
    outcome = delay.send("m", delivery_timestamp=delay.now)
    assert outcome.recall_handle == ""
    assert delay.one().message.message_type is MessageType.DELAY


def test_delayed_messages_are_ordered_by_time_and_wake_polls(delay: Any) -> None:
    poll_id = delay.park(1)
    delay.send("late", delivery_timestamp=delay.now + 10.0)
    delay.send("early", delivery_timestamp=delay.now + 5.0)
    delay.wait(5.1)
    assert [d.message.content.message_id for d in delay.answers()[poll_id].deliveries] == ["early"]
    delay.wait(5.0)
    assert delay.ids() == ["late"]


def test_a_delayed_message_keeps_its_group_and_its_queue(make_desk: Any) -> None:
    """R4.22."""
    desk = make_desk(type=TopicType.DELAY, queues=4)
    outcome = desk.send("m", delivery_timestamp=desk.now + 1.0, message_group="order-1001")
    desk.wait(2.0)
    delivery = desk.one()
    assert (outcome.queue_id, delivery.queue_id, delivery.message.content.message_group) == (
        2,
        2,
        "order-1001",
    )


def test_a_recalled_message_never_comes(delay: Any) -> None:
    handle = delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle
    assert urlsafe_b64decode(handle).decode().split(" ")[:3] == ["v1", "t", "broker-a"]
    assert delay.broker.recall("t", handle, now=delay.now, client_id="p") == "m"
    delay.wait(10.0)
    assert delay.ids() == []
    assert delay.broker.totals().delayed == 0
    (recalled,) = delay.seen(Recalled)
    assert (recalled.message_id, recalled.client_id, recalled.effective) == ("m", "p", True)


def test_a_second_recall(delay: Any) -> None:
    """R4.25: OK on real servers, which only leave a marker."""
    handle = delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle
    recall(delay, handle)
    expected = Code.MESSAGE_NOT_FOUND if delay.profile.recall_finds_message else Code.OK
    assert recall(delay, handle) is expected


def test_a_recall_too_late_is_refused(delay: Any) -> None:
    handle = delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle
    delay.wait(4.9)
    expected = delay.profile.recall_failure_code if delay.profile.recall_margin else Code.OK
    assert recall(delay, handle) is expected
    delay.wait(1.0)
    assert recall(delay, handle) is delay.profile.recall_failure_code


def altered(handle: str, part: int, text: str) -> str:
    parts = urlsafe_b64decode(handle).decode().split(" ")
    parts[part] = text
    return urlsafe_b64encode(" ".join(parts).encode()).decode()


def test_a_recall_of_another_id_is_ok_without_effect_on_a_real_server(delay: Any) -> None:
    """Session §5: OK says that a marker was written, not that a message was found."""
    handle = altered(delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle, 4, "other")
    expected = Code.MESSAGE_NOT_FOUND if delay.profile.recall_finds_message else Code.OK
    assert recall(delay, handle) is expected
    delay.wait(6.0)
    assert delay.ids() == ["m"]


@pytest.mark.parametrize(("part", "text"), [(0, "v2"), (1, "u"), (2, "broker-z"), (3, "soon")])
def test_a_bent_recall_handle_is_refused(delay: Any, part: int, text: str) -> None:
    handle = delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle
    assert recall(delay, altered(handle, part, text)) is delay.profile.recall_failure_code


@pytest.mark.parametrize("handle", ["", "junk", "é", "AAAA"])
def test_junk_is_no_recall_handle(delay: Any, handle: str) -> None:
    assert recall(delay, handle) is delay.profile.recall_failure_code


def test_recalls_from_other_topics(delay: Any) -> None:
    delay.broker.create_topic(TopicConfig("n"), now=delay.now)
    handle = delay.send("m", delivery_timestamp=delay.now + 5.0).recall_handle
    assert recall(delay, handle, "n") is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert recall(delay, handle, "unknown") is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert recall(delay, handle, " ") is Code.ILLEGAL_TOPIC


def test_recall_is_off_on_a_real_server(make_apache: Any) -> None:
    desk = make_apache(type=TopicType.DELAY)
    handle = desk.send("m", delivery_timestamp=desk.now + 5.0).recall_handle
    assert recall(desk, handle) is Code.INTERNAL_SERVER_ERROR


def test_two_messages_with_the_same_id_and_time_are_both_delivered(delay: Any) -> None:
    delay.send("m", "m", delivery_timestamp=delay.now + 5.0)
    delay.wait(6.0)
    assert delay.ids() == ["m", "m"]
    assert delay.broker.totals().delayed == 0


def test_a_deleted_topic_takes_its_delayed_messages_along(delay: Any) -> None:
    delay.send("m", delivery_timestamp=delay.now + 5.0)
    delay.broker.delete_topic("t", now=delay.now)
    delay.broker.create_topic(TopicConfig("t", TopicType.DELAY), now=delay.now)
    delay.wait(6.0)
    assert delay.ids() == []


def test_the_handle_of_another_broker_is_refused(make_desk: Any) -> None:
    """Session §5: 50001, behind a separate proxy 40000."""
    desk = make_desk(type=TopicType.DELAY, fields={"recall_enabled": True})
    handle = desk.send("m", delivery_timestamp=desk.now + 60.0).recall_handle
    foreign = urlsafe_b64decode(handle).decode().replace("broker-a", "broker-b")
    with pytest.raises(Refusal) as refused:
        desk.broker.recall("t", urlsafe_b64encode(foreign.encode()).decode(), now=desk.now)
    assert refused.value.code is desk.profile.recall_foreign_broker_code


@pytest.mark.parametrize(("seconds", "is_early_enough"), [(4.499, True), (4.5, False), (4.501, False)])
def test_a_recall_comes_before_its_margin(
    make_documented: Any, seconds: float, is_early_enough: bool
) -> None:
    desk = make_documented(type=TopicType.DELAY, fields={"recall_margin": 0.5})
    handle = desk.send("m", delivery_timestamp=desk.now + 5.0).recall_handle
    desk.wait(seconds)
    assert recall(desk, handle) is (Code.OK if is_early_enough else desk.profile.recall_failure_code)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_recall_takes_back_all_messages_of_its_id_and_time(delay: Any, count: int) -> None:
    handle = delay.send(*["m"] * count, delivery_timestamp=delay.now + 5.0).recall_handle
    delay.send("m", delivery_timestamp=delay.now + 7.0)
    assert recall(delay, handle) is Code.OK
    delay.wait(10.0)
    assert delay.ids() == ["m"]
    assert delay.broker.totals().delayed == 0


def test_a_poll_of_before_gets_nothing_that_becomes_due_while_the_broker_is_down(delay: Any) -> None:
    """R12.7."""
    delay.send("m", delivery_timestamp=delay.now + 5.0)
    delay.park()
    delay.now += 20.0
    delay.broker.restart(now=delay.now)
    delay.join("c")
    assert delay.one().attempt == 1
