"""Retention: what goes by age and by lack of room, and what consumers see of it (11)."""

from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.values.choices import DiskStage
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, Refusal, TopicType
from aiorocketmq_fake.core.values.events import DeletedFor, MessagesDeleted, NotRevived, Revived
from aiorocketmq_fake.core.values.model import OffsetQuery, PullRequest, TopicConfig

HOUR = 3600.0
DAY = 24 * HOUR


def stored(desk: Any, topic: str = "t") -> list[str]:
    return [message.content.message_id for message in desk.broker.messages(topic)]


def keep(desk: Any, **fields: float) -> None:
    desk.broker.set_retention(now=desk.now, **fields)


def clean(desk: Any) -> int:
    cleaned: int = desk.broker.delete_expired(now=desk.now)
    return cleaned


# By age


def test_messages_are_kept_three_days_and_no_longer(documented: Any) -> None:
    documented.send("m")
    documented.wait(3 * DAY - 1)
    assert stored(documented) == ["m"]
    documented.wait(11)
    assert stored(documented) == []
    (event,) = documented.seen(MessagesDeleted)
    assert (event.topic, event.first_offset, event.min_offset) == ("t", 0, 1)
    assert event.reason is DeletedFor.AGE


def test_age_counts_from_the_store_time_of_each_message(documented: Any) -> None:
    keep(documented, retention=HOUR)
    documented.send("old")
    documented.wait(HOUR / 2)
    documented.send("new")
    documented.wait(HOUR / 2 + 10)
    assert stored(documented) == ["new"]


def test_a_real_server_deletes_in_the_fifth_hour_of_the_day(apache: Any) -> None:
    """11: `deleteWhen` is 04, as long as the disk has room."""
    keep(apache, retention=HOUR)
    apache.send("m")
    apache.wait(DAY - apache.now % DAY + 4 * HOUR - 1)
    assert stored(apache) == ["m"]
    apache.wait(1)
    assert stored(apache) == []


def test_a_real_server_with_little_room_deletes_at_any_hour(apache: Any) -> None:
    apache.wait(DAY - apache.now % DAY + 10 * HOUR)
    keep(apache, retention=HOUR, disk_used=0.8)
    apache.send("m")
    apache.wait(HOUR + 10)
    assert stored(apache) == []


def test_cleaning_now_deletes_what_has_expired_and_nothing_else(apache: Any) -> None:
    keep(apache, retention=HOUR)
    apache.send("old")
    apache.wait(2 * HOUR)
    apache.send("new")
    assert clean(apache) == 1
    assert stored(apache) == ["new"]
    assert clean(apache) == 0


def test_consumption_keeps_nothing_and_deletes_nothing(desk: Any) -> None:
    """R11.1: the log knows no groups."""
    keep(desk, retention=HOUR)
    desk.send("read", "unread")
    (delivery,) = desk.receive(1)
    desk.ack_all(delivery.receipt_handle)
    assert stored(desk) == ["read", "unread"]
    desk.wait(HOUR)
    clean(desk)
    assert stored(desk) == []


def test_retries_and_dead_letters_age_from_their_own_store_time(documented: Any) -> None:
    """R11.3."""
    keep(documented, retention=HOUR)
    documented.send("m")
    documented.wait(HOUR - 5)
    documented.receive(invisible=4.0)
    documented.wait(6)
    clean(documented)
    assert stored(documented) == []
    assert documented.ids() == ["m"]


def test_delayed_messages_are_kept_until_they_are_due(make_desk: Any) -> None:
    """R11.4."""
    desk = make_desk(type=TopicType.DELAY)
    keep(desk, retention=HOUR)
    desk.send("m", delivery_timestamp=desk.now + 5 * HOUR)
    desk.wait(5 * HOUR + 2)
    assert desk.ids() == ["m"]


