"""A broker that is rebuilt from what a damaged folder still has: groups go on where they were."""

import random
from collections.abc import Collection
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.salvage import Salvaged
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, TopicConfig
from aiorocketmq_fake.core.values.names import retry_topic

from fake_broker.tests.core.conftest import Desk

RETRY = retry_topic("g", "t")


def rebuild(desk: Desk, *, lost: Collection[str] = (), lost_copies: Collection[str] = ()) -> None:
    """Replace the desk's broker by one rebuilt without some messages of the topic and of its redeliveries."""
    left = []
    for name, gone in (("t", lost), (RETRY, lost_copies)):
        queues = tuple(
            tuple(each for each in queue if each.content.message_id not in gone)
            for queue in desk.broker.entries(name)
        )
        if queues:
            config = TopicConfig(name, TopicType.NORMAL, len(queues), len(queues))
            left.append(Salvaged(config, name == RETRY, queues))
    positions = desk.broker.group_positions()
    desk.broker = Broker(desk.profile, now=desk.now, rng=random.Random(7))
    desk.broker.rebuild(left, [GroupConfig("g")], positions)
    desk.join("c")


@pytest.mark.parametrize(
    ("lost", "rest"),
    [
        ((), ["m3", "m4"]),
        (("m0",), ["m3", "m4"]),
        (("m1",), ["m3", "m4"]),
        (("m2",), ["m3", "m4"]),
        (("m0", "m1", "m2"), ["m3", "m4"]),
        (("m3",), ["m4"]),
        (("m4",), ["m3"]),
        (("m2", "m3"), ["m4"]),
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_a_group_goes_on_behind_what_it_has_settled(
    desk: Any, lost: tuple[str, ...], rest: list[str]
) -> None:
    desk.send("m0", "m1", "m2", "m3", "m4")
    desk.ack_all(*(delivery.receipt_handle for delivery in desk.receive(3)))
    rebuild(desk, lost=lost)
    assert desk.ids() == rest


@pytest.mark.parametrize("settled", [0, 1, 2, 3])
def test_messages_in_flight_are_redelivered(desk: Any, settled: int) -> None:
    desk.send("m0", "m1", "m2")
    handles = [delivery.receipt_handle for delivery in desk.receive(3)]
    if settled:
        desk.ack_all(*handles[:settled])
    rebuild(desk)
    assert desk.ids() == ["m0", "m1", "m2"][settled:]


@pytest.mark.parametrize(
    ("settled", "lost", "rest"),
    [
        (0, (), ["m0", "m1", "m2"]),
        (1, (), ["m1", "m2"]),
        (2, (), ["m2"]),
        (3, (), []),
        (2, ("m0",), ["m2"]),
        (2, ("m1",), ["m2"]),
        (2, ("m2",), []),
    ],
)
def test_redeliveries_go_on_where_they_were(
    desk: Any, settled: int, lost: tuple[str, ...], rest: list[str]
) -> None:
    desk.send("m0", "m1", "m2")
    desk.receive(3)
    desk.wait_for_return()
    if settled:
        desk.ack_all(*(delivery.receipt_handle for delivery in desk.receive(settled)))
    rebuild(desk, lost_copies=lost)
    assert desk.ids() == rest


def test_only_groups_and_topics_that_are_left_have_progress(desk: Any) -> None:
    desk.send("m0", "m1")
    desk.ack(desk.one())
    positions = desk.broker.group_positions()
    (queue,) = desk.broker.entries("t")
    topic = Salvaged(TopicConfig("t", TopicType.NORMAL, 1, 1), False, (tuple(queue),))
    for topics, groups in (([topic], []), ([], [GroupConfig("g")]), ([], [])):
        other = Broker(desk.profile, now=desk.now, rng=random.Random(7))
        other.rebuild(topics, groups, positions)
        assert other.group_positions() == []
