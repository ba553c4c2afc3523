"""The retry state machine of normal groups, and the dead letters at its end."""

from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal
from aiorocketmq_fake.core.values.events import (
    DeadLettered,
    LeaseEnded,
    Revived,
    Stored,
    StoredAs,
    WrongMessageDeadLettered,
)
from aiorocketmq_fake.core.values.model import GroupConfig
from aiorocketmq_fake.core.values.names import retry_topic
from aiorocketmq_fake.core.values.profiles import APACHE_5_5

from fake_broker.tests.core.conftest import START, Desk


def test_an_unacked_message_is_redelivered_at_lease_expiry(desk: Any) -> None:
    desk.send("m")
    assert desk.one().attempt == 1
    desk.wait(10.0 + desk.profile.revive_latency - 0.001)
    assert desk.ids() == []
    desk.wait(0.001)
    assert desk.one().attempt == 2
    (ended,) = desk.seen(LeaseEnded)
    (revived,) = desk.seen(Revived)
    assert (ended.attempt, revived.attempt, revived.at - ended.at) == (1, 2, desk.profile.revive_latency)


def test_attempts_grow_by_one_with_each_return(desk: Any) -> None:
    desk.send("m")
    attempts = []
    for _ in range(5):
        attempts.append(desk.one().attempt)
        desk.wait_for_return()
    assert attempts == [1, 2, 3, 4, 5]


def test_a_return_keeps_everything_but_its_place(desk: Any) -> None:
    """R7.1, O7."""
    desk.send("first")
    desk.ack(desk.one())
    desk.send("m", tag="t", keys=("k",), properties={"a": "1"})
    first = desk.one()
    desk.wait_for_return()
    second = desk.one()
    assert second.message.content == first.message.content
    assert second.message.content.topic == "t"
    if desk.profile.retries_keep_position:
        assert (second.offset, second.store_timestamp) == (first.offset, first.store_timestamp)
    else:
        assert (second.queue_id, second.offset) == (0, 0)
        assert second.store_timestamp > first.store_timestamp
        assert second.receipt_handle.split()[4] == "1"


def test_the_third_delivery_still_shows_the_first_place_in_the_contract(documented: Any) -> None:
    documented.send("first")
    documented.ack(documented.one())
    documented.send("m")
    for attempt in (1, 2, 3):
        delivery = documented.one()
        assert (delivery.attempt, delivery.offset) == (attempt, 1)
        documented.wait_for_return()


def test_waiting_consumers_get_returns_at_once(desk: Any) -> None:
    """R5.20 as on 5.5."""
    desk.send("m")
    desk.one()
    poll_id = desk.park(polling=20.0)
    desk.wait_for_return()
    assert desk.answers()[poll_id].deliveries[0].attempt == 2


def test_old_servers_wake_no_poll_for_redeliveries(
    make_apache: Any,
) -> None:
    """R5.20 as on 5.2 and 5.3."""
    desk = make_apache(fields={"retries_wake_polls": False})
    desk.send("m")
    desk.one()
    poll_id = desk.park(polling=20.0)
    desk.wait(12.0)
    assert desk.answers() == {}
    desk.wait(8.0)
    assert desk.answers()[poll_id].deliveries[0].attempt == 2


def test_two_groups_retry_on_their_own(desk: Any) -> None:
    desk.add_group("h")
    desk.send("m")
    desk.one()
    desk.ack(desk.one(group="h"), group="h")
    desk.wait_for_return()
    assert desk.one().attempt == 2
    assert desk.ids(group="h") == []


def test_other_messages_flow_while_one_retries(desk: Any) -> None:
    desk.send("poison")
    desk.one()
    desk.send("good")
    assert desk.ids() == ["good"]


def test_returns_are_filtered_as_first_deliveries_are(desk: Any) -> None:
    """R5.22."""
    desk.send("m", tag="a")
    desk.one(tag="a")
    desk.wait_for_return()
    assert desk.one(tag="a").attempt == 2


def test_a_filter_that_changed_meanwhile_drops_the_return(desk: Any) -> None:
    desk.send("m", tag="a")
    desk.one(tag="a")
    desk.wait_for_return()
    assert desk.ids(tag="b") == []
    assert desk.ids(tag="a") == []


