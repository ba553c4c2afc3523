"""Sends, pulls and transactions of the classic protocol, over the queues that gRPC clients use."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_fake.core.values.classic_model import Classic, Heartbeat
from aiorocketmq_fake.core.values.codes import Code, MessageType, Permission, Refusal, Resolution, TopicType
from aiorocketmq_fake.core.values.model import (
    CheckHalf,
    FilterExpression,
    ForChannels,
    GroupConfig,
    OutgoingMessage,
    Pulled,
    PullRequest,
    TopicConfig,
)


def message(topic: str = "t", message_id: str = "m", **fields: Any) -> OutgoingMessage:
    fields = {"body": b"body", "classic": Classic(), "born_timestamp": 1.0, **fields}
    return OutgoingMessage(topic=topic, message_id=message_id, **fields)


def send(desk: Any, *messages: OutgoingMessage, new_queues: int = 0) -> Any:
    return desk.broker.send_classic(messages, now=desk.now, new_queues=new_queues)


def pull(desk: Any, *, group: str = "classic", commit: int | None = None, **fields: Any) -> Pulled:
    fields = {"topic": "t", "queue_id": 0, "offset": 0, "classic": True, **fields}
    answer = desk.broker.pull_classic(PullRequest("c1", group, **fields), now=desk.now, commit=commit)
    assert isinstance(answer, Pulled)
    return answer


def test_the_producer_chooses_the_queue_even_of_ordered_messages(make_desk: Any) -> None:
    desk = make_desk(type=TopicType.FIFO, queues=4)
    for queue_id in range(4):
        (outcome,) = send(desk, message(message_group="one", classic=Classic(queue_id)))
        assert outcome.queue_id == queue_id
    assert 0 <= send(desk, message())[0].queue_id < 4
    with pytest.raises(Refusal) as refused:
        send(desk, message(classic=Classic(4)))
    assert refused.value.code is Code.BAD_REQUEST


def test_an_unknown_topic_is_created_or_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as refused:
        send(desk, message("new"))
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    send(desk, message("new"), new_queues=3)
    assert desk.broker.topic("new").read_queues == 3


def test_a_retry_topic_is_created_with_one_queue(desk: Any) -> None:
    send(desk, message("%RETRY%other", classic=Classic(0, reconsume_times=2)), new_queues=4)
    assert desk.broker.topic("%RETRY%other").write_queues == 1
    assert desk.broker.messages("%RETRY%other")[0].attempts_before == 2


@pytest.mark.parametrize(
    ("attempts", "limit", "is_dead"),
    [(1, 2, False), (2, 2, False), (3, 2, True), (3, -1, False), (4, -1, True)],
)
def test_what_failed_for_the_last_time_is_a_dead_letter(
    desk: Any, attempts: int, limit: int, is_dead: bool
) -> None:
    """Consumers in order send to the retry topic themselves, instead of sending back."""
    desk.add_group("other", max_attempts=4)
    classic = Classic(0, reconsume_times=attempts, max_reconsume_times=limit, delay=10.0)
    send(desk, message("%RETRY%other", classic=classic), new_queues=4)
    desk.broker.advance(desk.now + 20.0)
    assert len(desk.broker.dead_letters("other")) == is_dead
    assert len(desk.broker.messages("%RETRY%other")) == (not is_dead)


def test_while_a_group_holds_a_lock_every_failure_is_the_last(desk: Any) -> None:
    desk.add_group("other")
    desk.broker.lock_queues("other", "c", (("t", 0),), now=desk.now)
    send(desk, message("%RETRY%other"), new_queues=4)
    assert len(desk.broker.dead_letters("other")) == 1


def test_a_refused_send_creates_a_topic_on_real_servers_only(desk: Any) -> None:
    with pytest.raises(Refusal):
        send(desk, message("new", body=b""), new_queues=3)
    assert (desk.broker.topic("new") is not None) is desk.profile.refused_sends_create_topics


def test_brokers_look_neither_at_types_nor_at_permissions(desk: Any) -> None:
    desk.broker.update_topic(TopicConfig("t", TopicType.FIFO, 1, 1, Permission.READ), now=desk.now)
    assert send(desk, message())[0].code is Code.OK


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"body": b""}, Code.MESSAGE_BODY_EMPTY),
        ({"body": bytes(4_194_305)}, Code.MESSAGE_BODY_TOO_LARGE),
        ({"classic": Classic(properties={"WAIT": "x" * 32_700})}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"classic": Classic(delay=1e6)}, Code.ILLEGAL_DELIVERY_TIME),
    ],
)
def test_what_no_broker_stores_is_refused(desk: Any, fields: dict[str, Any], code: Code) -> None:
    with pytest.raises(Refusal) as refused:
        send(desk, message(**fields))
    assert refused.value.code is code
    assert send(desk, message(properties={"a": "x" * 31_000}))[0].code is Code.OK


def test_a_batch_is_several_messages_in_one_queue(make_desk: Any) -> None:
    desk = make_desk(queues=4)
    outcomes = send(desk, *(message(message_id=f"m{number}", classic=Classic(2)) for number in range(3)))
    assert [(outcome.queue_id, outcome.offset) for outcome in outcomes] == [(2, 0), (2, 1), (2, 2)]
    assert [stored.position for stored in desk.broker.messages("t")] == [each.position for each in outcomes]


def test_a_delay_begins_when_the_message_is_sent(documented: Any) -> None:
    send(documented, message(classic=Classic(0, delay=5.0)))
    documented.broker.advance(documented.now + 4.999)
    assert not documented.broker.messages("t")
    documented.broker.advance(documented.now + 5.0)
    assert len(documented.broker.messages("t")) == 1


def test_both_protocols_see_the_same_messages_and_offsets(documented: Any) -> None:
    desk = documented
    desk.send("by-grpc")
    send(desk, message(message_id="by-remoting"))
    pulled = pull(desk, group="g")
    assert [each.content.message_id for each in pulled.messages] == ["by-grpc", "by-remoting"]
    assert desk.ids() == ["by-grpc", "by-remoting"]
    assert desk.broker.get_offset("g", "t", 0, now=desk.now) == 2
    pull(desk, group="g", commit=1)
    assert desk.broker.get_offset("g", "t", 0, now=desk.now) == 1


def test_a_pull_creates_its_group(desk: Any) -> None:
    pull(desk)
    assert desk.broker.has_group("classic")
    desk.broker.update_group(GroupConfig("classic", consume_enabled=False), now=desk.now)
    with pytest.raises(Refusal) as refused:
        pull(desk)
    assert refused.value.code is Code.FORBIDDEN


def test_an_answer_has_256_kib_or_one_message(desk: Any) -> None:
    for size in (10, 4_000_000, 200_000, 60_000, 60_000):
        send(desk, message(body=bytes(size)))
    sizes = []
    offset = 0
    while offset < 5:
        pulled = pull(desk, offset=offset)
        sizes.append([len(each.content.body) for each in pulled.messages])
        offset = pulled.next_offset
    assert sizes == [[10], [4_000_000], [200_000, 60_000], [60_000]]


def test_tags_of_one_hash_pass_where_brokers_compare_hashes(apache: Any, documented: Any) -> None:
    for desk, expected in ((apache, ["m", "twin"]), (documented, ["m"])):
        send(desk, message(tag="Aa"))
        send(desk, message(message_id="twin", tag="BB"))
        pulled = pull(desk, filter=FilterExpression("Aa"))
        assert [each.content.message_id for each in pulled.messages] == expected


def half(desk: Any, message_id: str) -> int:
    fields = {"message_type": MessageType.TRANSACTION, "born_timestamp": desk.now}
    classic = Classic(properties={"PGROUP": "pg", "TRAN_MSG": "true"})
    (outcome,) = send(desk, message(message_id=message_id, classic=classic, **fields))
    return int(outcome.offset)


def test_a_half_message_is_ended_by_its_offset(desk: Any) -> None:
    committed, dropped = half(desk, "committed"), half(desk, "dropped")
    desk.broker.end_half(committed, Resolution.COMMIT, now=desk.now)
    desk.broker.end_half(dropped, Resolution.ROLLBACK, now=desk.now)
    assert [each.content.message_id for each in desk.broker.messages("t")] == ["committed"]
    with pytest.raises(Refusal) as refused:
        desk.broker.end_half(99, Resolution.COMMIT, now=desk.now)
    assert refused.value.code is Code.INVALID_TRANSACTION_ID


def test_a_checked_producer_answers_with_the_new_offset(desk: Any) -> None:
    first = half(desk, "m")
    desk.broker.beat(7, Heartbeat("p", producers=("pg",)), now=desk.now)
    desk.broker.advance(desk.now + 70.0)
    desk.now += 70.0
    check = [each for each in desk.broker.take_outputs() if isinstance(each.command, CheckHalf)][-1]
    assert isinstance(check, ForChannels)
    assert check.channels == (7,)
    assert check.command.message.offset != first
    with pytest.raises(Refusal):
        desk.broker.end_half(first, Resolution.COMMIT, now=desk.now)
    desk.broker.end_half(check.command.message.offset, Resolution.COMMIT, now=desk.now, from_check=True)
    assert len(desk.broker.messages("t")) == 1
