"""What the transport reports becomes an error that users can act upon."""

import grpc
import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._session.transport_errors import error_of
from aiorocketmq._transport.failures import failed
from aiorocketmq._transport.interface import Failure, TransportError
from aiorocketmq.errors import (
    BusyError,
    GroupNotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    RefusedError,
    RocketMQError,
    ServerError,
    UnreachableError,
)

ENDPOINT = parse_endpoint("mq:8081")


def error(failure: Failure, text: str = "it said so", *, was_sent: bool = True) -> RocketMQError:
    return error_of(
        TransportError(failure, text, was_sent=was_sent),
        what="SendMessage",
        endpoint=ENDPOINT,
        request_id="r1",
        topic="orders",
        group="billing",
    )


KINDS: dict[Failure, type[RocketMQError]] = {
    Failure.UNREACHABLE: UnreachableError,
    Failure.TIMEOUT: UnreachableError,
    Failure.CANCELLED: UnreachableError,
    Failure.REFUSED: RefusedError,
    Failure.UNIMPLEMENTED: NotSupportedError,
    Failure.UNAUTHENTICATED: PermissionDeniedError,
    Failure.EXHAUSTED: BusyError,
    Failure.INTERNAL: ServerError,
}


@pytest.mark.parametrize(("failure", "kind"), KINDS.items())
def test_every_failure_has_its_error_with_all_facts(failure: Failure, kind: type[RocketMQError]) -> None:
    raised = error(failure)
    assert type(raised) is kind
    assert (raised.endpoint, raised.topic, raised.group, raised.request_id) == (
        "mq:8081",
        "orders",
        "billing",
        "r1",
    )
    for word in ("mq:8081", "'orders'", "'billing'", "SendMessage"):
        assert word in str(raised)
    assert "\n" not in str(raised)


def test_every_failure_is_covered_by_the_table_above() -> None:
    assert KINDS.keys() == set(Failure)


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_request_that_never_left_cannot_have_taken_effect(was_sent: bool) -> None:
    assert error(Failure.UNREACHABLE, was_sent=was_sent).may_have_taken_effect is was_sent


@pytest.mark.parametrize(
    ("code", "text", "was_sent"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN", False),
        (grpc.StatusCode.UNAVAILABLE, "Failed to connect to remote host", False),
        (grpc.StatusCode.UNAVAILABLE, "DNS resolution failed for mq:8081", False),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", True),
        (grpc.StatusCode.UNAVAILABLE, "", True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", True),
        (grpc.StatusCode.INTERNAL, "the proxy failed to connect to its broker", True),
    ],
)
def test_only_a_call_that_found_no_connection_was_never_sent(
    code: grpc.StatusCode, text: str, was_sent: bool
) -> None:
    assert (
        failed(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), text)).was_sent
        is was_sent
    )


def test_settings_of_an_unknown_group_are_distinguished_from_other_refusals_by_their_text() -> None:
    assert type(error(Failure.REFUSED, "group not found: billing")) is GroupNotFoundError
    assert type(error(Failure.REFUSED, "topic is blank")) is RefusedError


def test_a_text_of_several_lines_becomes_one() -> None:
    assert "one two" in str(error(Failure.INTERNAL, "one\n  two\n"))
