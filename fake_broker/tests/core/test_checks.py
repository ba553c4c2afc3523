"""Producers are checked for open transactions (9.3)."""

from typing import Any

import pytest
from aiorocketmq_fake.core.values.codes import ClientType, Code, MessageType, Refusal, Resolution, TopicType
from aiorocketmq_fake.core.values.events import DecidedAgain, TransactionChecked, TransactionGivenUp
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    CommandForClient,
    EndTransactionRequest,
    RecoverOrphanedTransaction,
)

START = 1_000_000.0


def produce(desk: Any, client_id: str, *topics: str) -> None:
    settings = ClientSettings(ClientType.PRODUCER, topics=topics or ("t",))
    desk.broker.settings(client_id, settings, now=desk.now)


def prepare(desk: Any, *message_ids: str, **fields: Any) -> None:
    desk.send(*message_ids, message_type=MessageType.TRANSACTION, **fields)


def asked(desk: Any) -> list[tuple[str, str]]:
    """Take who was asked about which transaction."""
    return [
        (output.client_id, output.command.transaction_id)
        for output in desk.broker.take_outputs()
        if isinstance(output, CommandForClient) and isinstance(output.command, RecoverOrphanedTransaction)
    ]


def end(desk: Any, resolution: Resolution, transaction_id: str = "m", **fields: Any) -> Code:
    request = EndTransactionRequest("p", "t", transaction_id, resolution, **fields)
    try:
        desk.broker.end_transaction(request, now=desk.now)
    except Refusal as refusal:
        return refusal.code
    return Code.OK


@pytest.fixture
def office(make_desk: Any) -> Any:
    """A TRANSACTION topic and one producer `p` of it, in each profile."""
    desk = make_desk(type=TopicType.TRANSACTION)
    produce(desk, "p")
    return desk


@pytest.fixture
def scanned(make_apache: Any) -> Any:
    """The same where checks fall on the broker's scans, every 30 s from its start."""
    desk = make_apache(type=TopicType.TRANSACTION)
    produce(desk, "p")
    return desk


@pytest.fixture
def timed(make_documented: Any) -> Any:
    """The same where every message keeps its own time."""
    desk = make_documented(type=TopicType.TRANSACTION)
    produce(desk, "p")
    return desk


def check_times(desk: Any) -> list[float]:
    return [event.at - START for event in desk.seen(TransactionChecked)]


def test_a_half_message_is_checked_after_its_immunity_and_every_interval(timed: Any) -> None:
    timed.wait(5.0)
    prepare(timed, "m")
    timed.wait(200.0)
    assert check_times(timed) == [11.0, 71.0, 131.0, 191.0]
    assert asked(timed) == [("p", "m")] * 4


def test_scans_ask_for_all_that_are_no_longer_immune(scanned: Any) -> None:
    """Session §6: at the first scan after the 6 s immunity, then at every scan."""
    scanned.wait(5.0)
    prepare(scanned, "m", born_timestamp=scanned.now)
    scanned.wait(20.0)
    prepare(scanned, "n", born_timestamp=scanned.now)
    scanned.wait(75.0)
    assert check_times(scanned) == [30.0, 60.0, 60.0, 90.0, 90.0]


def test_a_message_may_have_its_own_immunity(office: Any) -> None:
    """Session §6: 20 s and 90 s; whole seconds only on a real server."""
    prepare(office, "m", recovery_duration=20.9)
    prepare(office, "n", recovery_duration=90.0)
    office.wait(125.0)
    checks = office.seen(TransactionChecked)
    times = sorted((event.transaction_id, round(event.at - START, 3)) for event in checks)
    expected = {
        "documented": [("m", 20.9), ("m", 80.9), ("n", 90.0)],
        "apache-5.5": [("m", 30.0), ("m", 60.0), ("m", 90.0), ("m", 120.0), ("n", 120.0)],
    }
    assert times == expected[office.profile.name]


def test_the_checker_sees_the_message(office: Any) -> None:
    """R9.10."""
    prepare(office, "m", tag="a", keys=("k",), properties={"x": "y"})
    office.wait(30.0)
    (output,) = [one for one in office.broker.take_outputs() if isinstance(one, CommandForClient)]
    shown = output.command.message
    assert shown.content.body == b"body"
    assert (shown.content.tag, shown.content.keys, shown.message_type) == (
        "a",
        ("k",),
        MessageType.TRANSACTION,
    )
    assert shown.content.properties["x"] == "y"
    assert shown.transaction_id == "m"


