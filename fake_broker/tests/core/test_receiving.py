"""Receiving: who may, how long it waits, what it gets."""

from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import ClientType, Code, FilterType, Permission, Refusal, TopicType
from aiorocketmq_fake.core.values.events import Delivered, Filtered, GroupChanged, PollParked, ReceiveEnded
from aiorocketmq_fake.core.values.handles import decode
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    FilterExpression,
    GroupConfig,
    Parked,
    TopicConfig,
)


def refused(desk: Any, **fields: Any) -> Code:
    with pytest.raises(Refusal) as caught:
        desk.ask(**fields)
    assert caught.value.message.endswith(".")
    return caught.value.code


# Checks (5.1)


def test_a_client_without_settings_may_not_receive(desk: Any) -> None:
    assert refused(desk, client="stranger") is desk.profile.no_settings_code


def test_a_producer_may_receive(desk: Any) -> None:
    """R5.1: only some settings must be there."""
    desk.broker.settings("p", ClientSettings(ClientType.PRODUCER, topics=("t",)), now=desk.now)
    desk.send("m")
    assert desk.ids(client="p") == ["m"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, Code.ILLEGAL_TOPIC),
        ({"topic": " "}, Code.ILLEGAL_TOPIC),
        ({"group": "a b"}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"group": "CID_RMQ_SYS_x"}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"topic": " ", "group": " "}, Code.ILLEGAL_TOPIC),
        ({"group": " ", "invisible": -1.0}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"invisible": None}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"invisible": 0.0}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"invisible": -1.0}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"invisible": 43_200.001}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"tag": "||", "invisible": 0.0}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"tag": "||"}, Code.ILLEGAL_FILTER_EXPRESSION),
        ({"tag": "||", "topic": "missing"}, Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_each_check_has_its_code_and_its_place(desk: Any, fields: dict[str, Any], code: Code) -> None:
    assert refused(desk, **fields) is code


def test_leases_have_bounds(desk: Any) -> None:
    shortest = desk.profile.invisible_min
    desk.send("a", "b")
    assert desk.one(invisible=shortest).invisible_until == desk.now + shortest
    assert desk.one(invisible=43_200.0).invisible_until == desk.now + 43_200.0


def test_a_real_server_wants_leases_of_ten_seconds(apache: Any) -> None:
    assert refused(apache, invisible=9.999) is Code.ILLEGAL_INVISIBLE_TIME


def test_auto_renew_needs_no_lease_and_gets_a_minute(desk: Any) -> None:
    desk.send("m")
    assert desk.one(auto_renew=True).invisible_until == desk.now + 60.0


def test_an_unknown_topic_is_refused(desk: Any) -> None:
    assert refused(desk, topic="missing") is desk.profile.unknown_topic_receive_code


@pytest.mark.parametrize(
    "config", [TopicConfig("t", permission=Permission.WRITE), TopicConfig("t", read_queues=0)]
)
def test_a_topic_without_readable_queue_is_refused(desk: Any, config: TopicConfig) -> None:
    desk.broker.update_topic(config, now=desk.now)
    assert refused(desk) is Code.FORBIDDEN


def test_an_unknown_group_is_created_or_refused(documented: Any, apache: Any) -> None:
    """R10.2; what the contract calls CONSUMER_GROUP_NOT_FOUND a real server creates."""
    assert refused(documented, group="new") is Code.CONSUMER_GROUP_NOT_FOUND
    apache.send("m")
    assert apache.ids(group="new") == ["m"]
    (group,) = [group for group in apache.broker.groups() if group.config.name == "new"]
    assert (group.auto_created, group.config.ordered, group.config.max_attempts) == (True, False, 17)
    assert [event.config.name for event in apache.seen(GroupChanged)] == ["g", "new"]


def test_a_group_that_may_not_consume_is_refused(desk: Any) -> None:
    desk.broker.update_group(GroupConfig("g", consume_enabled=False), now=desk.now)
    assert refused(desk) is desk.profile.disabled_group_code


def test_a_negative_batch_size_is_refused(desk: Any) -> None:
    assert refused(desk, batch_size=-1) is desk.profile.bad_batch_size_code


@pytest.mark.parametrize("text", ["a = = 1", "a !", "a = NULL", " ", "(" * 1000 + "TRUE" + ")" * 1000])
def test_an_sql_filter_that_cannot_be_read_is_refused(desk: Any, text: str) -> None:
    """R5.25; nothing is delivered, and above all not everything."""
    desk.send("m")
    assert refused_sql(desk, text) is desk.profile.sql_refusal_code
    assert desk.broker.leases() == ()


def test_an_empty_sql_filter_is_refused_by_a_code_of_its_own(desk: Any) -> None:
    assert refused_sql(desk, "") is Code.ILLEGAL_FILTER_EXPRESSION


def refused_sql(desk: Any, text: str) -> Code:
    with pytest.raises(Refusal) as caught:
        desk.broker.receive(sql_request(desk, text), now=desk.now)
    return caught.value.code


def sql_request(desk: Any, text: str) -> Any:
    return replace(desk.request(), filter=FilterExpression(text, FilterType.SQL))


def test_an_sql_filter_sees_properties_tag_keys_and_id(desk: Any) -> None:
    desk.send("1", tag="t", keys=("k", "l"), properties={"price": "30"})
    desk.send("2", tag="u", properties={"price": "10"})
    text = "price > 20 AND TAGS = 't' AND KEYS CONTAINS 'k' AND UNIQ_KEY = '1'"
    answer = desk.broker.receive(sql_request(desk, text), now=desk.now)
    assert [delivery.message.content.message_id for delivery in answer.deliveries] == ["1"]
    assert [event.message.content.message_id for event in desk.seen(Filtered)] == ["2"]


def test_a_message_that_an_sql_filter_rejects_wakes_no_poll(desk: Any) -> None:
    """R5.18."""
    parked = desk.broker.receive(sql_request(desk, "price > 20"), now=desk.now)
    desk.send("cheap", properties={"price": "10"})
    assert desk.answers() == {}
    desk.send("dear", properties={"price": "21"})
    (delivery,) = desk.answers()[parked.poll_id].deliveries
    assert delivery.message.content.message_id == "dear"


# Polling time (5.1 rows 2 to 4)


def parked_for(desk: Any, **fields: Any) -> float:
    answer = desk.ask(**fields)
    assert isinstance(answer, Parked)
    now: float = desk.now
    margin: float = desk.profile.polling_margin
    return round(answer.until - now + margin, 3)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"polling": 0.0}, 5.0),
        ({"polling": 4.99}, 5.0),
        ({"polling": 60.0, "remaining_deadline": 90.0}, 20.0),
        ({"polling": None, "remaining_deadline": 6.0}, 5.0),
        ({"polling": None, "remaining_deadline": 10.0}, 8.5),
        ({"polling": None, "remaining_deadline": 60.0}, 20.0),
        ({"polling": 20.0, "remaining_deadline": 8.0}, 8.0),
    ],
)
def test_a_real_server_bounds_the_polling_time(apache: Any, fields: dict[str, Any], seconds: float) -> None:
    assert parked_for(apache, **fields) == seconds


