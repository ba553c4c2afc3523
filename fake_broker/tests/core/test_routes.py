"""Routes and assignments (3)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Code,
    MessageType,
    Permission,
    Refusal,
    TopicType,
)
from aiorocketmq_fake.core.values.model import ClientSettings, RouteEntry, Subscription, TopicConfig

NONE, READ, WRITE, BOTH = Permission.NONE, Permission.READ, Permission.WRITE, Permission.READ_WRITE


@pytest.mark.parametrize(
    ("read", "write", "permission", "expected"),
    [
        (4, 4, BOTH, [BOTH] * 4),
        (4, 2, BOTH, [READ, READ, BOTH, BOTH]),
        (2, 4, BOTH, [WRITE, WRITE, BOTH, BOTH]),
        (3, 1, READ, [READ] * 3),
        (1, 3, WRITE, [WRITE] * 3),
        (2, 3, NONE, [NONE] * 3),
        (0, 0, NONE, [NONE]),
    ],
)
def test_queues_are_laid_out_as_on_real_servers(
    desk: Any, read: int, write: int, permission: Permission, expected: list[Permission]
) -> None:
    """R3.2, session §3."""
    desk.broker.update_topic(
        TopicConfig("t", read_queues=read, write_queues=write, permission=permission), now=desk.now
    )
    route = desk.broker.query_route("t", now=desk.now)
    assert [entry.permission for entry in route] == expected
    assert [entry.queue_id for entry in route] == list(range(len(expected)))
    assert {entry.broker for entry in route} == {"broker-a"}


@pytest.mark.parametrize(
    ("topic_type", "accepts"),
    [
        (TopicType.NORMAL, (MessageType.NORMAL,)),
        (TopicType.UNSPECIFIED, (MessageType.UNSPECIFIED,)),
        (TopicType.FIFO, (MessageType.FIFO,)),
        (TopicType.LITE, (MessageType.LITE,)),
        (TopicType.PRIORITY, (MessageType.PRIORITY,)),
    ],
)
def test_routes_list_the_accepted_message_types(
    make_desk: Any, topic_type: TopicType, accepts: tuple[MessageType, ...]
) -> None:
    desk = make_desk(type=topic_type)
    assert desk.broker.query_route("t", now=desk.now) == (RouteEntry("t", 0, BOTH, "broker-a", accepts),)


def refused(desk: Any, *args: str) -> Code:
    command = desk.broker.query_route if len(args) == 1 else desk.broker.query_assignment
    with pytest.raises(Refusal) as caught:
        command(*args, now=desk.now)
    return caught.value.code


def test_routes_of_unknown_and_illegal_topics(desk: Any) -> None:
    """R3.1: nothing is created on the way."""
    assert refused(desk, "unknown") is Code.TOPIC_NOT_FOUND
    assert refused(desk, "%RETRY%g") is Code.TOPIC_NOT_FOUND
    assert refused(desk, " ") is Code.ILLEGAL_TOPIC
    assert refused(desk, "TBW102") is Code.ILLEGAL_TOPIC


def test_a_normal_or_unknown_group_is_assigned_all_queues_at_once(make_desk: Any) -> None:
    """R3.7."""
    desk = make_desk(queues=4)
    for group in ("g", "unknown"):
        (entry,) = desk.broker.query_assignment("c", "t", group, now=desk.now)
        assert (entry.queue_id, entry.permission, entry.accepts) == (-1, BOTH, ())


def test_an_ordered_group_is_assigned_every_readable_queue(make_desk: Any) -> None:
    desk = make_desk(ordered=True, queues=4)
    assignment = desk.broker.query_assignment("c", "t", "g", now=desk.now)
    assert [entry.queue_id for entry in assignment] == [0, 1, 2, 3]
    assert assignment == desk.broker.query_assignment("d", "t", "g", now=desk.now)


def test_assignments_that_are_refused(desk: Any) -> None:
    assert refused(desk, "c", "unknown", "g") is Code.TOPIC_NOT_FOUND
    assert refused(desk, "c", " ", "g") is Code.ILLEGAL_TOPIC
    assert refused(desk, "c", "t", " ") is Code.ILLEGAL_CONSUMER_GROUP
    desk.broker.update_topic(TopicConfig("t", permission=WRITE), now=desk.now)
    assert refused(desk, "c", "t", "g") is Code.FORBIDDEN


@pytest.mark.parametrize(
    ("queues", "count"), [(1, 1), (1, 2), (3, 2), (4, 2), (5, 2), (5, 3), (7, 3), (3, 5)]
)
def test_pull_consumers_of_a_group_share_its_queues_evenly(
    make_documented: Any, queues: int, count: int
) -> None:
    desk = make_documented(queues=queues)
    clients = [f"p{number}" for number in range(count)]
    for client in clients:
        settings = ClientSettings(ClientType.PULL_CONSUMER, subscription=Subscription("g"))
        desk.broker.settings(client, settings, now=desk.now)
    shares = [
        [entry.queue_id for entry in desk.broker.query_assignment(client, "t", "g", now=desk.now)]
        for client in clients
    ]
    assert sorted(queue for share in shares for queue in share) == list(range(queues))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
