"""Turns what the transport raises into the errors that users get."""

from __future__ import annotations

from aiorocketmq._core.bounds import clipped, one_line
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.interface import Failure, TransportError
from aiorocketmq.errors import (
    BusyError,
    GroupNotFoundError,
    MalformedAnswerError,
    NotSupportedError,
    PermissionDeniedError,
    RefusedError,
    RocketMQError,
    ServerError,
    UnreachableError,
)


def about(topic: str | None, group: str | None) -> str:
    """` (topic 'a', group 'b')`, as far as they are given."""
    facts = [f"{word} {value!r}" for word, value in (("topic", topic), ("group", group)) if value is not None]
    return f" ({', '.join(facts)})" if facts else ""


def malformed_answer(
    why: Exception | str,
    *,
    what: str,
    endpoint: Endpoint,
    request_id: str | None = None,
    topic: str | None = None,
    group: str | None = None,
) -> MalformedAnswerError:
    """The error for an answer to `what` that does not fit the contract: what the decoder raised, or a clause."""
    if isinstance(why, Exception):
        why = f"it could not be decoded ({one_line(str(why)) or type(why).__name__})"
    return MalformedAnswerError(
        f"the answer of {endpoint} to {what}{about(topic, group)} cannot be used: {why}; {MalformedAnswerError.remedy}",
        request_id=request_id,
        endpoint=str(endpoint),
        topic=topic,
        group=group,
    )


def error_of(
    failure: BaseException,
    *,
    what: str,
    endpoint: Endpoint,
    request_id: str | None = None,
    topic: str | None = None,
    group: str | None = None,
) -> RocketMQError:
    """The error for a call `what` to `endpoint` that failed below the contract's status codes.

    A transport should raise TransportError alone; anything else counts as a broken connection."""
    where = str(endpoint)
    context = about(topic, group)
    if not isinstance(failure, TransportError):
        failure = TransportError(Failure.CANCELLED, f"{type(failure).__name__}: {failure}", was_sent=True)
    detail = one_line(failure.text).rstrip(".")
    if failure.failure in (Failure.UNREACHABLE, Failure.TIMEOUT, Failure.CANCELLED):
        timed_out = failure.failure is Failure.TIMEOUT
        text = (
            f"{where} did not answer {what}{context} in time; check the server's load, or allow more time"
            if timed_out
            else f"{where} could not be reached for {what}{context}: {detail}; check that the server runs and try again"
        )
        return UnreachableError(
            text,
            may_have_taken_effect=failure.was_sent,
            timed_out=timed_out,
            request_id=request_id,
            endpoint=where,
            topic=topic,
            group=group,
        )
    kind = _kind_of(failure)
    remedy = f"; {kind.remedy}" if kind.remedy else ""
    return kind(
        f"the server at {where} refused {what}{context}: {detail}{remedy}",
        server_text=clipped(failure.text),
        request_id=request_id,
        endpoint=where,
        topic=topic,
        group=group,
    )


def _kind_of(failure: TransportError) -> type[RefusedError] | type[BusyError]:
    if failure.failure is Failure.UNIMPLEMENTED:
        return NotSupportedError
    if failure.failure is Failure.UNAUTHENTICATED:
        return PermissionDeniedError
    if failure.failure is Failure.EXHAUSTED:
        return BusyError
    if failure.failure is Failure.REFUSED:
        # Settings of an unknown group end the stream with this text and no code (live-broker-session.md, 2.4).
        text = failure.text.lower()
        return GroupNotFoundError if "group" in text and "not found" in text else RefusedError
    return ServerError