def test_the_contract_polls_as_long_as_requested(documented: Any) -> None:
    assert parked_for(documented, polling=0.5) == 0.5
    assert parked_for(documented, polling=60.0, remaining_deadline=90.0) == 60.0
    assert documented.ask(polling=0.0).deliveries == ()
    assert documented.ask(polling=None, remaining_deadline=None).deliveries == ()


def test_a_deadline_before_the_end_of_the_poll_is_refused(desk: Any) -> None:
    assert (
        refused(desk, polling=10.0, remaining_deadline=4.9, client_version="5.0.3")
        is Code.ILLEGAL_POLLING_TIME
    )


def test_old_clients_see_a_plain_bad_request(apache: Any) -> None:
    """Versions compare as text (trap 38)."""
    assert refused(apache, remaining_deadline=4.9, client_version="5.0.2") is Code.BAD_REQUEST
    assert refused(apache, remaining_deadline=4.9, client_version="5.0.10") is Code.BAD_REQUEST


def test_a_real_server_refuses_a_call_without_deadline(apache: Any) -> None:
    assert refused(apache, remaining_deadline=None) is Code.INTERNAL_SERVER_ERROR


# Answers


def test_messages_are_answered_at_once(desk: Any) -> None:
    desk.send("a", "b")
    answer = desk.ask()
    assert (answer.code, len(answer.deliveries)) == (Code.OK, 2)
    (ended,) = desk.seen(ReceiveEnded)
    first, second = desk.seen(Delivered)
    assert (ended.messages, ended.code, ended.batch) == (2, Code.OK, first.batch)
    assert [(event.position, event.client_id, event.invisible) for event in (first, second)] == [
        (0, "c", 10.0),
        (1, "c", 10.0),
    ]


