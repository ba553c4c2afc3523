"""Ordered groups in both grains: the message group of the contract, the queue of real servers."""

from itertools import permutations
from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code, Refusal, TopicType
from aiorocketmq_fake.core.values.events import Filtered, OffsetCommitted
from aiorocketmq_fake.core.values.model import GroupConfig, TopicConfig


def send(desk: Any, *ids: str, group: str = "A") -> None:
    desk.send(*ids, message_group=group)


def test_messages_come_in_the_order_they_were_sent(ordered: Any) -> None:
    send(ordered, *(f"m{index:02}" for index in range(20)))
    bodies = []
    for _ in range(20):
        delivery = ordered.one()
        bodies.append(delivery.message.content.message_id)
        ordered.ack(delivery)
    assert bodies == sorted(bodies)
    assert len(bodies) == 20


def test_an_unacked_message_blocks_its_successors_until_it_is_acked(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    first = ordered.one()
    assert ordered.ids() == []
    poll_id = ordered.park()
    ordered.ack(first)
    assert [d.message.content.message_id for d in ordered.answers()[poll_id].deliveries] == ["m1"]


def test_an_unacked_message_blocks_its_successor(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    for attempt in (1, 2, 3, 4):
        delivery = ordered.one()
        assert (delivery.message.content.message_id, delivery.attempt) == ("m0", attempt)
        ordered.wait(10.0)


def test_redelivery_is_exact(ordered: Any) -> None:
    """R8.11: no retry topic, no latency."""
    send(ordered, "m")
    ordered.one()
    ordered.wait(9.999)
    assert ordered.ids() == []
    ordered.wait(0.001)
    assert ordered.one().attempt == 2
    assert [topic.config.name for topic in ordered.broker.topics()] == ["t"]


def test_a_waiting_consumer_is_woken_when_the_lease_ends(ordered: Any) -> None:
    """R8.12: within a tick."""
    send(ordered, "m")
    ordered.one()
    poll_id = ordered.park()
    ordered.wait(9.999)
    assert ordered.answers() == {}
    ordered.wait(0.001 + ordered.profile.ordered_wake_latency)
    assert ordered.answers()[poll_id].deliveries[0].attempt == 2


def test_a_change_moves_the_redelivery_exactly(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    ordered.change(ordered.one(invisible=60.0), 1.0)
    ordered.wait(0.999)
    assert ordered.ids() == []
    ordered.wait(0.001)
    delivery = ordered.one()
    assert delivery.attempt == 2
    ordered.change(delivery, 25.0)
    ordered.wait(24.999)
    assert ordered.ids() == []
    ordered.wait(0.001)
    assert ordered.one().attempt == 3


def test_a_change_to_nothing_gives_the_message_to_a_waiting_consumer(ordered: Any) -> None:
    send(ordered, "m")
    delivery = ordered.one()
    poll_id = ordered.park()
    ordered.change(delivery, 0.0)
    ordered.wait(ordered.profile.ordered_wake_latency)
    assert ordered.answers()[poll_id].deliveries[0].attempt == 2


def test_a_changed_handle_acks(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    handle = ordered.change(ordered.one(), 20.0)
    assert ordered.ack(handle) is Code.OK
    assert ordered.ids() == ["m1"]


def test_a_late_ack_is_refused_and_the_order_stays(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    first = ordered.one()
    ordered.wait(10.0)
    assert ordered.ack(first) is Code.INVALID_RECEIPT_HANDLE
    second = ordered.one()
    assert second.message.content.message_id == "m0"
    assert ordered.ack(first) is Code.INVALID_RECEIPT_HANDLE
    assert ordered.ack(second) is Code.OK
    assert ordered.ids() == ["m1"]


def test_a_batch_is_a_prefix_without_gap(ordered: Any) -> None:
    send(ordered, *(f"m{index}" for index in range(5)))
    assert ordered.ids(3) == ["m0", "m1", "m2"]
    assert ordered.ids(3) == []


def test_acks_of_a_batch_may_come_in_any_order(ordered: Any) -> None:
    """R8.10."""
    send(ordered, *(f"m{index}" for index in range(4)))
    first, second, third = ordered.receive(3)
    for delivery in (third, first, second):
        assert ordered.ids() == []
        ordered.ack(delivery)
    assert ordered.ids() == ["m3"]


@pytest.mark.parametrize("ends", [*permutations((1.0, 2.0, 3.0))], ids=str)
def test_a_batch_whose_leases_end_in_any_order_is_redelivered_in_its_own(
    ordered: Any, ends: tuple[float, ...]
) -> None:
    """R8.11: blocked until the last lease has ended, then in the order of the messages."""
    send(ordered, "m0", "m1", "m2", "m3")
    for delivery, seconds in zip(ordered.receive(3), ends, strict=True):
        ordered.change(delivery, seconds)
    ordered.wait(2.999)
    assert ordered.ids() == []
    ordered.wait(0.001)
    for message_id in ("m0", "m1", "m2", "m3"):
        delivery = ordered.one()
        assert delivery.message.content.message_id == message_id
        ordered.ack(delivery)


def test_a_gap_returns_alone_in_the_contract(lanes: Any) -> None:
    """O13: only un-acked messages return."""
    send(lanes, *(f"m{index}" for index in range(4)))
    _, second, third = lanes.receive(3)
    lanes.ack(second)
    lanes.ack(third)
    lanes.wait(10.0)
    assert lanes.ids() == ["m0", "m3"]


def test_a_gap_returns_with_its_acked_followers_on_a_real_server(queues: Any) -> None:
    """R8.8, consumption §6: batch 0 to 3, acks of 1 and 3, then of 0: 2, 3 and new ones come, all as attempt
    1."""
    send(queues, *(f"m{index}" for index in range(5)))
    zero, one, _, three = queues.receive(4)
    queues.ack(one)
    queues.ack(three)
    assert queues.broker.offsets("g")[0].offset == 0
    queues.ack(zero)
    assert queues.broker.offsets("g")[0].offset == 2
    queues.wait(10.0)
    deliveries = queues.receive()
    assert [d.message.content.message_id for d in deliveries] == ["m2", "m3", "m4"]
    assert [d.attempt for d in deliveries] == [1, 1, 1]


def test_a_batch_of_old_messages_only_counts_on_a_real_server(queues: Any) -> None:
    send(queues, "m0", "m1")
    queues.receive()
    queues.wait(10.0)
    assert [d.attempt for d in queues.receive()] == [2, 2]


def test_behind_a_cluster_each_message_of_a_batch_has_its_own_attempt(make_apache: Any) -> None:
    """R8.13."""
    desk = make_apache(ordered=True, type=TopicType.FIFO, fields={"ordered_attempts_per_batch": False})
    send(desk, "m0")
    desk.receive()
    desk.wait(10.0)
    send(desk, "m1")
    assert [d.attempt for d in desk.receive()] == [2, 1]


def test_a_suspended_batch_counts_where_the_profile_says_so(make_apache: Any) -> None:
    """R6.15."""
    for counts, attempts in ((True, [1, 2, 3]), (False, [1, 1, 1])):
        desk = make_apache(ordered=True, type=TopicType.FIFO, fields={"ordered_suspend_counts": counts})
        send(desk, "m0")
        seen = []
        for _ in attempts:
            delivery = desk.one()
            seen.append(delivery.attempt)
            desk.change(delivery, 0.0, suspend=True)
        assert seen == attempts


def test_each_message_of_a_batch_has_its_own_attempt_in_the_contract(lanes: Any) -> None:
    send(lanes, "m0")
    lanes.receive()
    lanes.wait(10.0)
    send(lanes, "m1")
    assert [d.attempt for d in lanes.receive()] == [2, 1]


def test_the_first_ack_alone_moves_the_offset_by_one(ordered: Any) -> None:
    send(ordered, *(f"m{index}" for index in range(3)))
    first, *_ = ordered.receive(3)
    ordered.ack(first)
    assert ordered.ids() == []
    ordered.wait(10.0)
    assert ordered.ids(1) == ["m1"]
    assert [(event.queue_id, event.offset) for event in ordered.seen(OffsetCommitted)] == [(0, 1)]


def test_a_batch_comes_free_when_every_unacked_message_is_visible(ordered: Any) -> None:
    """R8.11: one extended message holds the others."""
    send(ordered, *(f"m{index}" for index in range(3)))
    first, second, _ = ordered.receive(3)
    ordered.ack(first)
    ordered.change(second, 30.0)
    ordered.wait(29.999)
    assert ordered.ids() == []
    ordered.wait(0.001)
    assert ordered.ids() == ["m1", "m2"]


@pytest.mark.parametrize(("place", "notices"), [(0, True), (1, False), (2, False)])
def test_a_real_server_looks_again_when_the_first_open_lease_ends(
    queues: Any, place: int, notices: bool
) -> None:
    """R8.11, seen on 5.5.0: what holds a later message is found out at the poll's own end."""
    send(queues, "done", "m0", "m1", "m2")
    done, *deliveries = queues.receive()
    queues.ack(done)
    queues.change(deliveries[place], 13.0)
    poll_id = queues.park(polling=20.0)
    queues.wait(15.0)
    answers = queues.answers()
    assert list(answers) == [poll_id] * notices
    queues.wait(5.0)
    answers |= queues.answers()
    assert len(answers[poll_id].deliveries) == 3


def test_a_real_server_wakes_polls_for_a_single_message(queues: Any) -> None:
    send(queues, "m0")
    queues.change(queues.one(), 13.0)
    poll_id = queues.park(polling=20.0)
    queues.wait(13.1)
    assert list(queues.answers()) == [poll_id]


def test_the_contract_wakes_polls_at_every_end(lanes: Any) -> None:
    send(lanes, "m0", "m1")
    first, _ = lanes.receive()
    lanes.change(first, 13.0)
    poll_id = lanes.park(polling=20.0)
    lanes.wait(13.0)
    assert list(lanes.answers()) == [poll_id]


def test_the_contract_does_not_block_other_message_groups(lanes: Any) -> None:
    send(lanes, "a0", "a1")
    send(lanes, "b0", "b1", group="B")
    assert lanes.ids(1) == ["a0"]
    assert lanes.ids(1) == ["b0"]
    assert lanes.ids(1) == []


def test_the_whole_queue_waits_on_a_real_server(queues: Any) -> None:
    """Trap 14."""
    send(queues, "a0")
    send(queues, "b0", group="B")
    first = queues.one()
    assert queues.ids() == []
    queues.ack(first)
    assert queues.ids() == ["b0"]


def test_interleaved_message_groups_each_keep_their_order(lanes: Any) -> None:
    for index in range(6):
        send(lanes, f"{'AB'[index % 2]}{index}", group="AB"[index % 2])
    assert lanes.ids(3) == ["A0", "B1", "A2"]
    assert lanes.ids(3) == []
    lanes.wait(10.0)
    assert lanes.ids(9) == ["A0", "B1", "A2", "B3", "A4", "B5"]


def test_a_lane_returns_before_what_was_read_behind_it(lanes: Any) -> None:
    send(lanes, "a0", "a1")
    send(lanes, "b0", group="B")
    send(lanes, "a2")
    held = lanes.one()
    assert lanes.ids() == ["b0"]
    lanes.ack(held)
    assert lanes.ids(1) == ["a1"]
    lanes.wait(10.0)
    assert lanes.ids() == ["a1", "b0", "a2"]


def test_a_blocked_queue_does_not_stop_the_others(make_desk: Any) -> None:
    desk = make_desk(ordered=True, type=TopicType.FIFO, queues=4)
    desk.send("a0", "a1", message_group="A")
    desk.send("g0", message_group="group-0")
    assert sorted(desk.ids(1) + desk.ids(1)) == ["a0", "g0"]


def test_several_consumers_share_the_order(ordered: Any) -> None:
    """R8.16."""
    ordered.join("d")
    send(ordered, "m0", "m1")
    first = ordered.one()
    assert ordered.ids(client="d") == []
    ordered.ack(first)
    assert ordered.ids(client="d") == ["m1"]


def test_messages_without_group_are_one_sequence(make_desk: Any) -> None:
    """R8.1: order belongs to the group, whatever the topic."""
    desk = make_desk(ordered=True)
    desk.send("m0", "m1")
    first = desk.one()
    assert desk.ids() == []
    desk.ack(first)
    assert desk.ids() == ["m1"]


def test_a_normal_group_reads_a_fifo_topic_without_order(make_desk: Any) -> None:
    desk = make_desk(type=TopicType.FIFO)
    send(desk, "m0", "m1")
    assert desk.ids(1) + desk.ids(1) == ["m0", "m1"]


# Filters


def test_filtered_messages_never_block(ordered: Any) -> None:
    for index in range(6):
        ordered.send(f"m{index}", message_group="A", tag="ab"[index % 2])
    bodies = []
    for _ in range(3):
        delivery = ordered.one(tag="a")
        bodies.append(delivery.message.content.message_id)
        ordered.ack(delivery)
    assert bodies == ["m0", "m2", "m4"]
    assert ordered.ids(tag="a") == []


def test_a_queue_of_unwanted_messages_is_passed_for_good(ordered: Any) -> None:
    """R8.18."""
    ordered.send("m0", "m1", message_group="A", tag="b")
    assert ordered.ids(tag="a") == []
    assert ordered.broker.offsets("g")[0].offset == 2
    assert ordered.ids(tag="*") == []


def test_the_next_filter_may_skip_a_delivered_message(ordered: Any) -> None:
    """R8.18: recorded as filtered, so that no audit misses it."""
    ordered.send("m0", message_group="A")
    ordered.one()
    ordered.wait(10.0)
    assert ordered.ids(tag="a") == []
    assert [event.message.content.message_id for event in ordered.seen(Filtered)] == ["m0"]
    assert ordered.ids() == []


def test_each_rejected_message_is_reported_once(ordered: Any) -> None:
    ordered.send("m0", message_group="A", tag="b")
    ordered.send("m1", message_group="A", tag="a")
    for _ in range(3):
        assert ordered.ids(tag="a") == ["m1"]
        ordered.wait(10.0)
    assert [event.message.content.message_id for event in ordered.seen(Filtered)] == ["m0"]


def test_a_tag_of_equal_hash_does_not_block(ordered: Any) -> None:
    ordered.send("m0", message_group="A", tag="BBBB")
    ordered.send("m1", message_group="A", tag="AaAa")
    ids = ordered.ids(tag="AaAa")
    assert ids == ["m1"]


def test_a_message_that_waits_in_its_lane_may_be_filtered_later(lanes: Any) -> None:
    lanes.send("m0", message_group="A", tag="a")
    lanes.send("m1", message_group="A", tag="b")
    first = lanes.one()
    assert lanes.ids() == []
    lanes.ack(first)
    assert lanes.ids(tag="a") == []
    assert lanes.broker.offsets("g")[0].offset == 2


# Dead letters


def test_a_spent_message_frees_its_successors(make_desk: Any) -> None:
    desk = make_desk(ordered=True, type=TopicType.FIFO, max_attempts=2)
    send(desk, "m0", "m1")
    for _ in range(2):
        desk.one()
        desk.wait(10.0)
    ids = desk.ids(1) or desk.ids(1)
    assert ids == ["m1"]
    (letter,) = desk.broker.dead_letters("g")
    assert letter.attempts_before == (1 if desk.profile.dead_letters_keep_attempts else 0)


def test_a_waiting_consumer_gets_the_successor_of_a_spent_message(make_documented: Any) -> None:
    desk = make_documented(ordered=True, type=TopicType.FIFO, max_attempts=1)
    send(desk, "m0", "m1")
    desk.one()
    poll_id = desk.park()
    desk.wait(10.0)
    assert [d.message.content.message_id for d in desk.answers()[poll_id].deliveries] == ["m1"]


def test_a_forward_frees_the_successors(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    first = ordered.one()
    poll_id = ordered.park()
    ordered.forward(first)
    assert [d.message.content.message_id for d in ordered.answers()[poll_id].deliveries] == ["m1"]
    assert len(ordered.broker.dead_letters("g")) == 1


def test_an_ordered_forward_by_the_first_handle_settles(queues: Any) -> None:
    """Consumption §5a row 2."""
    send(queues, "m0", "m1")
    first = queues.one()
    queues.change(first, 12.0)
    queues.forward(first)
    assert [letter.content.message_id for letter in queues.broker.dead_letters("g")] == ["m0"]
    assert queues.ids() == ["m1"]


# Switching


def test_a_group_may_become_normal_and_ordered_again(ordered: Any) -> None:
    """R8.21: nothing is lost, some may come twice."""
    send(ordered, "m0", "m1", "m2")
    first = ordered.one()
    ordered.broker.update_group(GroupConfig("g", ordered=False), now=ordered.now)
    assert ordered.ids() == ["m0", "m1", "m2"]
    assert ordered.ack(first) is Code.OK
    ordered.broker.update_group(GroupConfig("g", ordered=True), now=ordered.now)
    send(ordered, "m3")
    assert ordered.ids() == ["m3"]


def test_a_lease_of_before_the_switch_ends_quietly(ordered: Any) -> None:
    send(ordered, "m0")
    ordered.one()
    ordered.broker.update_group(GroupConfig("g", ordered=False), now=ordered.now)
    ordered.wait(10.0)
    assert ordered.ids() == ["m0"]


def test_other_groups_keep_their_order_records(ordered: Any) -> None:
    ordered.add_group("h", ordered=True)
    ordered.join("d", "h")
    send(ordered, "m0", "m1")
    assert ordered.ids(1, client="d", group="h") == ["m0"]
    ordered.broker.update_group(GroupConfig("g", ordered=False), now=ordered.now)
    assert ordered.ids(1, client="d", group="h") == []


def test_a_garbage_ack_in_an_ordered_group_is_refused(ordered: Any) -> None:
    with pytest.raises(Refusal):
        ordered.change("garbage", 1.0)


def test_an_order_record_restarts_after_a_day_of_rest(queues: Any) -> None:
    """8.3: the position stays, the attempts count from 1 again."""
    queues.send("a", "b", message_group="A")
    queues.ack(queues.receive()[0])
    queues.wait(86_400.0)
    assert queues.one().attempt == 2
    queues.wait(86_401.0)
    again = queues.one()
    assert (again.message.content.message_id, again.attempt) == ("b", 1)


def test_order_records_of_the_contract_do_not_expire(lanes: Any) -> None:
    lanes.send("a", message_group="A")
    lanes.one()
    lanes.wait(86_401.0)
    assert lanes.one().attempt == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_switch_ends_the_order_records_of_all_topics(ordered: Any, count: int) -> None:
    topics = [f"t{number}" for number in range(count)]
    for topic in topics:
        ordered.broker.create_topic(TopicConfig(topic, TopicType.FIFO, 1, 1), now=ordered.now)
        ordered.send("m0", "m1", "m2", topic=topic, message_group="A")
        ordered.ack(ordered.one(topic=topic), topic=topic)
        assert ordered.ids(1, topic=topic) == ["m1"]
    ordered.broker.update_group(GroupConfig("g", ordered=False), now=ordered.now)
    assert [ordered.ids(topic=topic) for topic in topics] == [["m1", "m2"]] * count


def test_a_real_server_wakes_polls_for_the_last_open_message(queues: Any) -> None:
    """Consumption §1: exact if one offset blocks the queue, although its batch had two."""
    send(queues, "m0", "m1")
    first, second = queues.receive()
    queues.ack(second)
    queues.change(first, 13.0)
    poll_id = queues.park(polling=20.0)
    queues.wait(13.0 + queues.profile.ordered_wake_latency)
    assert len(queues.answers()[poll_id].deliveries) == 2
