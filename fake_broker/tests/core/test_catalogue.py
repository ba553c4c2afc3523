"""Administration of topics and groups, and the snapshots that show them."""

import random
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, Code, Permission, Refusal, TopicType
from aiorocketmq_fake.core.values.events import GroupChanged, LeaseEnd, LeaseEnded, TopicChanged
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    GroupConfig,
    OutgoingMessage,
    ReceiveRequest,
    RetryPolicy,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile


def refused(call: Any, *args: Any, **fields: Any) -> Code:
    with pytest.raises(Refusal) as caught:
        call(*args, **fields)
    return caught.value.code


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (TopicConfig("t"), Code.BAD_REQUEST),
        (TopicConfig("a b"), Code.ILLEGAL_TOPIC),
        (TopicConfig("u", read_queues=-1), Code.BAD_REQUEST),
        (TopicConfig("u", write_queues=1025), Code.BAD_REQUEST),
    ],
)
def test_topics_that_cannot_be_made(desk: Any, config: TopicConfig, code: Code) -> None:
    assert refused(desk.broker.create_topic, config, now=desk.now) is code
    assert [topic.config.name for topic in desk.broker.topics()] == ["t"]


def test_a_topic_may_have_up_to_1024_queues_or_none(desk: Any) -> None:
    for name, read, write in (("a", 1024, 1024), ("b", 0, 1), ("c", 1, 0)):
        desk.broker.create_topic(TopicConfig(name, read_queues=read, write_queues=write), now=desk.now)
        config = desk.broker.topic(name)
        assert (config.read_queues, config.write_queues) == (read, write)


def test_mixed_topics_are_off_on_a_real_server(documented: Any, apache: Any) -> None:
    """Session §0."""
    config = TopicConfig("u", TopicType.MIXED)
    documented.broker.create_topic(config, now=documented.now)
    assert refused(apache.broker.create_topic, config, now=apache.now) is Code.BAD_REQUEST


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (GroupConfig("g"), Code.BAD_REQUEST),
        (GroupConfig("a b"), Code.ILLEGAL_CONSUMER_GROUP),
        (GroupConfig("h", max_attempts=0), Code.BAD_REQUEST),
        (GroupConfig("h", retry_policy=RetryPolicy()), Code.BAD_REQUEST),
    ],
)
def test_groups_that_cannot_be_made(desk: Any, config: GroupConfig, code: Code) -> None:
    assert refused(desk.broker.create_group, config, now=desk.now) is code
    assert [group.config.name for group in desk.broker.groups()] == ["g"]


def test_what_is_not_there_can_neither_be_changed_nor_deleted(desk: Any) -> None:
    broker, now = desk.broker, desk.now
    assert refused(broker.update_topic, TopicConfig("u"), now=now) is Code.TOPIC_NOT_FOUND
    assert refused(broker.delete_topic, "u", now=now) is Code.TOPIC_NOT_FOUND
    assert refused(broker.update_group, GroupConfig("h"), now=now) is Code.CONSUMER_GROUP_NOT_FOUND
    assert refused(broker.delete_group, "h", now=now) is Code.CONSUMER_GROUP_NOT_FOUND


def test_a_topic_may_grow_and_shrink(desk: Any) -> None:
    desk.broker.update_topic(TopicConfig("t", read_queues=4, write_queues=4), now=desk.now)
    assert desk.broker.topics()[0].max_offsets == (0, 0, 0, 0)
    desk.broker.update_topic(TopicConfig("t", read_queues=1, write_queues=1), now=desk.now)
    desk.send("m")
    assert desk.ids() == ["m"]


def test_a_deleted_topic_leaves_nothing(desk: Any) -> None:
    desk.send("a", "b", "c")
    delivery, *_ = desk.receive()
    desk.wait_for_return()
    desk.receive()
    desk.broker.delete_topic("t", now=desk.now)
    assert desk.broker.topics() == ()
    assert desk.broker.leases() == ()
    assert desk.broker.offsets() == ()
    assert desk.seen(LeaseEnded)[-1].reason is LeaseEnd.DELETED
    desk.broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1), now=desk.now)
    assert desk.ack(delivery) is Code.INVALID_RECEIPT_HANDLE
    desk.wait(20.0)
    assert desk.ids() == []
    desk.send("c")
    assert desk.ids() == ["c"]


