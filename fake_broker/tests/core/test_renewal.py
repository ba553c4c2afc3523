"""Leases that the server renews (7.4), and what ends the renewal."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import ClientLeft, LeaseChanged, WrongMessageDeadLettered
from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy


def test_a_renewed_lease_lasts_as_long_as_its_client(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one(auto_renew=True)
    desk.wait(140.0)
    assert desk.ids() == []
    assert desk.ack(delivery) is Code.OK
    desk.wait(200.0)
    assert desk.ids() == []
    assert all(event.renewal for event in desk.seen(LeaseChanged))
    assert desk.broker.totals().leases == 0


def test_renewals_get_longer(desk: Any) -> None:
    """R7.8."""
    desk.send("m")
    start = desk.now
    desk.one(auto_renew=True)
    desk.wait(3600.0)
    renewals = [(round(event.at - start), event.invisible) for event in desk.seen(LeaseChanged)]
    assert renewals[:4] == [(50, 60.0), (100, 180.0), (270, 300.0), (560, 600.0)]


def test_renewal_ends_after_hours_with_a_last_delay_of_the_groups_table(make_desk: Any) -> None:
    """R7.8, R7.12."""
    desk = make_desk()
    desk.send("m")
    desk.one(auto_renew=True)
    desk.wait(4 * 3600.0)
    last = desk.seen(LeaseChanged)[-1]
    steps = desk.profile.backoff.value
    assert last.invisible == steps[2]
    assert desk.one().attempt == 2


@pytest.mark.parametrize(("limit", "renewals"), [(99.999, 1), (100.0, 1), (100.001, 2)])
def test_a_renewal_is_the_last_at_the_limit_and_above(make_desk: Any, limit: float, renewals: int) -> None:
    """Renewals are due 50 s and 100 s after the delivery."""
    desk = make_desk(fields={"renew_limit": limit})
    desk.send("m")
    desk.one(auto_renew=True)
    desk.wait(100.0)
    changes = [event.invisible for event in desk.seen(LeaseChanged)]
    steps = list(desk.profile.renew_steps[:renewals])
    assert changes == (steps if renewals == 2 else [*steps, desk.profile.backoff.value[2]])


def test_the_last_delay_may_grow_exponentially(make_desk: Any) -> None:
    desk = make_desk()
    policy = RetryPolicy(initial=5.0, maximum=7200.0, multiplier=2.0)
    desk.broker.update_group(GroupConfig("g", retry_policy=policy), now=desk.now)
    desk.send("m")
    desk.one(auto_renew=True)
    desk.wait(4 * 3600.0)
    assert desk.seen(LeaseChanged)[-1].invisible == 20.0


def test_old_servers_do_not_renew(make_desk: Any) -> None:
    """Consumption §1: 5.2 and 5.3 give a plain lease of a minute."""
    desk = make_desk(fields={"auto_renews": False})
    desk.send("m")
    delivery = desk.one(auto_renew=True)
    desk.wait(60.0)
    assert desk.ack(delivery) is Code.INVALID_RECEIPT_HANDLE
    desk.wait(desk.profile.revive_latency)
    assert desk.one().attempt == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_terminated_clients_messages_are_redelivered_soon(desk: Any, count: int) -> None:
    """R7.9: all of its messages, and nobody else's."""
    desk.join("d")
    desk.send("other")
    desk.one(auto_renew=True)
    ids = [f"m{number}" for number in range(count)]
    desk.send(*ids)
    desk.receive(auto_renew=True, client="d")
    desk.wait(100.0)
    desk.broker.terminate("d", "g", now=desk.now)
    desk.wait(1.0 + desk.profile.revive_latency - 0.001)
    assert desk.ids() == []
    desk.wait(0.001)
    deliveries = desk.receive()
    assert sorted(each.message.content.message_id for each in deliveries) == ids
    assert {each.attempt for each in deliveries} == {2}


def test_a_terminated_clients_ordered_message_returns_after_1_s(make_desk: Any) -> None:
    desk = make_desk(ordered=True)
    desk.join("d")
    desk.send("m")
    desk.one(auto_renew=True, client="d")
    desk.broker.terminate("d", "g", now=desk.now)
    desk.wait(1.0)
    assert desk.one().attempt == 2


def test_an_expired_clients_messages_are_redelivered(desk: Any) -> None:
    """Consumption §4: about 130 s on a real server."""
    desk.join("d")
    desk.send("m")
    desk.one(auto_renew=True, client="d")
    for _ in range(12):
        desk.wait(10.0, heartbeats=False)
        desk.broker.keep_alive("c", now=desk.now)
    (left,) = desk.seen(ClientLeft)
    assert (left.client_id, left.expired) == ("d", True)
    assert desk.ids() == []
    desk.wait(1.0 + desk.profile.revive_latency)
    assert desk.one().attempt == 2


def test_a_plain_lease_survives_its_client(desk: Any) -> None:
    desk.join("d")
    desk.send("m")
    delivery = desk.one(client="d", invisible=30.0)
    desk.broker.terminate("d", "g", now=desk.now)
    desk.wait(29.0)
    assert desk.ids() == []
    assert desk.ack(delivery, client="d") is Code.OK


