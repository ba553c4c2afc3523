"""Which queue a send goes to."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from aiorocketmq._core.endpoint import Endpoint, parse_endpoint
from aiorocketmq._core.route import MessageQueue, QueueChoice, Route, RouteQueue

A, B = parse_endpoint("10.0.0.1:8081"), parse_endpoint("10.0.0.2:8081")


def queue(broker: str, number: int, endpoint: Endpoint = A, **facts: object) -> RouteQueue:
    return RouteQueue(MessageQueue("t", broker, number), endpoint, **facts)  # type: ignore[arg-type]


TWO_BROKERS = Route("t", [queue("a", 0), queue("a", 1), queue("b", 0, B), queue("b", 1, B)])


def test_only_masters_that_may_be_written_are_sent_to() -> None:
    route = Route("t", [queue("a", 0, writable=False), queue("a", 1, broker_id=1), queue("a", 2)])
    assert [each.queue.id for each in route.writable] == [2]
    assert [each.queue.id for each in route.readable] == [0, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": B},
        {"broker_id": 1},
        {"readable": False},
        {"writable": False},
        {"accepts": frozenset({"FIFO"})},
    ],
)
def test_a_route_with_a_queue_that_differs_in_anything_is_another_one(change: dict[str, Any]) -> None:
    assert Route("t", [queue("a", 0)]) == Route("t", [queue("a", 0)])
    assert Route("t", [queue("a", 0)]) != Route("t", [replace(queue("a", 0), **change)])


def test_sends_take_every_queue_in_turn_from_a_random_start() -> None:
    choice = QueueChoice(Random(7))
    chosen = [choice.first(TWO_BROKERS, ()) for _ in range(8)]
    counts = Counter(each[0].queue for each in chosen if each is not None)
    assert set(counts.values()) == {2}
    starts = {QueueChoice(Random(seed)).first(TWO_BROKERS, ()) for seed in range(30)}
    assert len({each[0].queue for each in starts if each is not None}) == 4


def test_retries_go_to_another_broker_each() -> None:
    candidates = QueueChoice(Random(1)).candidates(TWO_BROKERS, 0, ())
    assert [each.queue.broker for each in candidates] == ["a", "b"]


def test_an_isolated_server_is_avoided_while_another_is_left() -> None:
    choice = QueueChoice(Random(1))
    for _ in range(8):
        first = choice.first(TWO_BROKERS, {A})
        assert first is not None
        assert first[0].endpoint == B
    assert {each.endpoint for each in choice.candidates(TWO_BROKERS, 0, {A})} == {B}


def test_when_all_servers_are_isolated_they_are_used_all_the_same() -> None:
    assert len(QueueChoice(Random(1)).candidates(TWO_BROKERS, 0, {A, B})) == 2


def test_a_topic_without_a_writable_queue_has_no_candidates() -> None:
    route = Route("t", [queue("a", 0, writable=False)])
    choice = QueueChoice(Random(1))
    assert choice.first(route, ()) is None
    assert choice.candidates(route, 0, ()) == ()
    assert choice.of_message_group(route, "g") is None


def test_a_message_group_always_goes_to_the_same_queue() -> None:
    choice = QueueChoice(Random(1))
    assert {choice.of_message_group(TWO_BROKERS, "group0") for _ in range(5)} == {TWO_BROKERS.writable[0]}


def test_a_broker_is_polled_as_a_whole_and_each_once() -> None:
    assert [(each.queue.broker, each.queue.id) for each in TWO_BROKERS.readable_brokers] == [
        ("a", 0),
        ("b", 0),
    ]


def test_brokers_behind_one_proxy_are_several_brokers() -> None:
    route = Route("t", [queue("a", 0), queue("b", 0), queue("b", 1)])
    candidates = QueueChoice(Random(1)).candidates(route, 2, ())
    assert [(each.queue.broker, each.queue.id) for each in candidates] == [("b", 1), ("a", 0)]
    assert [each.queue.broker for each in route.readable_brokers] == ["a", "b"]


def test_every_server_of_a_topic_is_named_once_whatever_its_queues_are_open_for() -> None:
    """Settings and heartbeats go to all of them."""
    others = [parse_endpoint(f"10.0.0.{number}:8081") for number in (4, 3)]
    closed = queue("c", 0, others[0], readable=False), queue("d", 0, others[1], writable=False)
    route = Route("t", [*closed, *TWO_BROKERS.queues, queue("a", 0, others[1], broker_id=1)])
    assert route.endpoints == (*others, A, B)


def test_the_types_that_a_topic_takes_are_those_of_its_writable_queues() -> None:
    normal, fifo, delay = map(frozenset, (["NORMAL"], ["FIFO"], ["DELAY"]))
    closed = queue("a", 1, writable=False, accepts=delay)
    route = Route("t", [queue("a", 0, accepts=normal), closed, queue("b", 0, B, accepts=fifo)])
    assert route.accepts == normal | fifo
    assert TWO_BROKERS.accepts == frozenset()
