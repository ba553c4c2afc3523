"""grpcio's errors and status codes as errors of the interface."""

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

# Texts of the library that say that a request never left: there was no connection to send it on.
_NEVER_SENT = (
    "failed to connect",
    "dns resolution failed",
    "connection refused",
    "name or service not known",
)

CALL_ERRORS = (
    grpc.aio.AioRpcError,
    grpc.aio.UsageError,
    grpc.aio.InternalError,
    asyncio.InvalidStateError,
    asyncio.CancelledError,
)
"""What a call of grpcio raises, other than for bugs."""


def failed(error: BaseException) -> TransportError:
    """The error of the interface for one of CALL_ERRORS; a cancellation that the caller asked for goes on as it is."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        # grpcio cancels what is in flight on a channel that we close, and the caller has to be told otherwise.
        return TransportError(Failure.CANCELLED, "the connection was closed", was_sent=True)
    if not isinstance(error, grpc.aio.AioRpcError):
        return TransportError(Failure.UNREACHABLE, str(error), was_sent=False)
    code, text = error.code(), error.details() or error.code().name
    failure = _FAILURES.get(code, Failure.INTERNAL)
    lowered = text.lower()
    was_sent = not (failure is Failure.UNREACHABLE and any(each in lowered for each in _NEVER_SENT))
    return TransportError(failure, text, was_sent=was_sent)