@pytest.mark.parametrize("fields", [{"retention": 0.0}, {"retention": -1.0}, {"disk_used": 1.1}])
def test_impossible_settings_are_refused(desk: Any, fields: dict[str, float]) -> None:
    with pytest.raises(Refusal) as caught:
        keep(desk, **fields)
    assert caught.value.code is Code.BAD_REQUEST
    assert desk.broker.retention().disk_used == 0.0


def test_the_shortest_retention_is_a_millisecond(desk: Any) -> None:
    keep(desk, retention=0.0001)
    assert desk.broker.retention().retention == 0.001


# By lack of room


def test_a_nearly_full_disk_loses_its_oldest_messages_first(desk: Any) -> None:
    """11: above 85 % also what has not expired."""
    desk.send(*(f"m{number:02}" for number in range(30)))
    keep(desk, disk_used=0.86)
    desk.wait(10)
    left = stored(desk)
    assert 0 < len(left) < 30
    assert left == [f"m{number:02}" for number in range(30)][-len(left) :]
    assert desk.seen(MessagesDeleted)[0].reason is DeletedFor.ROOM


def test_each_cleaning_of_a_nearly_full_disk_deletes_a_tenth(desk: Any) -> None:
    desk.send(*(f"m{number:03}" for number in range(110)))
    keep(desk, disk_used=0.86)
    desk.wait(10)
    first, *_ = desk.seen(MessagesDeleted)
    assert (first.first_offset, first.min_offset) == (0, 11)


def test_the_newest_message_stays_on_the_fullest_disk(desk: Any) -> None:
    desk.send("a", "b", "c")
    keep(desk, disk_used=0.86)
    desk.wait(600)
    assert stored(desk) == ["c"]


def test_a_full_disk_refuses_producers_and_recovers(desk: Any) -> None:
    keep(desk, disk_used=0.95)
    with pytest.raises(Refusal) as caught:
        desk.send("m")
    assert caught.value.code is Code.INTERNAL_SERVER_ERROR
    assert desk.broker.retention().stage is DiskStage.FULL
    keep(desk, disk_used=0.5)
    desk.send("n")
    assert stored(desk) == ["n"]


# What consumers see


def test_a_group_behind_the_first_message_continues_there(desk: Any) -> None:
    """R11.2: without any error."""
    keep(desk, retention=HOUR)
    desk.send("a", "b")
    desk.ack_all(desk.one().receipt_handle)
    desk.wait(HOUR)
    clean(desk)
    desk.send("c")
    assert desk.ids() == ["c"]


def test_a_new_group_of_a_real_server_starts_at_the_last_message(apache: Any) -> None:
    """R10.3, remoting §9: where nothing was deleted yet it gets everything."""
    keep(apache, retention=HOUR)
    apache.send("a", "b")
    apache.add_group("early")
    assert apache.ids(group="early") == ["a", "b"]
    apache.wait(HOUR)
    clean(apache)
    apache.send("c", "d")
    apache.add_group("late")
    assert apache.ids(group="late") == ["d"]


def test_lag_counts_no_deleted_messages(desk: Any) -> None:
    keep(desk, retention=HOUR)
    desk.send("a", "b", "c")
    desk.receive(1)
    desk.wait(HOUR)
    desk.send("d")
    clean(desk)
    (progress,) = desk.broker.offsets("g")
    assert (progress.offset, progress.min_offset, progress.lag) == (1, 3, 1)


def test_a_message_deleted_in_flight_can_be_acked(desk: Any) -> None:
    keep(desk, retention=HOUR)
    desk.send("m")
    delivery = desk.one(invisible=2 * HOUR)
    desk.wait(HOUR)
    clean(desk)
    assert desk.ack_all(delivery.receipt_handle).code is Code.OK


def test_a_message_deleted_in_flight_is_not_redelivered(desk: Any) -> None:
    """R11.3."""
    keep(desk, retention=HOUR)
    desk.send("m")
    desk.one(invisible=2 * HOUR)
    desk.wait(HOUR)
    clean(desk)
    desk.wait(2 * HOUR)
    assert desk.ids() == []
    assert [event.message.content.message_id for event in desk.seen(NotRevived)] == ["m"]
    assert desk.seen(Revived) == []