def test_a_change_by_the_consumer_ends_the_renewal(desk: Any) -> None:
    """R6.14; consumption §4: such a lease is not released by a termination either."""
    desk.join("d")
    desk.send("m")
    desk.change(desk.one(auto_renew=True, client="d"), 20.0, client_id="d")
    desk.broker.terminate("d", "g", now=desk.now)
    desk.wait(19.999)
    assert desk.ids() == []
    desk.wait(0.001 + desk.profile.revive_latency)
    assert desk.one().attempt == 2


def test_the_first_handle_changes_and_acks_after_a_renewal(desk: Any) -> None:
    """R7.10."""
    desk.send("a")
    first = desk.one(auto_renew=True)
    desk.send("b")
    second = desk.one(auto_renew=True)
    desk.wait(130.0)
    handle = desk.change(first, 30.0, message_id="a")
    assert desk.ack(handle) is Code.OK
    assert desk.ack(second) is Code.OK
    assert desk.broker.totals().leases == 0


@pytest.mark.parametrize("seconds", [0.0, 60.0, 130.0])
def test_no_older_handle_finds_a_lease_that_its_consumer_changed(desk: Any, seconds: float) -> None:
    """The first handle and those of renewals are spent by the consumer's change, and not before."""
    desk.send("m")
    first = desk.one(auto_renew=True).receipt_handle
    desk.wait(seconds)
    renewed = [event.receipt_handle for event in desk.seen(LeaseChanged)]
    newest = desk.change(first, 100.0, message_id="m")
    book = desk.broker._state.leases
    assert all(book.find(handle, "c", "m") is None for handle in (first, *renewed))
    assert desk.ack(newest) is Code.OK
    assert desk.broker.totals().leases == 0


def test_the_first_handle_is_translated_for_its_own_client_and_message_only(desk: Any) -> None:
    desk.send("m")
    delivery = desk.one(auto_renew=True)
    desk.wait(130.0)
    assert desk.ack(delivery, client="other") is Code.INVALID_RECEIPT_HANDLE
    assert desk.ack(delivery.receipt_handle) is Code.OK
    assert desk.broker.totals().leases == 0


def test_an_ack_with_a_foreign_message_id_is_not_translated(desk: Any) -> None:
    desk.send("n")
    delivery = desk.one(auto_renew=True)
    desk.wait(130.0)
    assert desk.ack(delivery.receipt_handle) is Code.INVALID_RECEIPT_HANDLE


def test_a_forward_after_renewal_takes_the_wrong_message(apache: Any) -> None:
    """Consumption §5a row 4."""
    apache.send("innocent")
    apache.ack(apache.one())
    apache.send("meant")
    delivery = apache.one(auto_renew=True)
    apache.wait(70.0)
    apache.forward(delivery, message_id="meant")
    (event,) = apache.seen(WrongMessageDeadLettered)
    assert (event.message.content.message_id, event.copied.content.message_id) == ("meant", "innocent")
    assert apache.broker.totals().leases == 0


def test_forwarding_before_the_first_renewal_is_right(apache: Any) -> None:
    apache.send("innocent", "meant")
    _, delivery = apache.receive(auto_renew=True)
    apache.wait(14.0)
    apache.forward(delivery, message_id="meant")
    assert [letter.content.message_id for letter in apache.broker.dead_letters("g")] == ["meant"]


def test_a_terminated_clients_waiting_receive(documented: Any, apache: Any) -> None:
    """Consumption §4: it lives on on a real server; the contract ends it."""
    for desk in (documented, apache):
        desk.join("d")
        desk.poll_id = desk.park(client="d")
        desk.broker.terminate("d", "g", now=desk.now)
        desk.send("m")
    assert documented.answers()[documented.poll_id].deliveries == ()
    assert len(apache.answers()[apache.poll_id].deliveries) == 1
    assert documented.ids() == ["m"]
    assert apache.ids() == []


def test_a_terminated_clients_auto_renewed_receive_takes_and_returns(apache: Any) -> None:
    """Consumption §4: the poll answers 40401, the message is released uncounted."""
    apache.join("d")
    poll_id = apache.park(client="d", auto_renew=True)
    apache.broker.terminate("d", "g", now=apache.now)
    apache.send("m")
    answer = apache.answers()[poll_id]
    assert (answer.code, answer.deliveries) == (Code.MESSAGE_NOT_FOUND, ())
    apache.wait(3.0)
    assert apache.one().attempt == 1


def test_a_restart_ends_renewals_and_keeps_the_rest(desk: Any) -> None:
    """R12.7."""
    desk.join("d")
    desk.send("plain", "a", "b", "c", "d")
    plain = desk.one(invisible=100.0)
    for client in ("c", "d"):
        desk.receive(2, client=client, auto_renew=True)
    parked = desk.park()
    desk.broker.restart(now=desk.now)
    assert desk.answers() == {}
    with pytest.raises(Refusal):
        desk.ask()
    with pytest.raises(Refusal):
        desk.broker.heartbeat("c", "g", now=desk.now)
    assert desk.ack(plain) is Code.OK
    desk.join("c")
    desk.broker.end_poll(parked, now=desk.now)
    assert desk.answers() == {}
    desk.wait(60.0 + desk.profile.revive_latency)
    assert sorted(desk.ids()) == ["a", "b", "c", "d"]