def test_returns_and_fresh_messages_share_a_receive(desk: Any) -> None:
    """R5.9, R5.13: which comes first is chance, that both come is not."""
    orders = set()
    for index in range(40):
        desk.send(f"old{index}")
        desk.one()
        desk.wait_for_return()
        desk.send(f"new{index}")
        deliveries = desk.receive()
        orders.add(tuple(delivery.attempt for delivery in deliveries))
        for delivery in deliveries:
            desk.ack(delivery)
    assert orders == {(1, 2), (2, 1)}


def test_redeliveries_live_in_a_retry_topic_of_one_queue(desk: Any) -> None:
    desk.send("m")
    desk.one()
    assert [topic.config.name for topic in desk.broker.topics()] == ["t"]
    desk.wait_for_return()
    name = retry_topic("g", "t")
    (retry,) = [topic for topic in desk.broker.topics() if topic.config.name == name]
    assert (retry.system, retry.max_offsets) == (True, (1,))
    assert [stored.reason for stored in desk.seen(Stored)] == [StoredAs.SENT, StoredAs.RETRY]


def test_a_message_whose_group_is_deleted_while_it_returns_is_dropped(make_apache: Any) -> None:
    """R7.4."""
    desk = make_apache()
    desk.send("m")
    desk.one()
    desk.wait(10.0)
    desk.broker.delete_group("g", now=desk.now)
    desk.wait(10.0)
    assert [topic.config.name for topic in desk.broker.topics()] == ["t"]


# Dead letters (7.3)


def exhaust(desk: Any, deliveries: int) -> None:
    for attempt in range(1, deliveries + 1):
        assert desk.one().attempt == attempt
        desk.wait_for_return()


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_the_attempt_limit_bounds_deliveries(make_desk: Any, limit: int) -> None:
    """R7.5."""
    desk = make_desk(max_attempts=limit)
    desk.send("m")
    exhaust(desk, limit)
    assert desk.ids() == []
    (letter,) = desk.broker.dead_letters("g")
    assert letter.content.message_id == "m"
    (event,) = desk.seen(DeadLettered)
    assert (event.attempt, event.by_client) == (limit, False)
    desk.wait(1000.0)
    assert desk.ids() == []


def test_the_contract_gives_a_message_up_when_its_last_lease_ends(make_documented: Any) -> None:
    desk = make_documented(max_attempts=1)
    desk.send("m")
    desk.one()
    desk.wait(10.0)
    assert len(desk.broker.dead_letters("g")) == 1


def test_a_real_server_moves_dead_letters_on_receive_only(make_apache: Any) -> None:
    """Trap 34, consumption §5: the receive that moves a message is answered empty at once."""
    desk = make_apache(max_attempts=1)
    desk.send("m")
    desk.one()
    desk.wait(45.0)
    assert desk.broker.dead_letters("g") == ()
    answer = desk.ask()
    assert (answer.code, answer.message) == (Code.MESSAGE_NOT_FOUND, "no match message")
    assert len(desk.broker.dead_letters("g")) == 1


def test_a_lowered_limit_holds_for_messages_on_their_way(desk: Any) -> None:
    desk.send("m")
    exhaust(desk, 3)
    desk.broker.update_group(GroupConfig("g", max_attempts=1), now=desk.now)
    assert desk.ids() == []
    assert len(desk.broker.dead_letters("g")) == 1


def test_a_receive_of_the_contract_skips_exhausted_messages(make_documented: Any) -> None:
    desk = make_documented()
    desk.send("m")
    exhaust(desk, 1)
    desk.broker.update_group(GroupConfig("g", max_attempts=1), now=desk.now)
    poll_id = desk.park()
    desk.send("n")
    assert [d.message.content.message_id for d in desk.answers()[poll_id].deliveries] == ["n"]


def test_returns_that_do_not_count_never_exhaust_a_message(make_desk: Any) -> None:
    desk = make_desk(max_attempts=1)
    desk.send("m")
    for _ in range(3):
        desk.change(desk.one(), 0.0, suspend=True)
        desk.wait(desk.profile.revive_latency)
    assert desk.one().attempt == 1


def read_letters(desk: Any, max_attempts: int = 50) -> Any:
    desk.add_group("reader", max_attempts=max_attempts)
    desk.join("r", "reader")
    return desk.receive(client="r", group="reader", topic="%DLQ%g")