@pytest.mark.parametrize("after", [-0.5, 0.5, 1.5])
def test_a_message_deleted_around_the_end_of_its_lease_is_reported_lost(make_desk: Any, after: float) -> None:
    """Deleted shortly before or after the lease expired, and before the server, which takes 2 s, redelivered it."""
    desk = make_desk(fields={"revive_latency": 2.0, "revive_spread": 0.0})
    keep(desk, retention=HOUR)
    desk.send("m")
    desk.receive(1, invisible=HOUR + 10.0)
    desk.wait(HOUR + 10.0 + after)
    clean(desk)
    desk.wait(3.0)
    assert [event.message.content.message_id for event in desk.seen(NotRevived)] == ["m"]
    assert desk.ids() == []


def test_deleted_messages_do_not_block_an_ordered_group(ordered: Any) -> None:
    keep(ordered, retention=HOUR)
    ordered.send("a", "b", "c", message_group="x")
    ordered.receive(1, invisible=1.5 * HOUR)
    ordered.wait(HOUR)
    clean(ordered)
    ordered.send("d", message_group="x")
    assert ordered.ids() == []
    ordered.wait(0.6 * HOUR)
    assert ordered.ids() == ["d"]


def test_pulls_below_the_first_message_are_sent_there(documented: Any) -> None:
    """10.1."""
    keep(documented, retention=HOUR)
    documented.send("a", "b")
    documented.wait(HOUR)
    clean(documented)
    documented.send("c")
    request = PullRequest("c", "g", "t", 0, 0)
    pulled = documented.broker.pull(request, now=documented.now)
    assert (pulled.code, pulled.messages, pulled.next_offset) == (Code.ILLEGAL_OFFSET, (), 2)
    again = documented.broker.pull(replace(request, offset=2), now=documented.now)
    assert [message.content.message_id for message in again.messages] == ["c"]
    query = OffsetQuery("t", 0, OffsetPolicy.BEGINNING)
    assert documented.broker.query_offset(query, now=documented.now) == 2


def test_every_topic_of_the_node_is_cleaned(desk: Any) -> None:
    desk.broker.create_topic(TopicConfig("u", read_queues=1, write_queues=1), now=desk.now)
    keep(desk, retention=HOUR)
    desk.send("m")
    desk.send("n", topic="u")
    desk.wait(HOUR)
    clean(desk)
    assert stored(desk) == stored(desk, "u") == []


def test_cleaning_is_no_deadline(desk: Any) -> None:
    """A clock that jumps from deadline to deadline must not jump three days to find nothing."""
    before = desk.broker.next_deadline()
    desk.send("m")
    assert desk.broker.next_deadline() == before


@pytest.mark.parametrize(
    ("used", "stage"),
    [
        (0.75, DiskStage.NORMAL),
        (0.751, DiskStage.HIGH),
        (0.85, DiskStage.HIGH),
        (0.851, DiskStage.CRITICAL),
        (0.9, DiskStage.CRITICAL),
        (0.901, DiskStage.FULL),
    ],
)
def test_a_stage_begins_above_its_limit(desk: Any, used: float, stage: DiskStage) -> None:
    keep(desk, disk_used=used)
    assert desk.broker.retention().stage is stage


def test_deleted_messages_that_wait_behind_others_are_delivered_to_no_group(make_documented: Any) -> None:
    desk = make_documented(ordered=True, type=TopicType.FIFO)
    groups = ("g", "h", "i")
    for group in groups[1:]:
        desk.add_group(group, ordered=True)
    keep(desk, retention=HOUR)
    desk.send("a", "b", message_group="x")
    desk.send("c", message_group="y")
    for group in groups:
        assert [desk.ids(1, group=group, invisible=HOUR) for _ in range(2)] == [["a"], ["c"]]
    desk.wait(HOUR)
    clean(desk)
    assert [desk.ids(group=group) for group in groups] == [[], [], []]