def test_an_empty_receive_ends_with_its_polling_time(desk: Any) -> None:
    poll_id = desk.park(polling=5.0)
    (parked,) = desk.seen(PollParked)
    assert desk.broker.next_deadline() == parked.until
    desk.now = parked.until - 0.001
    desk.wait(0.0)
    assert desk.answers() == {}
    desk.wait(0.001)
    answer = desk.answers()[poll_id]
    assert (answer.code, answer.deliveries) == (desk.profile.empty_receive_code, ())
    (ended,) = desk.seen(ReceiveEnded)
    assert (ended.messages, ended.at, ended.asked_at) == (0, parked.until, parked.at)


def test_a_new_message_answers_the_poll_that_ends_first(desk: Any) -> None:
    """R5.18."""
    late, early = desk.park(polling=20.0), desk.park(polling=10.0)
    desk.send("m")
    assert list(desk.answers()) == [early]
    desk.send("n")
    assert list(desk.answers()) == [late]


def test_each_group_that_waits_gets_the_message(desk: Any) -> None:
    desk.add_group("h")
    polls = {desk.park(), desk.park(group="h")}
    desk.send("m")
    assert set(desk.answers()) == polls


def test_messages_of_other_topics_wake_no_poll(desk: Any) -> None:
    desk.broker.create_topic(TopicConfig("u"), now=desk.now)
    desk.park()
    desk.send("m", topic="u")
    assert desk.answers() == {}


def test_a_batch_size_of_zero_waits_and_gets_nothing(desk: Any) -> None:
    desk.send("m")
    poll_id = desk.park(0, polling=5.0)
    desk.wait(5.0)
    assert desk.answers()[poll_id].deliveries == ()
    assert desk.ids() == ["m"]


def test_batches_hold_at_most_32_messages(desk: Any) -> None:
    desk.send(*(f"m{index}" for index in range(79)))
    assert [len(desk.receive(100)) for _ in range(3)] == [32, 32, 15]


def test_one_receive_reads_several_queues_each_in_order(make_desk: Any) -> None:
    desk = make_desk(queues=4)
    desk.send(*(f"m{index:02}" for index in range(40)))
    deliveries = desk.receive(32) + desk.receive(32)
    assert len({delivery.queue_id for delivery in deliveries}) == 4
    for queue_id in range(4):
        offsets = [delivery.offset for delivery in deliveries if delivery.queue_id == queue_id]
        assert offsets == sorted(offsets)
    assert len({delivery.message.content.message_id for delivery in deliveries}) == 40


def test_urgent_messages_come_first(make_desk: Any) -> None:
    """R4.29, session §7.1."""
    desk = make_desk(type=TopicType.PRIORITY, queues=4)
    for priority in (0, 3, 1, 2, 0, 3):
        desk.send(f"p{priority}", priority=priority)
    assert [desk.one().message.content.message_id for _ in range(6)] == ["p3", "p3", "p2", "p1", "p0", "p0"]


def test_two_groups_each_get_everything_and_two_consumers_share(desk: Any) -> None:
    desk.add_group("h")
    desk.join("d")
    desk.send("a", "b")
    assert desk.ids(group="h") == ["a", "b"]
    assert sorted(desk.ids(1) + desk.ids(1, client="d")) == ["a", "b"]
    assert desk.ids() == []


def test_a_real_server_takes_order_and_limit_from_the_clients_own_group(apache: Any) -> None:
    """R5.1, trap 31: a client id that serves two groups mixes them up."""
    apache.add_group("o", ordered=True)
    apache.join("d", "o")
    apache.send("a", "b")
    assert apache.ids(1, client="d") == ["a"]
    assert apache.ids(1, client="d") == []


def test_the_contract_takes_order_from_the_group_of_the_call(documented: Any) -> None:
    documented.add_group("o", ordered=True)
    documented.join("d", "o")
    documented.send("a", "b")
    assert documented.ids(1, client="d") + documented.ids(1, client="d") == ["a", "b"]