def test_dead_letters_are_read_like_any_topic(make_desk: Any) -> None:
    """R6.20, R7.6, consumption §5: attempts keep counting, the type is DELAY, the origin is hidden."""
    desk = make_desk(max_attempts=3)
    desk.add_group("early")
    desk.send("m", tag="a", keys=("k",), properties={"p": "1"})
    exhaust(desk, 3)
    desk.ids()
    letter = desk.broker.dead_letters("g")[0]
    if desk.profile.new_group_start.name == "CREATION":
        desk.join("r", "early")
        (delivery,) = desk.receive(client="r", group="early", topic="%DLQ%g")
    else:
        (delivery,) = read_letters(desk)
    content = delivery.message.content
    assert (content.topic, content.message_id, content.tag, content.keys, content.properties) == (
        "%DLQ%g",
        "m",
        "a",
        ("k",),
        {"p": "1"},
    )
    if desk.profile.dead_letters_keep_attempts:
        assert (delivery.attempt, letter.message_type, letter.origin_topic) == (5, MessageType.DELAY, "")
    else:
        assert (delivery.attempt, letter.message_type) == (1, MessageType.NORMAL)
        assert (letter.origin_topic, letter.origin_message_id) == ("t", "m")


def test_a_reader_with_a_smaller_limit_loses_dead_letters_into_its_own(make_apache: Any) -> None:
    """Trap 33, consumption §5."""
    desk = make_apache(max_attempts=3)
    desk.send("m")
    exhaust(desk, 3)
    desk.ids()
    assert read_letters(desk, max_attempts=3) == ()
    assert [letter.content.message_id for letter in desk.broker.dead_letters("reader")] == ["m"]


# Forward (6.4)


def forwarding(desk: Any, *args: Any, **fields: Any) -> Code:
    try:
        desk.forward(*args, **fields)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


def test_a_forwarded_message_is_dead_and_settled(desk: Any) -> None:
    desk.send("m")
    desk.forward(desk.one())
    desk.wait(100.0)
    assert desk.ids() == []
    (letter,) = desk.broker.dead_letters("g")
    assert letter.content.message_id == "m"
    (event,) = desk.seen(DeadLettered)
    assert (event.attempt, event.by_client) == (1, True)


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"topic": "a b"}, Code.ILLEGAL_TOPIC), ({"group": "a b"}, Code.ILLEGAL_CONSUMER_GROUP)],
)
def test_a_forward_with_illegal_names_is_refused(desk: Any, fields: dict[str, Any], code: Code) -> None:
    assert forwarding(desk, "x", **fields) is code


def test_a_forward_with_a_handle_that_is_none_is_refused(desk: Any) -> None:
    assert forwarding(desk, "garbage") is desk.profile.malformed_handle_code


def test_a_real_server_forwards_only_for_registered_clients(apache: Any) -> None:
    apache.send("m")
    assert forwarding(apache, apache.one(), client_id="stranger") is Code.INTERNAL_SERVER_ERROR


def test_a_forward_by_an_unknown_group(documented: Any, apache: Any) -> None:
    """Consumption §1: OK on real servers, against what was read (R6.19)."""
    for desk in (documented, apache):
        desk.send("m")
    assert forwarding(documented, documented.one(), group="new") is Code.CONSUMER_GROUP_NOT_FOUND
    assert forwarding(apache, apache.one(), group="new") is Code.OK
    assert len(apache.broker.dead_letters("new")) == 1


def test_a_real_server_forwards_after_expiry_and_after_the_ack(apache: Any) -> None:
    """Consumption §5."""
    apache.send("a", "b")
    acked, expired = apache.receive()
    apache.ack(acked)
    apache.wait(10.0)
    apache.forward(acked)
    apache.forward(expired)
    assert [letter.content.message_id for letter in apache.broker.dead_letters("g")] == ["a", "b"]
    apache.wait(2.0)
    assert apache.ids() == ["b"]


def test_the_contract_forwards_only_what_is_held(documented: Any) -> None:
    documented.send("a", "b")
    acked, expired = documented.receive()
    documented.ack(acked)
    assert forwarding(documented, acked) is Code.INVALID_RECEIPT_HANDLE
    documented.wait(10.0)
    assert forwarding(documented, expired) is Code.INVALID_RECEIPT_HANDLE
    assert documented.broker.dead_letters("g") == ()


