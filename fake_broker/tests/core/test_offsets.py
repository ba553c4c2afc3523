"""Stored offsets and their reset (10)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, Refusal, TopicType
from aiorocketmq_fake.core.values.events import LeaseEnded, OffsetCommitted, OffsetReset
from aiorocketmq_fake.core.values.model import OffsetQuery


def get(desk: Any, group: str = "g", topic: str = "t", queue_id: int = 0) -> int:
    offset: int = desk.broker.get_offset(group, topic, queue_id, now=desk.now)
    return offset


def refused(call: Any, *args: Any, **fields: Any) -> Code:
    with pytest.raises(Refusal) as caught:
        call(*args, **fields)
    return caught.value.code


def test_a_stored_offset_is_returned(desk: Any) -> None:
    desk.add_group("h")
    for offset in (7, 3):
        desk.broker.update_offset("g", "t", 0, offset, now=desk.now)
        assert get(desk) == offset
    assert refused(get, desk, "h") is Code.OFFSET_NOT_FOUND
    assert [event.offset for event in desk.seen(OffsetCommitted)] == [7, 3]


def test_offsets_that_are_refused(desk: Any) -> None:
    update = desk.broker.update_offset
    assert refused(update, "g", "t", 0, -1, now=desk.now) is Code.ILLEGAL_OFFSET
    assert refused(update, "g", "unknown", 0, 1, now=desk.now) is Code.TOPIC_NOT_FOUND
    assert refused(update, "a b", "t", 0, 1, now=desk.now) is Code.ILLEGAL_CONSUMER_GROUP
    assert refused(get, desk, "a b") is Code.ILLEGAL_CONSUMER_GROUP
    assert refused(get, desk, queue_id=9) is Code.BAD_REQUEST
    assert refused(get, desk) is Code.OFFSET_NOT_FOUND


def test_the_offset_of_an_unknown_group(documented: Any, apache: Any) -> None:
    assert refused(documented.broker.update_offset, "new", "t", 0, 1, now=documented.now) is (
        Code.CONSUMER_GROUP_NOT_FOUND
    )
    apache.broker.update_offset("new", "t", 0, 1, now=apache.now)
    assert get(apache, "new") == 1


def test_receives_of_a_normal_group_move_its_offset(desk: Any) -> None:
    """R10.4: at delivery, not at the ack."""
    desk.send("a", "b", "c")
    desk.receive(2)
    assert get(desk) == 2
    (snapshot,) = desk.broker.offsets("g")
    assert (snapshot.offset, snapshot.max_offset, snapshot.lag) == (2, 3, 1)


def test_a_receive_continues_at_a_stored_offset(desk: Any) -> None:
    desk.send("a", "b", "c")
    desk.broker.update_offset("g", "t", 0, 2, now=desk.now)
    assert desk.ids() == ["c"]


def test_an_offset_beyond_the_end_waits_for_it(desk: Any) -> None:
    desk.send("a")
    desk.broker.update_offset("g", "t", 0, 2, now=desk.now)
    desk.send("b", "c")
    assert desk.ids() == ["c"]


def query(desk: Any, policy: OffsetPolicy, timestamp: float | None = None) -> int:
    offset: int = desk.broker.query_offset(OffsetQuery("t", 0, policy, timestamp), now=desk.now)
    return offset


def test_offsets_by_policy(desk: Any) -> None:
    """R10.7."""
    desk.send("a", "b")
    desk.wait(3.0)
    desk.send("c")
    assert query(desk, OffsetPolicy.BEGINNING) == 0
    assert query(desk, OffsetPolicy.END) == 3
    assert query(desk, OffsetPolicy.TIMESTAMP, desk.now - 4.0) == 0
    assert query(desk, OffsetPolicy.TIMESTAMP, desk.now - 1.0) == 2
    assert query(desk, OffsetPolicy.TIMESTAMP, desk.now) == 2
    assert query(desk, OffsetPolicy.TIMESTAMP, desk.now + 1.0) == 3
    assert refused(query, desk, OffsetPolicy.TIMESTAMP) is Code.BAD_REQUEST


def reset(desk: Any, policy: OffsetPolicy, timestamp: float | None = None) -> tuple[int, ...]:
    offsets: tuple[int, ...] = desk.broker.reset_offset("g", "t", policy, now=desk.now, timestamp=timestamp)
    return offsets


def test_a_reset_moves_a_group_back_and_forth(desk: Any) -> None:
    desk.send("a", "b")
    for delivery in desk.receive():
        desk.ack(delivery)
    assert reset(desk, OffsetPolicy.BEGINNING) == (0,)
    assert [d.attempt for d in desk.receive()] == [1, 1]
    desk.wait(3.0)
    desk.send("c", "d")
    assert reset(desk, OffsetPolicy.TIMESTAMP, desk.now) == (2,)
    assert desk.ids(1) == ["c"]
    assert reset(desk, OffsetPolicy.END) == (4,)
    assert desk.ids() == []
    assert [event.offset for event in desk.seen(OffsetReset)] == [0, 2, 4]


def test_a_real_server_also_redelivers_messages_in_flight(apache: Any) -> None:
    """R10.6, consumption §7: three of three twice; old handles stay valid."""
    apache.send("m")
    first = apache.one()
    reset(apache, OffsetPolicy.BEGINNING)
    again = apache.one()
    assert again.attempt == 1
    assert apache.ack(again) is Code.OK
    apache.wait_for_return()
    second = apache.one()
    assert second.attempt == 2
    assert first.message.content.message_id == second.message.content.message_id


def test_a_reset_ends_leases_and_pending_returns_in_the_contract(documented: Any) -> None:
    documented.add_group("h")
    documented.send("a", "b")
    documented.one(group="h")
    first = documented.one()
    documented.wait(10.0)
    held = documented.one()
    reset(documented, OffsetPolicy.END)
    assert documented.ack(first) is Code.INVALID_RECEIPT_HANDLE
    assert documented.ack(held) is Code.INVALID_RECEIPT_HANDLE
    documented.wait(100.0)
    assert documented.ids() == []
    assert [event.reason.name for event in documented.seen(LeaseEnded)].count("RESET") == 1
    assert documented.ids(group="h") != []


def test_a_waiting_consumer_and_a_reset(documented: Any, apache: Any) -> None:
    """Consumption §7: it notices at the end of its poll on a real server, at once in the contract."""
    for desk in (documented, apache):
        desk.send("m")
        desk.ack(desk.one())
        desk.poll_id = desk.park(polling=10.0)
        reset(desk, OffsetPolicy.BEGINNING)
    assert list(documented.answers()) == [documented.poll_id]
    assert apache.answers() == {}
    apache.wait(10.0)
    assert len(apache.answers()[apache.poll_id].deliveries) == 1


@pytest.mark.parametrize(("waiting", "answered"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_a_reset_answers_as_many_waiting_receives_as_there_are_messages(
    documented: Any, waiting: int, answered: int
) -> None:
    documented.send("a", "b", "c")
    for delivery in documented.receive():
        documented.ack(delivery)
    polls = [documented.park(1) for _ in range(waiting)]
    reset(documented, OffsetPolicy.BEGINNING)
    assert list(documented.answers()) == polls[:answered]


def test_a_reset_frees_an_ordered_queue_and_its_counts(make_desk: Any) -> None:
    """R8.20, consumption §7."""
    desk = make_desk(ordered=True, type=TopicType.FIFO)
    desk.send("m0", "m1", message_group="A")
    desk.one()
    desk.wait(10.0)
    stale = desk.one(invisible=60.0)
    assert stale.attempt == 2
    reset(desk, OffsetPolicy.BEGINNING)
    fresh = desk.one()
    assert (fresh.message.content.message_id, fresh.attempt) == ("m0", 1)
    expected = Code.OK if desk.profile.ack_without_lease_ok else Code.INVALID_RECEIPT_HANDLE
    assert desk.ack(stale) is expected
    assert desk.ids() == []
    desk.ack(fresh)
    assert desk.ids() == ["m1"]


def test_resets_that_are_refused(desk: Any) -> None:
    call = desk.broker.reset_offset
    assert refused(call, "new", "t", OffsetPolicy.END, now=desk.now) is Code.CONSUMER_GROUP_NOT_FOUND
    assert refused(call, "g", "new", OffsetPolicy.END, now=desk.now) is Code.TOPIC_NOT_FOUND
    assert refused(call, "g", "t", OffsetPolicy.TIMESTAMP, now=desk.now) is Code.BAD_REQUEST
    assert desk.broker.offsets() == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_reset_ends_all_leases_of_its_group(documented: Any, count: int) -> None:
    documented.add_group("h")
    documented.send(*(f"m{number}" for number in range(count)))
    others = documented.receive(group="h")
    deliveries = documented.receive()
    reset(documented, OffsetPolicy.END)
    assert {documented.ack(each) for each in deliveries} == {Code.INVALID_RECEIPT_HANDLE}
    assert {documented.ack(each, group="h") for each in others} == {Code.OK}
    documented.wait_for_return()
    assert documented.ids() == documented.ids(group="h") == []
