"""Members of classic groups: who is registered, who is notified of what, and when they are forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_fake.core.values.classic_model import (
    NO_CHANNEL,
    CloseChannel,
    Heartbeat,
    Member,
    MembersChanged,
    Membership,
    Subscribed,
)
from aiorocketmq_fake.core.values.codes import ClientType
from aiorocketmq_fake.core.values.events import ClientJoined, ClientLeft
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    FilterExpression,
    ForChannels,
    GroupConfig,
    Subscription,
)

CHANGED = MembersChanged("shared")


def membership(*topics: str, expression: str = "*", version: int = 1, **fields: Any) -> Membership:
    subscriptions = tuple(Subscribed(topic, expression, version=version) for topic in topics)
    return Membership("shared", subscriptions, **fields)


def beat(desk: Any, channel: int, *memberships: Membership, producers: tuple[str, ...] = ()) -> list[object]:
    """Send a heartbeat; return the broker's outputs."""
    desk.broker.beat(channel, Heartbeat(f"c{channel}", memberships, producers), now=desk.now)
    return list(desk.broker.take_outputs())


def test_every_connection_is_notified_of_a_new_one_itself_included(desk: Any) -> None:
    assert beat(desk, 1, membership("t")) == [ForChannels((1,), CHANGED)]
    assert beat(desk, 2, membership("t")) == [ForChannels((1, 2), CHANGED)]
    group = desk.broker.members("shared")
    assert [member.client_id for member in group.members] == ["c1", "c2"]


def test_only_another_set_of_topics_is_a_change(desk: Any) -> None:
    beat(desk, 1, membership("t"))
    assert beat(desk, 1, membership("t")) == []
    assert beat(desk, 1, membership("t", expression="a", version=2)) == []
    assert beat(desk, 1, membership("t", "u")) == [ForChannels((1,), CHANGED)]
    assert beat(desk, 1, membership("u")) == [ForChannels((1,), CHANGED)]
    assert beat(desk, 1, membership("v")) == [ForChannels((1,), CHANGED)]


def test_an_older_expression_replaces_no_newer_one(desk: Any) -> None:
    beat(desk, 1, membership("t", expression="new", version=5))
    beat(desk, 2, membership("t", expression="old", version=4))
    assert desk.broker.subscription("shared", "t").expression == "new"
    assert desk.broker.subscription("shared", "u") is None
    assert desk.broker.subscription("other", "t") is None


def test_members_of_a_broadcast_are_not_notified(desk: Any) -> None:
    everything = membership("t", message_model="BROADCASTING")
    assert beat(desk, 1, everything) == []
    assert beat(desk, 2, everything) == []


def test_the_others_are_notified_when_a_member_leaves(desk: Any) -> None:
    for channel in (1, 2, 3):
        beat(desk, channel, membership("t"))
    desk.broker.unregister(2, "c2", "shared", "", now=desk.now)
    assert desk.broker.take_outputs() == (ForChannels((1, 3), CHANGED),)
    desk.broker.close_channel(1, now=desk.now)
    assert desk.broker.take_outputs() == (ForChannels((3,), CHANGED),)
    desk.broker.close_channel(3, now=desk.now)
    desk.broker.close_channel(3, now=desk.now)
    assert desk.broker.take_outputs() == ()
    assert desk.broker.members("shared") is None


def test_a_silent_connection_is_closed_after_120_seconds(desk: Any) -> None:
    beat(desk, 1, membership("t"))
    beat(desk, 2, membership("t"))
    desk.broker.advance(desk.now + 100)
    desk.now += 100
    beat(desk, 2, membership("t"))
    desk.broker.advance(desk.now + 19.999)
    assert desk.broker.take_outputs() == ()
    desk.broker.advance(desk.now + 20)
    assert set(desk.broker.take_outputs()) == {
        ForChannels((2,), CHANGED),
        ForChannels((1,), CloseChannel()),
    }
    left = [event for event in desk.broker.take_events() if isinstance(event, ClientLeft)]
    assert [(event.client_id, event.group, event.expired) for event in left if event.client_id != "c"] == [
        ("c1", "shared", True)
    ]


