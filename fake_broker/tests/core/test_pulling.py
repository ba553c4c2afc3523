"""Queue-granular reading (10.1)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Permission, Refusal
from aiorocketmq_fake.core.values.model import (
    FilterExpression,
    Parked,
    PollAnswered,
    Pulled,
    PullRequest,
    TopicConfig,
)


def ask(desk: Any, offset: int, batch_size: int = 32, **fields: Any) -> Pulled | Parked:
    tag = fields.pop("tag", "*")
    fields = {"group": "g", "topic": "t", "queue_id": 0, "polling": 5.0, "remaining_deadline": 30.0, **fields}
    request = PullRequest("c", offset=offset, batch_size=batch_size, filter=FilterExpression(tag), **fields)
    answer: Pulled | Parked = desk.broker.pull(request, now=desk.now)
    return answer


def pull(desk: Any, offset: int, batch_size: int = 32, **fields: Any) -> Pulled:
    answer = ask(desk, offset, batch_size, **fields)
    assert isinstance(answer, Pulled)
    return answer


def park(desk: Any, offset: int, **fields: Any) -> int:
    answer = ask(desk, offset, **fields)
    assert isinstance(answer, Parked)
    return answer.poll_id


def answers(desk: Any) -> dict[int, Pulled]:
    return {
        output.poll_id: output.result
        for output in desk.broker.take_outputs()
        if isinstance(output, PollAnswered) and isinstance(output.result, Pulled)
    }


def ids(answer: Pulled) -> list[str]:
    return [message.content.message_id for message in answer.messages]


@pytest.fixture
def filled(desk: Any) -> Any:
    """A queue of forty messages, tagged a and b in turn."""
    for index in range(40):
        desk.send(f"m{index:02}", tag="ab"[index % 2])
    return desk


def test_a_pull_reads_from_an_offset(filled: Any) -> None:
    answer = pull(filled, 3, 4)
    assert (answer.code, ids(answer), answer.next_offset) == (Code.OK, ["m03", "m04", "m05", "m06"], 7)


def test_a_pull_changes_nothing(filled: Any) -> None:
    assert pull(filled, 0) == pull(filled, 0)
    assert len(filled.receive()) == 32
    assert filled.broker.totals().leases == 32


def test_next_offsets_chain_through_the_queue(filled: Any) -> None:
    pulled: list[str] = []
    offset = 0
    while offset < 40:
        answer = pull(filled, offset, 7)
        pulled += ids(answer)
        offset = answer.next_offset
    assert pulled == [f"m{index:02}" for index in range(40)]


def test_a_filtered_pull_passes_over_what_it_does_not_want(filled: Any) -> None:
    answer = pull(filled, 0, 3, tag="b")
    assert (ids(answer), answer.next_offset) == (["m01", "m03", "m05"], 6)
    nothing = pull(filled, 0, tag="none")
    assert (nothing.code, nothing.messages, nothing.next_offset) == (Code.MESSAGE_NOT_FOUND, (), 40)


def test_batches_are_cut_to_32(filled: Any) -> None:
    assert len(pull(filled, 0, 50).messages) == 32


@pytest.mark.parametrize(("size", "count"), [(99, 3), (100, 3), (101, 2)])
def test_a_classic_answer_holds_bodies_up_to_its_limit(desk: Any, size: int, count: int) -> None:
    for body in (limits.CLASSIC_ANSWER_MAX - 200, 100, size, 1):
        desk.send("m", body=b"x" * body)
    assert len(pull(desk, 0, 3, classic=True).messages) == count
    assert len(pull(desk, 0, 3).messages) == 3


def test_the_first_message_of_a_classic_answer_may_be_of_any_size(desk: Any) -> None:
    desk.send("m0", "m1", body=b"x" * (limits.CLASSIC_ANSWER_MAX + 1))
    assert ids(pull(desk, 0, classic=True)) == ["m0"]


@pytest.mark.parametrize(("unwanted", "next_offset"), [(799, 799), (800, 800), (801, 800)])
def test_a_pull_examines_at_most_800_messages(desk: Any, unwanted: int, next_offset: int) -> None:
    """R5.11."""
    desk.send(*["m"] * unwanted, tag="a")
    answer = pull(desk, 0, tag="b")
    assert (answer.code, answer.next_offset) == (Code.MESSAGE_NOT_FOUND, next_offset)


@pytest.mark.parametrize(("offset", "nearest"), [(-1, 0), (41, 40)])
def test_an_offset_outside_the_queue_answers_the_nearest(filled: Any, offset: int, nearest: int) -> None:
    answer = pull(filled, offset)
    assert (answer.code, answer.messages, answer.next_offset) == (Code.ILLEGAL_OFFSET, (), nearest)


def test_a_pull_at_the_end_waits_and_ends_empty(filled: Any) -> None:
    poll_id = park(filled, 40)
    filled.wait(4.999)
    assert answers(filled) == {}
    filled.wait(0.001)
    answer = answers(filled)[poll_id]
    assert (answer.code, answer.messages, answer.next_offset) == (Code.MESSAGE_NOT_FOUND, (), 40)


def test_a_pull_that_may_not_wait_is_answered_at_once(filled: Any) -> None:
    assert pull(filled, 40, polling=None).code is Code.MESSAGE_NOT_FOUND
    assert pull(filled, 40, polling=5.0, remaining_deadline=0.0).code is Code.MESSAGE_NOT_FOUND


def test_a_new_message_answers_everybody_who_waits_at_its_queue(make_desk: Any) -> None:
    desk = make_desk(queues=2)
    waiting = {queue_id: [park(desk, 0, queue_id=queue_id) for _ in range(2)] for queue_id in (0, 1)}
    queue_id = desk.send("m").queue_id
    assert sorted(answers(desk)) == waiting[queue_id]


def test_a_message_that_is_not_wanted_moves_a_waiting_pull_on(desk: Any) -> None:
    poll_id = park(desk, 0, tag="b")
    desk.send("m", tag="a")
    answer = answers(desk)[poll_id]
    assert (answer.code, answer.next_offset) == (Code.MESSAGE_NOT_FOUND, 1)


def test_a_waiting_pull_may_be_cancelled_or_ended(desk: Any) -> None:
    cancelled, ended = park(desk, 0), park(desk, 0)
    desk.broker.cancel_poll(cancelled, now=desk.now)
    desk.broker.end_poll(ended, now=desk.now)
    assert list(answers(desk)) == [ended]
    assert desk.broker.totals().polls == 0


def test_a_deleted_topic_and_a_leaving_client_end_waiting_pulls(desk: Any) -> None:
    poll_id = park(desk, 0)
    desk.broker.delete_topic("t", now=desk.now)
    assert list(answers(desk)) == [poll_id]
    desk.broker.create_topic(TopicConfig("t"), now=desk.now)
    poll_id = park(desk, 0)
    desk.broker.terminate("c", "g", now=desk.now)
    assert list(answers(desk)) == ([poll_id] if desk.profile.termination_ends_polls else [])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, Code.ILLEGAL_TOPIC),
        ({"topic": "unknown"}, Code.TOPIC_NOT_FOUND),
        ({"group": "a b"}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"queue_id": 9}, Code.BAD_REQUEST),
        ({"queue_id": -1}, Code.BAD_REQUEST),
        ({"tag": "||"}, Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_pulls_that_are_refused(desk: Any, fields: dict[str, Any], code: Code) -> None:
    with pytest.raises(Refusal) as caught:
        ask(desk, 0, **fields)
    assert caught.value.code is code


def test_a_negative_batch_and_an_unreadable_topic_are_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        ask(desk, 0, -1)
    assert caught.value.code is desk.profile.bad_batch_size_code
    desk.broker.update_topic(TopicConfig("t", permission=Permission.WRITE), now=desk.now)
    with pytest.raises(Refusal) as caught:
        ask(desk, 0)
    assert caught.value.code is Code.FORBIDDEN


@pytest.mark.parametrize(("receives", "pulls"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 3)])
def test_waiting_receives_and_pulls_are_counted_together(desk: Any, receives: int, pulls: int) -> None:
    for _ in range(receives):
        desk.park()
    for _ in range(pulls):
        park(desk, 0)
    assert desk.broker.totals().polls == receives + pulls


def test_too_many_waiting_pulls_are_refused(make_desk: Any) -> None:
    desk = make_desk(fields={"polls_per_key": 1})
    park(desk, 0)
    park(desk, 0)
    with pytest.raises(Refusal) as caught:
        ask(desk, 0)
    assert caught.value.code is Code.TOO_MANY_REQUESTS
