"""The tree of errors, and the table of the server's codes."""

from typing import Any

import pytest
from aiorocketmq import errors
from aiorocketmq._core.codes import Code, code_name
from aiorocketmq.errors import (
    ERROR_OF_CODE,
    BusyError,
    ClosedError,
    LeaseLostError,
    RefusedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    UnreachableError,
    UsageError,
    refusal,
)
from aiorocketmq.many import AckManyError, SendManyError
from aiorocketmq.message import SendReceipt
from aiorocketmq.wire import messages as pb

NO_ERRORS = {Code.OK, Code.MULTIPLE_RESULTS}


def test_every_code_of_the_wire_is_known_by_number_and_name() -> None:
    assert {each.name: int(each) for each in Code} == dict(pb.Code.items())


def test_every_code_of_the_wire_that_is_an_error_has_its_class() -> None:
    assert set(ERROR_OF_CODE) == set(pb.Code.values()) - NO_ERRORS


@pytest.mark.parametrize("code", sorted(set(Code) - NO_ERRORS))
def test_every_refusal_is_one_sentence_that_carries_its_facts(code: Code) -> None:
    error = refusal(code, "so it said", request_id="r1", endpoint="h:1", topic="orders", group="billing")
    assert isinstance(error, RefusedError | BusyError)
    assert (error.code, error.code_name) == (code, code.name)
    facts = (error.request_id, error.endpoint, error.topic, error.group, error.server_text)
    assert facts == ("r1", "h:1", "orders", "billing", "so it said")
    for word in (code.name, str(int(code)), "so it said", "h:1", "'orders'", "'billing'"):
        assert word in str(error)
    assert "\n" not in str(error)


def test_a_long_text_of_a_server_is_clipped() -> None:
    error = refusal(Code.BAD_REQUEST, "x" * 5_000_000, endpoint="h:1")
    assert error.server_text == "x" * 1000 + "…"
    assert len(str(error)) < 1200


def test_a_servers_text_becomes_one_printable_line() -> None:
    error = refusal(Code.BAD_REQUEST, "no\r\n\x1b[31msuch\x00 user\u2028here.\n")
    assert ": no \\u001b[31msuch\\u0000 user here" in str(error)
    assert str(error).isprintable()


def test_a_code_that_the_contract_does_not_know_is_still_a_refusal() -> None:
    error = refusal(49999, "")
    assert type(error) is RefusedError
    assert error.code_name == "49999"
    assert code_name(20000) == "OK"


def test_only_what_may_pass_later_may_be_retried() -> None:
    retried = {code for code, kind in ERROR_OF_CODE.items() if kind.may_retry}
    assert retried == {
        Code.CODE_UNSPECIFIED,
        Code.UNRECOGNIZED_CLIENT_TYPE,
        Code.REQUEST_TIMEOUT,
        Code.TOO_MANY_REQUESTS,
        Code.INTERNAL_ERROR,
        Code.INTERNAL_SERVER_ERROR,
        Code.HA_NOT_AVAILABLE,
        Code.PROXY_TIMEOUT,
        Code.MASTER_PERSISTENCE_TIMEOUT,
        Code.SLAVE_PERSISTENCE_TIMEOUT,
    }


def test_only_a_failing_server_or_a_lost_answer_leaves_the_effect_open() -> None:
    open_ended = {kind for kind in ERROR_OF_CODE.values() if kind.may_have_taken_effect}
    assert open_ended == {ServerError}
    assert UnreachableError("x", may_have_taken_effect=True).may_have_taken_effect
    assert not UnreachableError("x").may_have_taken_effect


def test_the_branches_are_distinguished_by_what_the_caller_can_do() -> None:
    branches = (UsageError, RefusedError, BusyError, UnreachableError, ClosedError)
    assert all(each.__mro__[1] is RocketMQError for each in branches)
    assert issubclass(TopicNotFoundError, RefusedError)
    assert issubclass(LeaseLostError, RefusedError)


def test_the_tree_in_the_module_text_names_every_class() -> None:
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RocketMQError)
    ]
    assert errors.__doc__ is not None
    assert [each.__name__ for each in classes if each.__name__ not in errors.__doc__] == []


def test_an_error_of_many_sends_carries_both_kinds_in_order() -> None:
    receipt = SendReceipt(message_id="m", topic="t", queue=None, offset=0)
    passing, final = BusyError("busy"), ClosedError("closed")
    error = SendManyError("x", outcomes=(passing, receipt, final))
    assert (error.receipts, error.errors) == ((receipt,), (passing, final))
    assert error.may_retry
    assert not error.may_have_taken_effect
    final.may_have_taken_effect = True
    assert SendManyError("x", outcomes=(passing, receipt, final)).may_have_taken_effect


def test_an_error_of_many_acks_names_those_that_failed() -> None:
    lost = LeaseLostError("lost")
    outcomes: Any = (("first", None), ("second", lost))  # texts stand for messages
    error = AckManyError("x", outcomes=outcomes)
    assert error.failed == outcomes[1:]
    assert not error.may_retry
    assert not error.may_have_taken_effect
    with_busy: Any = (*outcomes, ("third", BusyError("busy")))
    busy = AckManyError("x", outcomes=with_busy)
    assert (busy.may_retry, busy.may_have_taken_effect) == (True, False)
    outcomes += (("third", ServerError("not now")),)
    mixed = AckManyError("x", outcomes=outcomes)
    assert (mixed.may_retry, mixed.may_have_taken_effect) == (True, True)
