"""Ack and change: every row of rules 6.2 and 6.3, as documented and as real servers do."""

from itertools import product
from typing import Any

import pytest
from aiorocketmq_fake.core.values.choices import WrongHandle
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import Acked, LeaseChanged, LeaseEnded, Refused, Resurrected
from aiorocketmq_fake.core.values.model import TopicConfig


def changing(desk: Any, *args: Any, **fields: Any) -> Code:
    """Answer the code with which a change is refused, OK when it is not."""
    try:
        desk.change(*args, **fields)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


# Ack (6.2)


def test_an_acked_message_is_never_redelivered(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    assert desk.ack(delivery) is Code.OK
    desk.wait(100.0)
    assert desk.ids() == []
    (acked,) = desk.seen(Acked)
    assert (acked.effective, acked.attempt, acked.first_handle) == (True, 1, delivery.receipt_handle)
    assert desk.seen(LeaseEnded) == []


def test_an_ack_needs_no_settings(desk: Any) -> None:
    desk.send("m")
    assert desk.ack(desk.one(), client="stranger") is Code.OK


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, Code.ILLEGAL_TOPIC),
        ({"group": "a b"}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"topic": "", "group": ""}, Code.ILLEGAL_TOPIC),
    ],
)
def test_an_ack_with_illegal_names_is_refused(desk: Any, fields: dict[str, Any], code: Code) -> None:
    with pytest.raises(Refusal) as caught:
        desk.ack("x", **fields)
    assert caught.value.code is code


def test_an_ack_without_entries_is_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.ack_all()
    assert caught.value.code is desk.profile.no_entries_code


def test_a_message_may_be_acked_twice(desk: Any) -> None:
    """O5: OK, and without effect."""
    desk.send("m")
    delivery = desk.one()
    desk.ack(delivery)
    assert desk.ack(delivery) is Code.OK
    assert [event.effective for event in desk.seen(Acked)] == [True, False]