def test_a_heartbeat_creates_the_group_and_its_retry_topic(desk: Any) -> None:
    assert not desk.broker.has_group("shared")
    beat(desk, 1, membership("t"))
    assert desk.broker.has_group("shared")
    retries = desk.broker.topic("%RETRY%shared")
    assert (retries.read_queues, retries.write_queues) == (1, 1)


def test_producers_register_as_such(desk: Any) -> None:
    beat(desk, 1, producers=("pg",))
    beat(desk, 1, producers=("pg",))
    joined = [event for event in desk.broker.take_events() if isinstance(event, ClientJoined)]
    assert [(event.client_id, event.client_type) for event in joined[-1:]] == [("c1", ClientType.PRODUCER)]
    assert sum(event.client_id == "c1" for event in joined) == 1
    desk.broker.unregister(1, "c1", "", "pg", now=desk.now)
    desk.broker.advance(desk.now + 1_000)
    assert desk.broker.take_outputs() == ()


def test_a_restart_forgets_members_without_a_word(desk: Any) -> None:
    beat(desk, 1, membership("t"))
    desk.broker.restart(now=desk.now)
    assert desk.broker.members("shared") is None
    desk.broker.advance(desk.now + 1_000)
    assert desk.broker.take_outputs() == ()


# gRPC clients


def listing(desk: Any) -> Any:
    """Add a group with one gRPC client, and a gRPC producer for the topic `t`."""
    subscription = Subscription("shared", (("t", FilterExpression("a || b")),))
    consumer = ClientSettings(
        ClientType.SIMPLE_CONSUMER, subscription=subscription, language="JAVA", address="10.0.0.7:5"
    )
    desk.broker.create_group(GroupConfig("shared"), now=desk.now)
    desk.broker.settings("grpc", consumer, now=desk.now)
    desk.broker.settings("sender", ClientSettings(ClientType.PRODUCER, topics=("t",)), now=desk.now)
    return desk


@pytest.fixture
def listed(desk: Any) -> Any:
    return listing(desk)


def test_grpc_clients_are_members_and_producers(listed: Any) -> None:
    group = listed.broker.members("shared")
    assert group.members == (Member(NO_CHANNEL, "grpc", "JAVA", 513, "10.0.0.7:5"),)
    subscription = Subscribed("t", "a || b", version=round(listed.now * 1000))
    assert group.membership == Membership("shared", (subscription,))
    assert listed.broker.subscription("shared", "t") == subscription
    assert [each.client_id for each in listed.broker.producers("t")] == ["sender"]
    assert listed.broker.producers("shared") == ()


def test_a_classic_member_decides_what_a_mixed_group_wants(listed: Any) -> None:
    assert beat(listed, 1, membership("u")) == [ForChannels((1,), CHANGED)]
    group = listed.broker.members("shared")
    assert [member.client_id for member in group.members] == ["c1", "grpc"]
    assert [each.topic for each in group.membership.subscriptions] == ["u"]


def test_grpc_clients_cause_no_notification(listed: Any) -> None:
    beat(listed, 1, membership("t"))
    subscription = Subscription("shared", (("t", FilterExpression()),))
    settings = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=subscription)
    listed.broker.settings("another", settings, now=listed.now)
    assert listed.broker.take_outputs() == ()
    listed.broker.terminate("grpc", "shared", now=listed.now)
    assert listed.broker.take_outputs() == ()
    assert [member.client_id for member in listed.broker.members("shared").members] == ["c1", "another"]


def test_the_clients_of_a_separate_proxy_are_not_listed(make_desk: Any) -> None:
    hidden = listing(make_desk(fields={"grpc_members_listed": False}))
    assert hidden.broker.members("shared") is None
    assert hidden.broker.producers("t") == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_closed_connection_leaves_all_its_groups(desk: Any, count: int) -> None:
    names = [f"shared{number}" for number in range(count)]
    beat(desk, 1, *(Membership(name, (Subscribed("t", "*"),)) for name in names), producers=tuple(names))
    desk.broker.close_channel(1, now=desk.now)
    assert [desk.broker.members(name) for name in names] == [None] * count
    left = [(event.group, event.client_type) for event in desk.seen(ClientLeft)]
    kinds = (ClientType.PULL_CONSUMER, ClientType.PRODUCER)
    assert sorted(left, key=str) == sorted(((name, kind) for name in names for kind in kinds), key=str)
