"""When a recording may say that a group was drained."""

from __future__ import annotations

import pytest
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import Code, MessageType, TopicType
from aiorocketmq_fake.core.values.model import (
    Delivery,
    FilterExpression,
    GroupConfig,
    OutgoingMessage,
    StoredMessage,
    TopicConfig,
)
from aiorocketmq_fake.edge.drains import Drained, Drains

CONTENT = OutgoingMessage(topic="orders", body=b"1", message_id="M1")
STORED = StoredMessage(CONTENT, MessageType.NORMAL, "orders", 0, 0, position=0, store_timestamp=100.0)
LEASE = 30.0


def stored(at: float) -> events.Stored:
    return events.Stored(at, STORED, "p@1", events.StoredAs.SENT)


def delivered(at: float, group: str = "billing") -> events.Delivered:
    delivery = Delivery(STORED, "h", 1, 0, 0, store_timestamp=100.0, invisible_until=at + LEASE)
    return events.Delivered(at, group, "c@1", delivery, LEASE, False, 1, 0, "", FilterExpression("*"))


def acked(at: float, group: str = "billing") -> events.Acked:
    return events.Acked(at, group, "orders", "c@1", "M1", "h", "h", STORED, 1, effective=True)


def polled(at: float, group: str = "billing", messages: int = 0, **more: object) -> events.ReceiveEnded:
    code = more.pop("code", Code.MESSAGE_NOT_FOUND)
    asked = (at - 20, FilterExpression("*"))
    return events.ReceiveEnded(at, group, "orders", "c@1", 9, *asked, code, messages, **more)  # type: ignore[arg-type]


def told(drains: Drains, *events: events.Event) -> list[Drained]:
    return [drain for event in events if (drain := drains.note(event)) is not None]


CONSUMED = (stored(100.0), delivered(101.0), acked(102.0))


def test_a_group_is_drained_two_leases_after_the_last_event() -> None:
    drains = Drains()
    assert told(drains, *CONSUMED, polled(162.9)) == []
    assert told(drains, polled(163.0)) == [Drained(163.0, "billing", "orders")]


def test_a_drain_is_reported_once_until_the_next_event() -> None:
    drains = Drains()
    told(drains, *CONSUMED)
    assert len(told(drains, polled(200.0), polled(220.0))) == 1
    assert len(told(drains, stored(230.0), polled(240.0), polled(300.0), polled(320.0))) == 1


def test_groups_are_drained_apart_also_from_the_same_messages() -> None:
    drains = Drains()
    told(drains, *CONSUMED, delivered(103.0, "audit"), acked(104.0, "audit"))
    both = (polled(200.0), polled(200.0, "audit"))
    assert [drain.group for drain in told(drains, *both)] == ["billing", "audit"]
    assert [drain.group for drain in told(drains, stored(210.0), polled(290.0, "audit"), polled(290.0))] == [
        "audit",
        "billing",
    ]


def test_a_delayed_message_is_waited_for_twice_as_long_as_its_delay() -> None:
    drains = Drains()
    told(drains, *CONSUMED, events.Prepared(103.0, CONTENT, "p@1", 603.0))
    assert told(drains, polled(1103.0)) == []
    assert told(drains, polled(1104.0)) != []


def test_a_longer_lease_is_waited_for() -> None:
    drains = Drains()
    told(drains, *CONSUMED[:2])
    told(
        drains, events.LeaseChanged(102.0, "billing", "c@1", STORED, 1, "h2", "h", "h", 600.0, renewal=False)
    )
    assert told(drains, polled(1302.9)) == []
    assert told(drains, polled(1303.0)) != []


@pytest.mark.parametrize(
    "poll",
    [
        polled(900.0, messages=1, code=Code.OK),
        polled(900.0, cancelled=True),
        polled(900.0, code=Code.TOO_MANY_REQUESTS),
        polled(900.0, "never handed anything"),
    ],
)
def test_only_an_empty_answer_to_a_group_whose_filter_is_known_drains(poll: events.ReceiveEnded) -> None:
    drains = Drains()
    assert told(drains, *CONSUMED, poll) == []
    assert told(drains, polled(900.0)) != []


@pytest.mark.parametrize(
    "unfit",
    [
        events.TopicChanged(99.0, TopicConfig("orders"), deleted=True),
        events.TopicChanged(99.0, TopicConfig("orders", read_queues=4), deleted=False),
        events.TopicChanged(99.0, TopicConfig("orders", TopicType.LITE), deleted=False),
        events.GroupChanged(99.0, GroupConfig("billing"), (), "queue", deleted=True),
    ],
)
def test_topics_with_legal_leftovers_have_no_drains(unfit: events.Event) -> None:
    assert told(Drains(), unfit, *CONSUMED, polled(900.0)) == []
    assert told(Drains(), *CONSUMED, polled(900.0)) != []