def test_without_its_group_settings_fall_back_to_the_calls(apache: Any) -> None:
    apache.add_group("o", ordered=True)
    apache.join("d", "o")
    apache.broker.delete_group("o", now=apache.now)
    apache.send("a", "b")
    assert apache.ids(1, client="d") + apache.ids(1, client="d") == ["a", "b"]


# Start position (O3)


def test_a_real_server_gives_a_new_group_everything(apache: Any) -> None:
    apache.send("old")
    apache.add_group("new")
    apache.send("fresh")
    assert apache.ids(group="new") == ["old", "fresh"]


def test_the_contract_gives_a_new_group_what_comes_after_its_creation(documented: Any) -> None:
    documented.send("old")
    documented.add_group("new")
    documented.send("fresh")
    assert documented.ids(group="new") == ["fresh"]


# Filters (5.6)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*", ["a", "b", "A", "c d", "*", "AaAa", "BBBB", ""]),
        ("", ["a", "b", "A", "c d", "*", "AaAa", "BBBB", ""]),
        ("a", ["a"]),
        (" a ", ["a"]),
        ("a||", ["a"]),
        ("a || b", ["a", "b"]),
        ("c d", ["c d"]),
        ("AaAa", ["AaAa"]),
        ("a||*", ["a", "*"]),
        ("* ", ["*"]),
        ("a|b", []),
        ("unknown", []),
    ],
)
def test_tag_expressions_choose_as_on_real_servers(desk: Any, expression: str, expected: list[str]) -> None:
    """Table of session §8."""
    for tag in ("a", "b", "A", "c d", "*", "AaAa", "BBBB", ""):
        desk.send("m", tag=tag)
    tags: list[str] = []
    for _ in range(3):
        tags += [delivery.message.content.tag for delivery in desk.receive(tag=expression)]
    assert tags == expected


def test_filtered_messages_are_consumed_for_the_group(desk: Any) -> None:
    """R5.21, trap 18."""
    desk.send("x", tag="a")
    desk.send("y", tag="b")
    assert desk.ids(tag="b") == ["y"]
    assert desk.ids(tag="*") == []
    (skipped,) = desk.seen(Filtered)
    assert skipped.message.content.message_id == "x"


def test_a_waiting_receive_sleeps_through_messages_it_does_not_want(desk: Any) -> None:
    poll_id = desk.park(tag="b")
    desk.send("x", tag="a")
    assert desk.answers() == {}
    desk.send("y", tag="b")
    assert [d.message.content.message_id for d in desk.answers()[poll_id].deliveries] == ["y"]


def test_the_poll_with_a_matching_filter_is_woken(desk: Any) -> None:
    """R5.18: 5.5.0 asks only the one that ends first, which then takes the message from the others."""
    desk.park(tag="a", polling=10.0)
    matching = desk.park(tag="b", polling=20.0)
    desk.send("y", tag="b")
    assert list(desk.answers()) == ([] if desk.profile.only_first_poll_woken else [matching])
    desk.wait(30.0)
    assert not any(answer.deliveries for answer in desk.answers().values())


def test_a_tag_of_equal_hash_ends_a_real_servers_poll_empty(apache: Any) -> None:
    """R5.23, 5.2 row 3: the false empty."""
    apache.send("m", tag="BBBB")
    answer = apache.ask(tag="AaAa")
    assert (answer.code, answer.message) == (Code.MESSAGE_NOT_FOUND, "no match message")
    assert apache.ids() == []


def test_a_tag_of_equal_hash_does_not_end_the_contracts_poll(documented: Any) -> None:
    documented.send("m", tag="BBBB")
    poll_id = documented.park(tag="AaAa")
    documented.send("n", tag="AaAa")
    assert list(documented.answers()) == [poll_id]


def test_a_real_server_ends_a_poll_for_a_tag_of_equal_hash(apache: Any) -> None:
    poll_id = apache.park(tag="AaAa")
    apache.send("m", tag="BBBB")
    assert apache.answers()[poll_id].code is Code.MESSAGE_NOT_FOUND


# Crowds and departures


def test_too_many_waiting_receives_are_refused(make_desk: Any) -> None:
    desk = make_desk(fields={"polls_per_key": 1})
    desk.park()
    desk.park()
    assert refused(desk) is Code.TOO_MANY_REQUESTS
    desk.broker.create_topic(TopicConfig("u"), now=desk.now)
    desk.park(topic="u")