def test_internal_properties_come_to_light(scanned: Any) -> None:
    """R4.4, session §6."""
    prepare(scanned, "m", recovery_duration=20.9)
    scanned.wait(65.0)
    assert end(scanned, Resolution.COMMIT, from_check=True) is Code.OK
    assert scanned.one().message.content.properties == {
        "__transactionId__": "m",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "20",
        "TRANSACTION_CHECK_TIMES": "2",
    }


def test_an_answer_to_a_check_ends_the_transaction(office: Any) -> None:
    prepare(office, "m")
    office.wait(66.0)
    assert end(office, Resolution.COMMIT, from_check=True) is Code.OK
    assert office.ids() == ["m"]
    before = len(office.seen(TransactionChecked))
    office.wait(300.0)
    assert len(office.seen(TransactionChecked)) == before


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_ended_transactions_are_not_checked(office: Any, resolution: Resolution) -> None:
    prepare(office, "m")
    end(office, resolution)
    office.wait(120.0)
    assert asked(office) == []


def test_no_decision_leaves_the_checks_going(office: Any) -> None:
    prepare(office, "m")
    end(office, Resolution.UNSPECIFIED)
    office.wait(31.0)
    assert asked(office) == [("p", "m")]


def test_a_real_server_gives_up_after_fifteen_checks(scanned: Any) -> None:
    """R9.7, session §6: the last of them 435 s after the send at most, then silence."""
    prepare(scanned, "m")
    scanned.wait(600.0)
    assert len(asked(scanned)) == 15
    (given_up,) = scanned.seen(TransactionGivenUp)
    assert (given_up.at - START, given_up.checks) == (480.0, 15)
    assert scanned.broker.half_messages() == ()
    assert scanned.ids() == []


def test_the_contract_gives_up_after_four_hours(timed: Any) -> None:
    """O10."""
    prepare(timed, "m")
    timed.wait(14_399.0)
    assert timed.broker.half_messages("t")[0].checks == 240
    timed.wait(1.0)
    (given_up,) = timed.seen(TransactionGivenUp)
    assert given_up.at - START == 14_400.0
    assert timed.broker.half_messages() == ()


def test_checks_count_without_a_producer(make_apache: Any) -> None:
    """Session §6: a producer that joins at 82 s gets TRANSACTION_CHECK_TIMES = 3."""
    desk = make_apache(type=TopicType.TRANSACTION)
    prepare(desk, "m")
    desk.wait(82.0)
    produce(desk, "p")
    desk.wait(20.0)
    assert [event.client_id for event in desk.seen(TransactionChecked)] == ["", "", "p"]
    assert asked(desk) == [("p", "m")]
    assert desk.broker.half_messages()[0].message.properties["TRANSACTION_CHECK_TIMES"] == "3"


def test_producers_of_the_topic_are_checked_in_turn(office: Any) -> None:
    """R9.8: any producer of the topic, not only the sender; others are never checked."""
    produce(office, "q")
    produce(office, "other", "u")
    prepare(office, *(f"m{n}" for n in range(6)))
    office.wait(31.0)
    assert sorted(client for client, _ in asked(office)) == ["p"] * 3 + ["q"] * 3


def test_a_producer_without_a_stream_is_not_checked(timed: Any) -> None:
    produce(timed, "q")
    timed.broker.lose_stream("p", now=timed.now)
    prepare(timed, "m", "n")
    timed.wait(31.0)
    assert asked(timed) == [("q", "m"), ("q", "n")]
    produce(timed, "p")
    timed.broker.lose_stream("q", now=timed.now)
    timed.wait(60.0)
    assert {client for client, _ in asked(timed)} == {"p"}


def test_a_real_server_loses_the_checks_of_a_producer_without_a_stream(scanned: Any) -> None:
    """Producers take turns, and the next interval is the next one's."""
    produce(scanned, "q")
    scanned.broker.lose_stream("p", now=scanned.now)
    prepare(scanned, "m", "n")
    scanned.wait(60.0)
    assert [client for client, _ in asked(scanned)] == ["q", "q"]
    assert [event.client_id for event in scanned.seen(TransactionChecked)].count("") == 2