def test_a_deleted_group_leaves_its_dead_letters_only(make_desk: Any) -> None:
    desk = make_desk()
    desk.add_group("h")
    desk.send("a", "b")
    first, _ = desk.receive()
    desk.forward(first)
    desk.ids(group="h")
    desk.broker.delete_group("g", now=desk.now)
    assert [lease.group for lease in desk.broker.leases()] == ["h", "h"]
    assert [offset.group for offset in desk.broker.offsets()] == ["h"]
    assert len(desk.broker.dead_letters("g")) == 1
    desk.wait(20.0)
    desk.add_group("g")
    expected = [] if desk.profile.new_group_start.name == "CREATION" else ["a", "b"]
    assert desk.ids() == expected


def test_changes_are_events(desk: Any) -> None:
    desk.broker.update_topic(TopicConfig("t", permission=Permission.READ), now=desk.now)
    desk.broker.delete_topic("t", now=desk.now)
    desk.broker.update_group(GroupConfig("g", max_attempts=3), now=desk.now)
    desk.broker.delete_group("g", now=desk.now)
    assert [(event.config.permission, event.deleted) for event in desk.seen(TopicChanged)] == [
        (Permission.READ_WRITE, False),
        (Permission.READ, False),
        (Permission.READ, True),
    ]
    groups = desk.seen(GroupChanged)
    assert [(event.config.max_attempts, event.deleted) for event in groups] == [
        (17, False),
        (3, False),
        (3, True),
    ]
    assert groups[0].steps == desk.profile.backoff.value
    assert groups[0].order_grain == desk.profile.order_grain.value


# Inspection


def test_snapshots_of_a_broker_at_work(make_desk: Any) -> None:
    desk = make_desk(ordered=True, type=TopicType.FIFO)
    desk.send("m0", "m1", message_group="A")
    first, second = desk.receive(attempt_id="x")
    desk.ack(second)
    (lease,) = desk.broker.leases("g")
    assert (lease.message_id, lease.attempt, lease.client_id, lease.ends_at) == (
        "m0",
        1,
        "c",
        desk.now + 10.0,
    )
    (record,) = desk.broker.order_records("g")
    assert (record.attempt_id, record.offsets[0], record.committed) == ("x", 0, 0)
    assert record.visible_at[0] == desk.now + 10.0
    assert [event.delivery.attempt for event in desk.broker.deliveries("t", group="g")] == [1, 1]
    assert desk.broker.deliveries("t", group="g")[0].delivery.receipt_handle == first.receipt_handle
    totals = desk.broker.totals()
    assert (totals.messages, totals.leases, totals.clients, totals.by_topic) == (2, 1, 1, {"t": 2})
    assert totals.deadlines == 2


def test_snapshots_choose_by_group_and_topic(desk: Any) -> None:
    desk.send("m")
    desk.receive()
    assert desk.broker.leases("other") == ()
    assert desk.broker.deliveries("other") == ()
    assert desk.broker.deliveries(group="other") == ()
    assert desk.broker.offsets("other") == ()
    assert desk.broker.order_records("other") == ()
    assert len(desk.broker.deliveries()) == 1
    assert desk.broker.messages("other") == ()
    assert desk.broker.dead_letters("g") == ()


def test_idle_order_records_show_nothing(make_desk: Any) -> None:
    desk = make_desk(ordered=True)
    desk.receive()
    assert desk.broker.order_records() == ()


def test_the_history_of_deliveries_is_bounded(profile: Profile) -> None:
    broker = Broker(profile, now=0.0, rng=random.Random(1), history=2)
    broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1), now=0.0)
    broker.create_group(GroupConfig("g"), now=0.0)
    settings = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription("g"))
    broker.settings("c", settings, now=0.0)
    for message_id in ("a", "b", "c"):
        broker.send((OutgoingMessage("t", b"x", message_id),), now=0.0)
    broker.receive(ReceiveRequest("c", "g", "t", invisible=10.0, remaining_deadline=30.0), now=0.0)
    assert [event.delivery.message.content.message_id for event in broker.deliveries()] == ["b", "c"]


def test_time_never_runs_backwards(desk: Any) -> None:
    desk.wait(5.0)
    desk.broker.advance(desk.now - 3.0)
    assert desk.broker.now == desk.now


def test_without_outputs_the_tuple_is_empty(desk: Any) -> None:
    desk.broker.take_events()
    assert desk.broker.take_events() == ()
    assert desk.broker.take_outputs() == ()


def test_an_idle_broker_has_no_deadline(desk: Any) -> None:
    desk.broker.terminate("c", "g", now=desk.now)
    assert desk.broker.next_deadline() is None