def test_ack_after_expiry_is_refused_and_the_message_redelivered(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    desk.wait(10.0)
    assert desk.ack(delivery) is Code.INVALID_RECEIPT_HANDLE
    desk.wait(desk.profile.revive_latency)
    assert desk.one().attempt == 2
    (refused,) = desk.seen(Refused)
    assert (refused.command, refused.code) == ("AckMessage", Code.INVALID_RECEIPT_HANDLE)


def test_an_ack_in_the_last_millisecond_counts(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    desk.wait(9.999)
    assert desk.ack(delivery) is Code.OK


@pytest.mark.parametrize("handle", ["", "garbage", "0 1 2 3 4 b 0", "a b c d e f g h i"])
def test_a_handle_that_is_none_is_refused(desk: Any, handle: str) -> None:
    """R6.2, trap 13."""
    assert desk.ack(handle) is desk.profile.malformed_handle_code


def test_entries_are_judged_one_by_one_and_answered_in_order(desk: Any) -> None:
    """R6.5, R6.6."""
    desk.send("a", "b")
    first, second = desk.receive()
    result = desk.ack_all(first.receipt_handle, "garbage", second.receipt_handle)
    assert result.code is Code.MULTIPLE_RESULTS
    assert [entry.code for entry in result.entries] == [Code.OK, desk.profile.malformed_handle_code, Code.OK]
    assert [entry.receipt_handle for entry in result.entries] == [
        first.receipt_handle,
        "garbage",
        second.receipt_handle,
    ]
    assert [entry.message_id for entry in result.entries] == ["m", "m", "m"]
    assert desk.broker.totals().leases == 0


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_overall_code_is_that_of_all_entries_or_of_none(desk: Any, size: int) -> None:
    """R6.6: wherever in the call the entries that differ are."""
    desk.send(*(f"m{number}" for number in range(size)))
    deliveries = desk.receive(invisible=100.0)
    for is_good in product((True, False), repeat=size):
        handles = [
            delivery.receipt_handle if good else "x"
            for delivery, good in zip(deliveries, is_good, strict=True)
        ]
        codes = {Code.OK if good else desk.profile.malformed_handle_code for good in is_good}
        expected = codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS
        assert desk.ack_all(*handles).code is expected


def altered(handle: str, field: int, value: str) -> str:
    fields = handle.split(" ")
    fields[field] = value
    return " ".join(fields)


@pytest.mark.parametrize(("field", "value"), [(6, "9"), (7, "99"), (7, "-1"), (6, "-1"), (4, "1")])
def test_a_handle_that_points_nowhere_is_refused(desk: Any, field: int, value: str) -> None:
    """Queue out of range, offset out of range, a retry topic that is not there (consumption §3)."""
    desk.send("m")
    handle = altered(desk.one().receipt_handle, field, value)
    assert desk.ack(handle) is desk.profile.unknown_position_code


def test_an_ack_naming_another_topic_is_refused(desk: Any) -> None:
    desk.broker.create_topic(TopicConfig("u"), now=desk.now)
    desk.send("m")
    delivery = desk.one()
    assert desk.ack(delivery, topic="u") is desk.profile.unknown_position_code
    assert desk.ack(delivery, topic="missing") is desk.profile.unknown_position_code
    assert desk.ack(delivery) is Code.OK


@pytest.mark.parametrize(
    ("field", "value"),
    [(1, "1000000001"), (3, "77"), (5, "broker-z"), (8, None)],
    ids=["time", "revive", "broker", "cut"],
)
def test_a_real_server_accepts_altered_handles_without_effect(
    apache: Any, field: int, value: str | None
) -> None:
    """Consumption §1 and §3: altered pop time, revive queue, broker name, eight fields."""
    apache.send("m")
    handle = apache.one().receipt_handle
    bent = handle.rsplit(" ", 1)[0] if value is None else altered(handle, field, value)
    assert apache.ack(bent) is Code.OK
    assert apache.broker.totals().leases == 1


def test_the_contract_refuses_altered_handles(documented: Any) -> None:
    documented.send("m")
    handle = altered(documented.one().receipt_handle, 3, "77")
    assert documented.ack(handle) is Code.INVALID_RECEIPT_HANDLE


def test_an_ack_by_another_group_has_no_effect(desk: Any) -> None:
    """R6.3, trap 12."""
    desk.add_group("h")
    desk.send("m")
    delivery = desk.one()
    expected = Code.OK if desk.profile.ack_without_lease_ok else Code.INVALID_RECEIPT_HANDLE
    assert desk.ack(delivery, group="h") is expected
    desk.wait_for_return()
    assert desk.one().attempt == 2


def test_a_redelivered_message_has_a_handle_of_its_own(desk: Any) -> None:
    desk.send("m")
    first = desk.one()
    desk.wait_for_return()
    second = desk.one()
    assert first.receipt_handle != second.receipt_handle
    assert desk.ack(first) is Code.INVALID_RECEIPT_HANDLE
    assert desk.ack(second) is Code.OK
    desk.wait(100.0)
    assert desk.ids() == []


# Change (6.3)


def test_a_change_moves_the_end_of_the_lease_and_gives_a_new_handle(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    desk.wait(2.0)
    handle = desk.change(delivery, 20.0)
    assert handle != delivery.receipt_handle
    assert len(handle.split()) == 10
    desk.wait(19.999)
    assert desk.ids() == []
    desk.wait(0.001 + desk.profile.revive_latency)
    assert desk.one().attempt == 2
    (changed,) = desk.seen(LeaseChanged)
    assert (changed.previous_handle, changed.first_handle, changed.invisible, changed.renewal) == (
        delivery.receipt_handle,
        delivery.receipt_handle,
        20.0,
        False,
    )


def test_a_change_may_shorten_the_lease(desk: Any) -> None:
    desk.send("m")
    desk.change(desk.one(invisible=60.0), 5.0)
    desk.wait(5.0 + desk.profile.revive_latency)
    assert desk.one().attempt == 2


@pytest.mark.parametrize("seconds", [0.0, None])
def test_a_change_to_nothing_gives_the_message_back(desk: Any, seconds: float | None) -> None:
    """R6.16: an absent duration is 0."""
    desk.send("m")
    handle = desk.change(desk.one(), seconds)
    assert desk.ack(handle) is Code.INVALID_RECEIPT_HANDLE
    desk.wait(desk.profile.revive_latency)
    assert desk.one().attempt == 2


def test_the_new_handle_acks_for_good(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    handle = desk.change(delivery, 20.0)
    assert desk.ack(handle) is Code.OK
    desk.wait(100.0)
    assert desk.ids() == []
    (acked,) = desk.seen(Acked)
    assert acked.first_handle == delivery.receipt_handle


def test_changes_may_follow_each_other(desk: Any) -> None:
    desk.send("m")
    handle = desk.one().receipt_handle
    for _ in range(5):
        desk.wait(3.0)
        handle = desk.change(handle, 10.0)
    desk.wait(9.999)
    assert desk.ids() == []
    desk.wait(0.001 + desk.profile.revive_latency)
    assert desk.one().attempt == 2


@pytest.mark.parametrize("seconds", [-1.0, 43_200.001])
def test_a_change_off_limits_is_refused_and_the_old_end_holds(desk: Any, seconds: float) -> None:
    desk.send("m")
    delivery = desk.one()
    assert changing(desk, delivery, seconds) is Code.ILLEGAL_INVISIBLE_TIME
    assert desk.broker.leases()[0].receipt_handle == delivery.receipt_handle
    assert changing(desk, delivery, 43_200.0) is Code.OK


def test_the_limits_are_looked_at_before_the_handle(desk: Any) -> None:
    assert changing(desk, "garbage", -1.0) is Code.ILLEGAL_INVISIBLE_TIME
    assert changing(desk, "garbage", 1.0) is desk.profile.malformed_handle_code
    assert changing(desk, "garbage", 1.0, topic="a b") is Code.ILLEGAL_TOPIC
    assert changing(desk, "garbage", 1.0, group="a b") is Code.ILLEGAL_CONSUMER_GROUP


def test_an_expired_handle_cannot_be_changed(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one()
    desk.wait(10.0)
    assert changing(desk, delivery, 10.0) is Code.INVALID_RECEIPT_HANDLE


def test_a_real_server_changes_only_for_registered_clients(apache: Any) -> None:
    """R6.9."""
    apache.send("m")
    assert changing(apache, apache.one(), 10.0, client_id="stranger") is Code.INTERNAL_SERVER_ERROR


def test_the_contract_changes_for_everybody(documented: Any) -> None:
    documented.send("m")
    assert changing(documented, documented.one(), 10.0, client_id="stranger") is Code.OK


def test_the_old_handle_no_longer_settles_the_message(desk: Any) -> None:
    """R6.12: refused by the contract, OK without effect on real servers."""
    desk.send("m")
    delivery = desk.one()
    desk.change(delivery, 8.0)
    expected = Code.OK if desk.profile.ack_without_lease_ok else Code.INVALID_RECEIPT_HANDLE
    assert desk.ack(delivery) is expected
    desk.wait(8.0 + desk.profile.revive_latency)
    assert desk.one().attempt == 2


def test_a_real_server_makes_a_copy_of_every_change_with_one_handle(apache: Any) -> None:
    """Consumption §1: three changes with one handle gave three copies, all attempt 2."""
    apache.send("m")
    delivery = apache.one()
    handles = {apache.change(delivery, 1.0) for _ in range(3)}
    assert len(handles) == 3
    apache.wait(3.0)
    assert [copy.attempt for copy in apache.receive()] == [2, 2, 2]
    assert len(apache.seen(Resurrected)) == 2


def test_a_change_after_the_ack_resurrects_the_message_on_a_real_server(apache: Any) -> None:
    """O6, consumption §1."""
    apache.send("m")
    delivery = apache.one()
    apache.ack(delivery)
    assert changing(apache, delivery, 1.0) is Code.OK
    apache.wait(3.0)
    assert apache.one().attempt == 2
    (resurrected,) = apache.seen(Resurrected)
    assert resurrected.previous_handle == delivery.receipt_handle


def test_each_of_the_two_resurrections_can_be_switched_off(make_apache: Any) -> None:
    desk = make_apache(fields={"change_after_ack": WrongHandle.REFUSED})
    desk.send("a", "b")
    acked, changed = desk.receive()
    desk.ack(acked)
    desk.change(changed, 10.0)
    assert changing(desk, acked, 1.0) is Code.INVALID_RECEIPT_HANDLE
    assert changing(desk, changed, 1.0) is Code.OK


@pytest.mark.parametrize("changes", [1, 2, 3])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_real_server_misses_the_leases_of_a_batch_by_their_changed_handles(
    make_apache: Any, place: int, changes: int
) -> None:
    """Seen on 5.3.3 and 5.5.0: three changes of the second message gave three copies, and its ack nothing."""
    desk = make_apache()
    desk.send("a", "b", "c")
    deliveries = list(desk.receive())
    changed = deliveries.pop(place)
    for delivery in deliveries:
        desk.ack(delivery)
    handle = changed.receipt_handle
    for _ in range(changes):
        desk.wait(2.0)
        handle = desk.change(handle, 10.0)
    assert desk.ack(handle, client="c") is Code.OK
    assert desk.seen(Acked)[-1].effective is (place == 0)
    # Each lease that was left behind ends at its own time.
    for _ in range(changes):
        desk.wait_for_return()
    assert [copy.attempt for copy in desk.receive()] == ([] if place == 0 else [2] * changes)


def test_a_message_behind_filtered_ones_is_missed_as_well(make_apache: Any) -> None:
    desk = make_apache()
    desk.send("a", tag="other")
    desk.send("b", tag="wanted")
    desk.ack(desk.change(desk.one(tag="wanted"), 10.0))
    desk.wait_for_return()
    assert desk.ids(tag="wanted") == ["b"]


def test_renewals_by_the_server_miss_the_leases_of_a_batch(make_apache: Any) -> None:
    """Seen on 5.5.0: held for 70 s, renewed once, acknowledged, and redelivered at the end of that lease."""
    desk = make_apache()
    desk.send("a", "b")
    first, second = desk.receive(auto_renew=True)
    desk.wait(70.0)
    assert [desk.ack(one) for one in (first, second)] == [Code.OK, Code.OK]
    desk.wait(39.9)
    assert desk.ids() == []
    desk.wait(0.1 + desk.profile.revive_latency)
    assert desk.ids() == ["b"]


def test_two_ordered_groups_change_the_same_message_at_once(ordered: Any) -> None:
    ordered.add_group("h", ordered=True)
    ordered.join("d", "h")
    ordered.send("m", message_group="g")
    mine, other = ordered.one(invisible=30.0), ordered.one(client="d", group="h", invisible=20.0)
    handles = [
        ordered.change(mine, 45.0),
        ordered.change(other, 45.0, client_id="d", group="h"),
    ]
    assert len(set(handles)) == 2
    ordered.wait(100.0)
    assert [ordered.one().attempt, ordered.one(client="d", group="h").attempt] == [2, 2]


@pytest.mark.parametrize("name", ["queues", "documented", "behind_a_separate_proxy"])
def test_other_leases_are_not_missed(name: str, request: pytest.FixtureRequest) -> None:
    desk = request.getfixturevalue(name)
    desk.send("a", "b", "c", **({"message_group": "g"} if name == "queues" else {}))
    first, second, third = desk.receive()
    for one in (first, desk.change(second, 10.0), third):
        assert desk.ack(one) is Code.OK
    desk.wait(100.0)
    assert desk.ids() == []


def test_the_contract_refuses_changes_with_spent_handles(documented: Any) -> None:
    documented.send("a", "b")
    acked, changed = documented.receive()
    documented.ack(acked)
    documented.change(changed, 10.0)
    assert changing(documented, acked, 1.0) is Code.INVALID_RECEIPT_HANDLE
    assert changing(documented, changed, 1.0) is Code.INVALID_RECEIPT_HANDLE
    documented.wait(10.0)
    assert documented.ids() == ["b"]


def test_a_change_by_a_group_that_never_read_the_topic_is_refused(apache: Any) -> None:
    apache.add_group("h")
    apache.send("m")
    assert changing(apache, apache.one(), 1.0, group="h") is Code.INVALID_RECEIPT_HANDLE


def test_a_suspended_return_does_not_count(desk: Any) -> None:
    """R6.15."""
    desk.send("m")
    desk.change(desk.one(), 1.0, suspend=True)
    desk.wait(1.0 + desk.profile.revive_latency)
    assert desk.one().attempt == 1


@pytest.mark.parametrize(
    ("suspended", "attempt"),
    [
        ((True, True), 1),
        ((False, True), 1),
        ((True, False), 2),
        ((False, False), 2),
        ((True, True, False), 2),
    ],
)
def test_the_last_change_decides_whether_a_return_counts(
    desk: Any, suspended: tuple[bool, ...], attempt: int
) -> None:
    desk.send("m")
    handle = desk.one().receipt_handle
    for suspend in suspended:
        handle = desk.change(handle, 1.0, suspend=suspend)
    desk.wait(1.0 + desk.profile.revive_latency)
    assert desk.one().attempt == attempt


def test_a_real_server_ignores_suspend_in_ordered_groups(make_desk: Any) -> None:
    desk = make_desk(ordered=True)
    desk.send("m")
    desk.change(desk.one(), 1.0, suspend=True)
    desk.wait(1.0)
    assert desk.one().attempt == (2 if desk.profile.ordered_suspend_counts else 1)


def test_old_servers_count_suspended_returns(make_desk: Any) -> None:
    desk = make_desk(fields={"suspend_counts": True})
    desk.send("m")
    desk.change(desk.one(), 1.0, suspend=True)
    desk.wait(1.0 + desk.profile.revive_latency)
    assert desk.one().attempt == 2