def test_1025_receives_of_a_group_wait_at_a_topic(desk: Any) -> None:
    """One more than the limit of 1024, as on a real server; the next is refused, in this group only."""
    for _ in range(1025):
        desk.park()
    assert refused(desk) is Code.TOO_MANY_REQUESTS
    desk.add_group("h")
    desk.join("c2", "h")
    desk.park(group="h", client="c2")


def test_too_many_waiting_receives_in_all_are_refused(make_desk: Any) -> None:
    desk = make_desk(fields={"polls_in_all": 1})
    desk.broker.create_topic(TopicConfig("u"), now=desk.now)
    desk.park()
    assert refused(desk, topic="u") is Code.TOO_MANY_REQUESTS


def test_the_contract_forgets_a_cancelled_receive(documented: Any) -> None:
    poll_id = documented.park()
    documented.broker.cancel_poll(poll_id, now=documented.now)
    (ended,) = documented.seen(ReceiveEnded)
    assert ended.cancelled
    documented.send("m")
    assert documented.answers() == {}
    assert documented.one().attempt == 1
    assert documented.broker.totals().polls == 0


def test_a_cancelled_poll_of_a_real_server_takes_and_releases(apache: Any) -> None:
    """R5.7, consumption §4: back after 1 s and the revive latency, not counted."""
    poll_id = apache.park()
    apache.broker.cancel_poll(poll_id, now=apache.now)
    apache.send("m")
    assert apache.answers() == {}
    assert apache.ids() == []
    apache.wait(2.999)
    assert apache.ids() == []
    apache.wait(0.001)
    assert apache.one().attempt == 1


def test_a_live_receive_that_ends_earlier_goes_before_a_cancelled_one(apache: Any) -> None:
    ghost = apache.park(polling=20.0)
    apache.broker.cancel_poll(ghost, now=apache.now)
    live = apache.park(polling=10.0)
    apache.send("m")
    assert list(apache.answers()) == [live]


def test_cancelling_what_is_not_there_does_nothing(desk: Any) -> None:
    desk.broker.cancel_poll(99, now=desk.now)
    desk.broker.end_poll(99, now=desk.now)
    assert desk.broker.take_outputs() == ()


def test_unwritten_deliveries_are_redelivered_uncounted(desk: Any) -> None:
    """R5.7, consumption §1: those whose handles are given."""
    desk.send("a", "b", "c", "d")
    a, b, c, d = (delivery.receipt_handle for delivery in desk.receive(invisible=100.0))
    desk.broker.release_deliveries((a, "unknown", c, d), now=desk.now)
    desk.wait(desk.profile.undelivered_hold + desk.profile.revive_latency)
    again = desk.receive()
    assert sorted(delivery.message.content.message_id for delivery in again) == ["a", "c", "d"]
    assert {delivery.attempt for delivery in again} == {1}
    assert desk.ack(b) is Code.OK


def test_a_real_server_counts_an_unwritten_delivery_of_an_ordered_group(make_desk: Any) -> None:
    desk = make_desk(ordered=True)
    desk.send("m")
    desk.broker.release_deliveries((desk.one().receipt_handle,), now=desk.now)
    desk.wait(desk.profile.undelivered_hold)
    assert desk.one().attempt == (2 if desk.profile.ordered_undelivered_counts else 1)


def test_a_deleted_topic_ends_its_waiting_receives(desk: Any) -> None:
    poll_id = desk.park()
    desk.broker.delete_topic("t", now=desk.now)
    assert desk.answers()[poll_id].deliveries == ()


def test_a_deleted_group_ends_its_waiting_receives(desk: Any) -> None:
    poll_id = desk.park()
    desk.broker.delete_group("g", now=desk.now)
    assert desk.answers()[poll_id].deliveries == ()


def test_receives_use_the_revive_queues_in_turn(desk: Any) -> None:
    desk.send(*(f"m{number}" for number in range(2 * limits.REVIVE_QUEUES)))
    handles = [decode(desk.one().receipt_handle) for _ in range(2 * limits.REVIVE_QUEUES)]
    queues = [handle.revive_queue for handle in handles if handle is not None]
    assert sorted(queues) == sorted(2 * [*range(limits.REVIVE_QUEUES)])