def test_an_expired_producer_is_not_checked(scanned: Any) -> None:
    """Session §6: without heartbeats the last command comes before the expiry."""
    prepare(scanned, "m")
    scanned.wait(300.0, heartbeats=False)
    assert len(asked(scanned)) == 3


def test_a_check_lets_one_more_decision_be_taken(office: Any) -> None:
    """R9.1: each recovery command adds thirty seconds."""
    prepare(office, "m")
    office.wait(31.0)
    asked(office)
    office.wait(35.0)
    assert end(office, Resolution.COMMIT) is Code.OK
    assert office.ids() == ["m"]


def test_a_real_server_takes_a_second_commit_after_a_check(scanned: Any) -> None:
    """R9.11: the send and the check let one decision be taken each, and nothing is compared."""
    scanned.wait(20.0)
    prepare(scanned, "m")
    scanned.wait(11.0)
    assert [end(scanned, Resolution.COMMIT) for _ in range(3)] == [
        Code.OK,
        Code.OK,
        Code.INTERNAL_SERVER_ERROR,
    ]
    assert scanned.ids() == ["m", "m"]
    assert len(scanned.seen(DecidedAgain)) == 1


def test_the_contract_takes_the_first_decision_only(timed: Any) -> None:
    prepare(timed, "m")
    timed.wait(7.0)
    assert end(timed, Resolution.ROLLBACK) is Code.OK
    assert end(timed, Resolution.COMMIT) is Code.INVALID_TRANSACTION_ID
    assert timed.ids() == []


def test_a_decision_after_the_own_immunity_counts(office: Any) -> None:
    """Seen on 5.5.0, against R9.3."""
    prepare(office, "m", recovery_duration=1.0)
    office.wait(3.0)
    assert end(office, Resolution.COMMIT) is Code.OK
    assert office.ids() == ["m"]


@pytest.mark.parametrize("age", [3600.0, -60.0])
def test_an_old_born_time_and_one_from_the_future_have_no_immunity(scanned: Any, age: float) -> None:
    """Session §6."""
    scanned.wait(25.0)
    prepare(scanned, "m", born_timestamp=scanned.now - age)
    scanned.wait(5.0)
    assert asked(scanned) == [("p", "m")]


@pytest.mark.parametrize("born", [None, START - 80 * 3600.0])
def test_without_a_credible_born_time_there_is_no_check(scanned: Any, born: float | None) -> None:
    """Session §6: dropped in silence."""
    prepare(scanned, "m", born_timestamp=born)
    scanned.wait(100.0)
    assert asked(scanned) == []
    (given_up,) = scanned.seen(TransactionGivenUp)
    assert given_up.checks == 0


def test_the_contract_counts_from_the_send(timed: Any) -> None:
    prepare(timed, "m", born_timestamp=None)
    prepare(timed, "n", born_timestamp=START - 1e6)
    timed.wait(6.0)
    assert asked(timed) == [("p", "m"), ("p", "n")]


def test_a_separate_proxy_leaves_mixed_topics_alone(make_desk: Any) -> None:
    """R9.9."""
    fields = {"mixed_topics": True, "mixed_topics_checked": False}
    desk = make_desk(fields=fields, type=TopicType.MIXED)
    produce(desk, "p")
    prepare(desk, "m")
    desk.wait(29.0)
    assert end(desk, Resolution.COMMIT) is Code.OK
    prepare(desk, "n")
    desk.wait(300.0)
    assert asked(desk) == []


def test_checks_continue_after_a_restart(office: Any) -> None:
    prepare(office, "m")
    office.broker.restart(now=office.now)
    produce(office, "p")
    office.wait(31.0)
    assert asked(office) == [("p", "m")]
    assert end(office, Resolution.COMMIT, from_check=True) is Code.OK


def test_the_checks_of_a_deleted_topic_end(office: Any) -> None:
    prepare(office, "m")
    office.broker.delete_topic("t", now=office.now)
    office.wait(300.0)
    assert asked(office) == []
    assert office.broker.half_messages() == ()


def test_a_committed_message_may_have_a_delivery_time(office: Any) -> None:
    """Session §4.3: a real server loses it."""
    prepare(office, "m", delivery_timestamp=office.now + 20.0)
    assert end(office, Resolution.COMMIT) is Code.OK
    assert office.ids() == []
    office.wait(25.0)
    assert office.ids() == ([] if office.profile.delayed_transactions_vanish else ["m"])
