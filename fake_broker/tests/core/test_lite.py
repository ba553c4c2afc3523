"""Lite topics: queues of their own below a parent, subscribed to by name and read in order (4.11)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import ClientType, Code, LiteAction, MessageType, Refusal, TopicType
from aiorocketmq_fake.core.values.events import LeaseEnded, LiteSubscribed, LiteTopicEnded
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    CommandForClient,
    Delivery,
    FilterExpression,
    GroupConfig,
    LiteStart,
    LiteSyncRequest,
    NotifyUnsubscribeLite,
    Subscription,
    TopicConfig,
)

ADD, REMOVE = LiteAction.PARTIAL_ADD, LiteAction.PARTIAL_REMOVE
REPLACE, CLEAR = LiteAction.COMPLETE_ADD, LiteAction.COMPLETE_REMOVE


def open_floor(desk: Any, **group: Any) -> Any:
    """Add a parent topic `p`, a group `lg` bound to it, and two lite consumers `a` and `b`."""
    desk.broker.create_topic(TopicConfig("p", TopicType.LITE, 1, 1, lite_expiration=900.0), now=desk.now)
    desk.broker.create_group(GroupConfig("lg", lite_bind_topic="p", **group), now=desk.now)
    for client in "ab":
        join(desk, client)
    return desk


def join(desk: Any, client: str, group: str = "lg", topic: str = "p") -> Any:
    subscription = Subscription(group, ((topic, FilterExpression()),))
    settings = ClientSettings(ClientType.LITE_PUSH_CONSUMER, subscription=subscription)
    return desk.broker.settings(client, settings, now=desk.now)


def sync(desk: Any, client: str, action: LiteAction | None, *names: str, **fields: Any) -> Code:
    fields = {"group": "lg", "topic": "p", **fields}
    try:
        desk.broker.sync_lite_subscription(
            LiteSyncRequest(client, action=action, names=names, **fields), now=desk.now
        )
    except Refusal as refusal:
        return refusal.code
    return Code.OK


def send(desk: Any, lite_topic: str, *ids: str) -> None:
    desk.send(*ids, topic="p", lite_topic=lite_topic)


def receive(desk: Any, client: str = "a", batch: int = 32) -> tuple[Delivery, ...]:
    deliveries: tuple[Delivery, ...] = desk.receive(batch, client=client, group="lg", topic="p")
    return deliveries


def ids(desk: Any, client: str = "a", batch: int = 32) -> list[str]:
    return [one.message.content.message_id for one in receive(desk, client, batch)]


def ack(desk: Any, delivery: Any) -> Code:
    code: Code = desk.ack(delivery, client="a", group="lg", topic="p")
    return code


def notices(desk: Any) -> list[tuple[str, str]]:
    return [
        (output.client_id, output.command.lite_topic)
        for output in desk.broker.take_outputs()
        if isinstance(output, CommandForClient) and isinstance(output.command, NotifyUnsubscribeLite)
    ]


@pytest.fixture
def floor(make_desk: Any) -> Any:
    """Lite topics where they are served, in the manner of each profile."""
    return open_floor(make_desk(fields={"lite_service": LiteService.SERVED}))


@pytest.fixture
def published(make_documented: Any) -> Any:
    """The same as published."""
    return open_floor(make_documented())


def test_only_what_a_client_subscribed_to_comes(floor: Any) -> None:
    assert sync(floor, "a", ADD, "x", "y") is Code.OK
    send(floor, "x", "x1")
    send(floor, "z", "z1")
    send(floor, "y", "y1")
    deliveries = receive(floor)
    assert sorted(one.message.content.message_id for one in deliveries) == ["x1", "y1"]
    assert {one.message.message_type for one in deliveries} == {MessageType.LITE}
    assert {(one.queue_id, one.offset, one.attempt) for one in deliveries} == {(0, 0, 1)}
    assert floor.broker.lite_topics("p") == {"x": 1, "y": 1, "z": 1}


def test_consumers_of_one_group_may_want_different_things(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    sync(floor, "b", ADD, "y")
    send(floor, "x", "x1")
    send(floor, "y", "y1")
    assert (ids(floor, "a"), ids(floor, "b")) == (["x1"], ["y1"])


def test_a_lite_topic_is_read_in_order_and_one_batch_at_a_time(floor: Any) -> None:
    """Session §7.2: a second receive without ack is empty."""
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1", "2", "3")
    first = receive(floor, batch=2)
    assert [one.message.content.message_id for one in first] == ["1", "2"]
    assert ids(floor) == []
    assert [ack(floor, one) for one in first] == [Code.OK, Code.OK]
    assert ids(floor) == ["3"]


def test_an_unacked_batch_is_redelivered_and_an_acked_part_does_not(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1", "2")
    first, _ = receive(floor)
    ack(floor, first)
    floor.wait(10.0)
    (again,) = receive(floor)
    assert (again.message.content.message_id, again.attempt) == ("2", 2)


def test_a_blocked_lite_topic_does_not_block_others(floor: Any) -> None:
    sync(floor, "a", ADD, "x", "y")
    send(floor, "x", "x1", "x2")
    assert ids(floor) == ["x1", "x2"]
    send(floor, "y", "y1")
    assert ids(floor) == ["y1"]


def test_a_parked_poll_wakes_for_its_own_names_only(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    sync(floor, "b", ADD, "y")
    waiting = {client: floor.park(client=client, group="lg", topic="p") for client in "ab"}
    send(floor, "y", "y1")
    answers = floor.answers()
    assert [one.message.content.message_id for one in answers[waiting["b"]].deliveries] == ["y1"]
    assert waiting["a"] not in answers
    sync(floor, "a", ADD, "z")
    send(floor, "z", "z1")
    assert [one.message.content.message_id for one in floor.answers()[waiting["a"]].deliveries] == ["z1"]


def test_a_subscription_finds_what_is_there_already(floor: Any) -> None:
    send(floor, "x", "1", "2")
    poll_id = floor.park(client="a", group="lg", topic="p")
    sync(floor, "a", ADD, "x")
    deliveries = floor.answers()[poll_id].deliveries
    assert [one.message.content.message_id for one in deliveries] == ["1", "2"]


def test_subscriptions_are_changed_and_replaced(floor: Any) -> None:
    sync(floor, "a", ADD, "x", "y")
    sync(floor, "a", REMOVE, "x")
    sync(floor, "a", ADD, "y", "z")
    assert floor.seen(LiteSubscribed)[-1].names == ("y", "z")
    sync(floor, "a", REPLACE, "w")
    assert floor.seen(LiteSubscribed)[-1].names == ("w",)
    for name in "xyzw":
        send(floor, name, name)
    assert ids(floor) == ["w"]
    sync(floor, "a", CLEAR)
    send(floor, "w", "w2")
    assert ids(floor) == []


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (None, ["0", "1", "2", "3", "4"]),
        (LiteStart(offset=0), ["0", "1", "2", "3", "4"]),
        (LiteStart(), []),
        (LiteStart(offset=1), ["1", "2", "3", "4"]),
        (LiteStart(is_last=True), ["0", "1", "2", "3", "4"]),
    ],
)
def test_a_subscriber_chooses_where_to_begin(
    floor: Any, start: LiteStart | None, expected: list[str]
) -> None:
    """Session §7.2."""
    send(floor, "x", *map(str, range(5)))
    sync(floor, "a", ADD, "x", start=start)
    assert ids(floor) == expected


@pytest.mark.parametrize("tail", [2, 9])
def test_a_subscriber_may_begin_so_many_before_the_end(floor: Any, tail: int) -> None:
    """Session §7.2: a real server gives a new group all."""
    send(floor, "x", *map(str, range(5)))
    sync(floor, "a", ADD, "x", start=LiteStart(tail=tail))
    count = 5 if floor.profile.lite_tail_needs_progress else min(tail, 5)
    assert len(ids(floor)) == count


def test_a_subscriber_may_begin_at_a_time(floor: Any) -> None:
    send(floor, "x", "old")
    floor.wait(10.0)
    between = floor.now - 5.0
    send(floor, "x", "new")
    sync(floor, "a", ADD, "x", start=LiteStart(timestamp=between))
    assert ids(floor) == (["old", "new"] if floor.profile.lite_times_ignored else ["new"])


def test_progress_is_kept_without_subscribers(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1", "2", "3")
    for delivery in receive(floor, batch=1):
        ack(floor, delivery)
    sync(floor, "a", CLEAR)
    sync(floor, "b", ADD, "x", start=LiteStart(is_last=True))
    assert ids(floor, "b") == ["2", "3"]


def test_a_new_start_takes_what_is_out_away(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1", "2")
    receive(floor)
    sync(floor, "b", ADD, "x", start=LiteStart())
    assert len(floor.seen(LeaseEnded)) == 2
    assert ids(floor, "b") == []


def test_an_exclusive_group_has_one_subscriber_at_a_time(make_desk: Any) -> None:
    """Session §7.2: the one before is notified."""
    desk = open_floor(make_desk(fields={"lite_service": LiteService.SERVED}), lite_exclusive=True)
    sync(desk, "a", ADD, "x", "y")
    sync(desk, "b", ADD, "x")
    assert notices(desk) == [("a", "x")]
    send(desk, "x", "x1")
    assert (ids(desk, "a"), ids(desk, "b")) == ([], ["x1"])


def test_an_ordinary_consumer_reads_the_parent(floor: Any) -> None:
    send(floor, "x", "1")
    assert floor.ids(topic="p") == ["1"]


def test_a_subscription_that_is_not_repeated_ends(floor: Any) -> None:
    """R4.33: 3 minutes, noticed by a real server at its next scan within 2 more."""
    sync(floor, "a", ADD, "x")
    floor.wait(179.0)
    send(floor, "x", "1")
    assert [ack(floor, one) for one in receive(floor)] == [Code.OK]
    floor.wait(122.0)
    send(floor, "x", "2")
    assert ids(floor) == []


def test_a_repeated_subscription_does_not_expire(floor: Any) -> None:
    for _ in range(10):
        sync(floor, "a", REPLACE, "x")
        floor.wait(100.0)
    send(floor, "x", "1")
    assert ids(floor) == ["1"]


def test_a_client_that_leaves_wants_nothing_more(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    floor.broker.terminate("a", "lg", now=floor.now)
    join(floor, "a")
    send(floor, "x", "1")
    assert ids(floor) == []


def test_a_restart_forgets_subscriptions_and_nothing_else(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1")
    floor.broker.restart(now=floor.now)
    join(floor, "a")
    assert ids(floor) == []
    sync(floor, "a", REPLACE, "x")
    assert ids(floor) == ["1"]


@pytest.mark.parametrize(
    "end",
    [
        lambda desk: desk.wait(302.0),
        lambda desk: desk.broker.terminate("a", "lg", now=desk.now),
        lambda desk: desk.broker.restart(now=desk.now),
        lambda desk: desk.broker.delete_group("lg", now=desk.now),
        lambda desk: desk.broker.delete_topic("p", now=desk.now),
    ],
    ids=["not repeated", "client gone", "restart", "group deleted", "parent deleted"],
)
def test_the_end_of_all_subscriptions_is_reported_once(floor: Any, end: Callable[[Any], Any]) -> None:
    sync(floor, "a", ADD, "x")
    end(floor)
    reports = [(event.client_id, event.names) for event in floor.seen(LiteSubscribed)]
    assert reports == [("a", ("x",)), ("a", ())]


def test_a_lite_topic_without_writes_expires(floor: Any) -> None:
    """R4.34: with its messages; its subscribers are notified."""
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1")
    assert ids(floor) == ["1"]
    for _ in range(9):
        floor.wait(99.0)
        sync(floor, "a", REPLACE, "x")
    assert floor.broker.lite_topics("p") == {"x": 1}
    floor.wait(130.0)
    assert floor.broker.lite_topics("p") == {}
    assert notices(floor) == [("a", "x")]
    (ended,) = floor.seen(LiteTopicEnded)
    assert (ended.lite_topic, ended.messages) == ("x", 1)
    assert floor.broker.leases("lg") == ()
    send(floor, "x", "2")
    sync(floor, "a", REPLACE, "x")
    assert ids(floor) == ["2"]


@pytest.mark.parametrize("name", ["", " ", "a.b", "a" * 65, "é", "%"])
def test_odd_names_are_refused(floor: Any, name: str) -> None:
    """R4.31."""
    assert sync(floor, "a", ADD, name) is Code.ILLEGAL_LITE_TOPIC
    if name:
        with pytest.raises(Refusal) as refused:
            send(floor, name, "m")
        assert refused.value.code is Code.ILLEGAL_LITE_TOPIC


@pytest.mark.parametrize(
    "fields",
    [{"topic": "t"}, {"topic": "unknown"}, {"topic": " "}, {"group": "g"}, {"group": "unknown"}],
)
def test_a_subscription_needs_the_bound_pair(floor: Any, fields: dict[str, str]) -> None:
    # Where sessions need a group to be there, that is looked at first (seen on 5.5.0).
    is_missing = floor.profile.session_needs_group and fields.get("group") == "unknown"
    expected = Code.ILLEGAL_CONSUMER_GROUP if is_missing else Code.ILLEGAL_TOPIC
    assert sync(floor, "a", ADD, "x", **fields) is expected


def test_an_unknown_action_is_refused(floor: Any) -> None:
    assert sync(floor, "a", None, "x") is floor.profile.store_refusal_code


def test_more_than_the_quota_is_refused(published: Any) -> None:
    """R4.34, and what was subscribed before stays."""
    config = replace(published.broker.groups()[1].config, lite_quota=3)
    assert config.name == "lg"
    published.broker.update_group(config, now=published.now)
    assert join(published, "a").lite_subscription_quota == 3
    assert sync(published, "a", ADD, "x", "y", "z") is Code.OK
    assert sync(published, "a", ADD, "w") is Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    send(published, "x", "1")
    assert ids(published) == ["1"]


def test_a_real_server_counts_one_request_and_is_generous(make_apache: Any) -> None:
    """Session §7.2: 2300 OK, 2301 not."""
    desk = open_floor(make_apache(fields={"lite_service": LiteService.SERVED}))
    assert sync(desk, "a", REPLACE, *(f"n{n}" for n in range(2300))) is Code.OK
    assert sync(desk, "a", ADD, *(f"m{n}" for n in range(1000))) is Code.OK
    assert sync(desk, "a", REPLACE, *(f"n{n}" for n in range(2301))) is Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED


@pytest.mark.parametrize(("group", "topic"), [("g", "t"), ("lg", "t"), ("unknown", "p")])
def test_a_lite_consumer_needs_a_bound_group(floor: Any, group: str, topic: str) -> None:
    """Session §2.3."""
    with pytest.raises(Refusal) as refused:
        join(floor, "c", group, topic)
    assert refused.value.code is Code.BAD_REQUEST


def test_lite_topics_do_not_work_in_the_proxys_process(apache: Any) -> None:
    """Session §7.2: settings and sends do."""
    open_floor(apache)
    send(apache, "x", "1")
    assert sync(apache, "a", ADD, "x") is Code.INTERNAL_SERVER_ERROR
    with pytest.raises(Refusal) as refused:
        receive(apache)
    assert refused.value.code is Code.INTERNAL_SERVER_ERROR


def test_a_server_may_take_subscriptions_and_deliver_nothing(make_apache: Any) -> None:
    """Session §7.2: behind a separate proxy, with the broker's defaults."""
    desk = open_floor(make_apache(fields={"lite_service": LiteService.MUTE}))
    assert sync(desk, "a", ADD, "x") is Code.OK
    send(desk, "x", "1")
    assert ids(desk) == []