def test_a_cut_or_bent_handle_cannot_be_forwarded(apache: Any) -> None:
    apache.send("m")
    cut = apache.one().receipt_handle.rsplit(" ", 1)[0]
    assert forwarding(apache, cut) is Code.INVALID_RECEIPT_HANDLE
    assert forwarding(apache, cut + " 12345") is Code.INTERNAL_SERVER_ERROR
    assert apache.broker.dead_letters("g") == ()


def test_a_forward_of_a_changed_handle_takes_the_wrong_message(apache: Any) -> None:
    """Consumption §1 row 1: the first message of the log is copied, the meant one is lost."""
    apache.send("innocent")
    apache.one()
    apache.send("meant")
    apache.forward(apache.change(apache.one(), 10.0))
    assert [letter.content.message_id for letter in apache.broker.dead_letters("g")] == ["innocent"]
    (event,) = apache.seen(WrongMessageDeadLettered)
    assert (event.message.content.message_id, event.copied.content.message_id) == ("meant", "innocent")
    apache.wait(100.0)
    assert apache.ids() == ["innocent"]


def test_the_wrong_message_quirk_can_be_switched_off(make_apache: Any) -> None:
    desk = make_apache(fields={"forward_changed_handle_takes_first": False})
    desk.send("innocent", "meant")
    _, delivery = desk.receive()
    desk.forward(desk.change(delivery, 10.0))
    assert [letter.content.message_id for letter in desk.broker.dead_letters("g")] == ["meant"]


def test_the_contract_forwards_changed_handles_rightly(documented: Any) -> None:
    documented.send("innocent", "meant")
    _, delivery = documented.receive()
    documented.forward(documented.change(delivery, 10.0))
    assert [letter.content.message_id for letter in documented.broker.dead_letters("g")] == ["meant"]


def test_forwarding_the_first_handle_after_a_change_leaves_the_newer_lease(apache: Any) -> None:
    """Consumption §5a row 2: the right copy, and the message comes back all the same."""
    apache.send("m")
    delivery = apache.one()
    apache.change(delivery, 8.0)
    apache.forward(delivery)
    assert [letter.content.message_id for letter in apache.broker.dead_letters("g")] == ["m"]
    apache.wait(10.0)
    assert apache.one().attempt == 2


def test_the_first_dead_letter_of_a_real_server_makes_a_plain_retry_topic(make_desk: Any) -> None:
    """Consumption §5: one queue, and nothing ever comes into it."""
    desk = make_desk(max_attempts=1)
    desk.send("m")
    desk.one()
    desk.wait_for_return()
    assert desk.ids() == []
    topics = {topic.config.name for topic in desk.broker.topics() if topic.config.name.startswith("%RETRY%")}
    assert ("%RETRY%g" in topics) is desk.profile.dead_letters_make_retry_topic
    assert len(desk.broker.dead_letters("g")) == 1
    assert desk.broker.messages("%RETRY%g") == ()


def test_redeliveries_of_real_servers_are_spread_and_repeat_with_the_seed() -> None:
    lowest, spread = APACHE_5_5.revive_latency, APACHE_5_5.revive_spread

    def lateness(seed: int) -> list[float]:
        desk = Desk(APACHE_5_5, seed=seed, is_exact=False)
        desk.send(*(f"m{number}" for number in range(100)))
        while desk.ids():
            pass
        desk.wait(10.0 + lowest + spread)
        return sorted(event.at - START - 10.0 for event in desk.seen(Revived))

    late = lateness(7)
    assert len(late) == 100
    assert lowest <= late[0] < lowest + 0.5
    assert lowest + 0.75 * spread < late[-1] <= lowest + spread
    assert late[50] == pytest.approx(lowest + 0.35 * spread, abs=0.4)
    assert lateness(7) == late != lateness(8)


async def test_only_real_clocks_spread_what_a_named_profile_redelivers() -> None:
    async with (
        FakeBroker(profile="apache-5.5", clock="manual") as exact,
        FakeBroker(profile="apache-5.5") as real,
    ):
        assert (exact.profile.revive_spread, real.profile.revive_spread) == (0.0, APACHE_5_5.revive_spread)
    async with FakeBroker(profile=APACHE_5_5, clock="manual") as chosen:
        assert chosen.profile == APACHE_5_5
