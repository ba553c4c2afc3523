"""Handles and attempt ids in ordered groups."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.events import LeaseEnded


def send(desk: Any, *ids: str, group: str = "A") -> None:
    desk.send(*ids, message_group=group)


# Attempt ids (R8.14)


def test_the_same_attempt_id_gets_the_same_messages_at_once_uncounted(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    first = ordered.receive(1, attempt_id="x")
    again = ordered.receive(1, attempt_id="x", client="c")
    assert [d.message.content.message_id for d in again] == ["m0"]
    assert again[0].attempt == 1
    assert again[0].receipt_handle != first[0].receipt_handle
    assert len(ordered.seen(LeaseEnded)) == 1
    assert ordered.ack(again[0]) is Code.OK
    assert ordered.ids() == ["m1"]


def test_a_larger_batch_with_the_same_attempt_id_adds_followers(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    ordered.receive(1, attempt_id="x")
    assert ordered.ids(2, attempt_id="x") == ["m0", "m1"]


def test_after_a_partial_ack_the_same_attempt_id_returns_the_rest(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    first, _ = ordered.receive(attempt_id="x")
    ordered.ack(first)
    (rest,) = ordered.receive(attempt_id="x")
    assert (rest.message.content.message_id, rest.attempt) == ("m1", 1)


@pytest.mark.parametrize("attempt_id", ["y", ""])
def test_another_attempt_id_waits(ordered: Any, attempt_id: str) -> None:
    send(ordered, "m0")
    ordered.receive(attempt_id="x")
    assert ordered.ids(attempt_id=attempt_id) == []


def test_an_attempt_id_may_be_used_again_after_everything_is_acked(ordered: Any) -> None:
    send(ordered, "m0", "m1")
    (first,) = ordered.receive(1, attempt_id="x")
    ordered.ack(first)
    assert ordered.ids(1, attempt_id="x") == ["m1"]


def test_the_first_handle_is_useless_after_a_repeated_attempt(ordered: Any) -> None:
    """R8.14: OK and ignored on real servers, refused by the contract."""
    send(ordered, "m0", "m1")
    (first,) = ordered.receive(1, attempt_id="x")
    ordered.receive(1, attempt_id="x")
    expected = Code.OK if ordered.profile.ack_without_lease_ok else Code.INVALID_RECEIPT_HANDLE
    assert ordered.ack(first) is expected
    assert ordered.ids() == []


def test_attempt_ids_mean_nothing_to_normal_groups(desk: Any) -> None:
    """R8.15."""
    desk.send("m0", "m1")
    assert desk.ids(1, attempt_id="x") + desk.ids(1, attempt_id="x") == ["m0", "m1"]


# Handles of real servers


def test_the_old_handle_still_acks_in_an_ordered_group_of_a_real_server(queues: Any) -> None:
    """Consumption §1."""
    send(queues, "m0", "m1")
    first = queues.one()
    queues.change(first, 8.0)
    assert queues.ack(first) is Code.OK
    assert queues.ids() == ["m1"]


def test_the_old_handle_still_changes_in_an_ordered_group_of_a_real_server(queues: Any) -> None:
    send(queues, "m0")
    first = queues.one()
    queues.change(first, 8.0)
    queues.change(first, 1.0)
    queues.wait(1.0)
    assert queues.one().attempt == 2


def test_the_contract_refuses_the_old_handle_of_an_ordered_group(lanes: Any) -> None:
    send(lanes, "m0")
    first = lanes.one()
    lanes.change(first, 8.0)
    assert lanes.ack(first) is Code.INVALID_RECEIPT_HANDLE


def test_an_offset_outside_the_batch_is_refused(queues: Any) -> None:
    """R8.9, consumption §6."""
    send(queues, "m0", "m1", "m2")
    queues.ack(queues.one())
    handle = queues.one().receipt_handle.split(" ")
    for offset, code in (("2", Code.INTERNAL_SERVER_ERROR), ("0", Code.OK)):
        assert queues.ack(" ".join([*handle[:7], offset, *handle[8:]])) is code
    assert queues.ids() == []


def test_a_change_of_a_committed_message_answers_a_meaningless_handle(queues: Any) -> None:
    """R6.13."""
    send(queues, "m0")
    first = queues.one()
    queues.ack(first)
    assert queues.change(first, 5.0).split(" ")[1:3] == ["0", "0"]
    queues.wait(20.0)
    assert queues.ids() == []


def test_an_ordered_handle_means_nothing_to_a_group_that_never_read(queues: Any) -> None:
    queues.add_group("h", ordered=True)
    send(queues, "m0")
    assert queues.ack(queues.one(), group="h") is Code.OK
    assert queues.broker.totals().leases == 1