def test_a_deleted_parent_takes_everything_along(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1")
    receive(floor)
    floor.broker.delete_topic("p", now=floor.now)
    assert floor.broker.leases("lg") == ()
    assert floor.broker.lite_topics("p") == {}
    floor.broker.create_topic(TopicConfig("p", TopicType.LITE, 1, 1), now=floor.now)
    sync(floor, "a", ADD, "x")
    assert ids(floor) == []


def test_a_deleted_group_loses_its_progress(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1")
    receive(floor)
    floor.broker.delete_group("lg", now=floor.now)
    assert floor.broker.leases("lg") == ()


def test_a_suspended_message_keeps_its_attempt(published: Any) -> None:
    sync(published, "a", ADD, "x")
    send(published, "x", "1")
    (delivery,) = receive(published)
    published.change(delivery, 3.0, client_id="a", group="lg", topic="p", suspend=True)
    published.wait(3.0)
    (again,) = receive(published)
    assert again.attempt == 1


def test_a_spent_lite_message_is_dead_lettered(make_documented: Any) -> None:
    desk = open_floor(make_documented(), max_attempts=1)
    sync(desk, "a", ADD, "x")
    send(desk, "x", "1", "2")
    assert ids(desk, batch=1) == ["1"]
    desk.wait(10.0)
    assert ids(desk) == ["2"]
    assert [one.content.message_id for one in desk.broker.dead_letters("lg")] == ["1"]


def test_a_forwarded_lite_message_lets_the_next_go(floor: Any) -> None:
    sync(floor, "a", ADD, "x")
    send(floor, "x", "1", "2")
    (first,) = receive(floor, batch=1)
    floor.forward(first, client_id="a", group="lg", topic="p")
    assert ids(floor) == ["2"]
    assert [one.content.message_id for one in floor.broker.dead_letters("lg")] == ["1"]


def test_deleted_messages_leave_their_lite_topic(floor: Any) -> None:
    """R11.1: expired messages are deleted, consumed or not, in flight or not."""
    sync(floor, "a", ADD, "x")
    send(floor, "x", "held", "waiting")
    assert ids(floor, batch=1) == ["held"]
    floor.wait(6.0)
    send(floor, "x", "young")
    floor.broker.set_retention(retention=5.0, now=floor.now)
    floor.broker.delete_expired(now=floor.now)
    floor.wait(4.0)
    assert floor.broker.lite_topics("p") == {"x": 1}
    assert ids(floor) == ["young"]
