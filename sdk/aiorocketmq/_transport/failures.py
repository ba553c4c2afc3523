"""Converts grpcio's errors and status codes to errors of the interface."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from aiorocketmq._transport.interface import Failure, TransportError

_FAILURES = {
    grpc.StatusCode.UNAVAILABLE: Failure.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Failure.TIMEOUT,
    grpc.StatusCode.UNIMPLEMENTED: Failure.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED: Failure.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Failure.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Failure.EXHAUSTED,
    grpc.StatusCode.INVALID_ARGUMENT: Failure.REFUSED,
    grpc.StatusCode.NOT_FOUND: Failure.REFUSED,
    grpc.StatusCode.FAILED_PRECONDITION: Failure.REFUSED,
    grpc.StatusCode.OUT_OF_RANGE: Failure.REFUSED,
    grpc.StatusCode.CANCELLED: Failure.CANCELLED,
}

# Texts of the library for requests that were never sent, for lack of a connection.
_NEVER_SENT = (
    "failed to connect",
    "dns resolution failed",
    "connection refused",
    "name or service not known",
)

END_ERRORS = (
    grpc.aio.AioRpcError,
    grpc.aio.UsageError,
    grpc.aio.InternalError,
    asyncio.InvalidStateError,
)
"""What a call of grpcio raises that has ended."""
CALL_ERRORS = (*END_ERRORS, asyncio.CancelledError)
"""What a call of grpcio raises, except for bugs."""


def failure_of(code: grpc.StatusCode) -> Failure:
    """Return the kind of failure that a status stands for."""
    return _FAILURES.get(code, Failure.INTERNAL)


def failed(error: BaseException) -> TransportError:
    """Return the interface's error for one of CALL_ERRORS; a cancellation by the caller is returned unchanged."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        # grpcio cancels the calls of a channel that we close, and the caller needs another error.
        return TransportError(Failure.CANCELLED, "the connection was closed", was_sent=True)
    if not isinstance(error, grpc.aio.AioRpcError):
        return TransportError(Failure.UNREACHABLE, str(error), was_sent=False)
    code, text = error.code(), error.details() or error.code().name
    failure = failure_of(code)
    lowered = text.lower()
    was_sent = not (failure is Failure.UNREACHABLE and any(each in lowered for each in _NEVER_SENT))
    return TransportError(failure, text, was_sent=was_sent)
