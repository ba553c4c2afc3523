"""Answers of the classic protocol as errors of the library."""

from __future__ import annotations

import pytest
from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq._remoting.refusals import ERROR_OF_RESPONSE, remoting_refusal
from aiorocketmq.errors import BusyError, RefusedError, TopicNotFoundError


def test_every_code_but_success_has_its_error() -> None:
    assert set(ERROR_OF_RESPONSE) == set(ResponseCode) - {ResponseCode.SUCCESS}


def test_an_error_names_who_refused_what_and_what_to_do() -> None:
    error = remoting_refusal(
        17, "No topic route info\nsee http://…", what="A_REQUEST", address="h:1", topic="orders", group="g"
    )
    assert type(error) is TopicNotFoundError
    assert str(error) == (
        "the server at h:1 refused A_REQUEST (topic 'orders', group 'g') with TOPIC_NOT_EXIST (17): "
        "No topic route info; create the topic first, or correct its name"
    )
    assert (error.code, error.topic, error.group, error.endpoint) == (17, "orders", "g", "h:1")
    assert error.server_text.endswith("http://…")


def test_the_text_of_a_server_is_clipped() -> None:
    error = remoting_refusal(1, "x" * 5000, what="A_REQUEST", address="h:1")
    assert error.server_text == "x" * 1000 + "…"


@pytest.mark.parametrize(("code", "kind"), [(2, BusyError), (215, BusyError), (4711, RefusedError)])
def test_throttling_may_be_retried_and_an_unknown_code_is_a_refusal(code: int, kind: type[Exception]) -> None:
    error = remoting_refusal(code, None, what="A_REQUEST", address="h:1")
    assert type(error) is kind
    assert str(code) in str(error)


def test_control_characters_of_a_remark_are_escaped() -> None:
    error = remoting_refusal(1, "it \x1b[31mfailed\tbadly", what="A_REQUEST", address="h:1")
    assert "it \\u001b[31mfailed badly" in str(error)
    assert error.server_text == "it \x1b[31mfailed\tbadly"
