"""The calls of one channel as batches of operations, which is what grpcio's asyncio interface makes of them.

That interface gives every call a task, or two where there are many answers, an entry in a set of weak references and
five batches; a poll that waits keeps some sixty objects which the garbage collector walks. None of it is needed by a
caller that waits for its answer, so calls are made by what is below: a third less for each, and nothing to walk. It is
not documented: it serves the versions that were tried, others get `PublicCalls`.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any

import grpc.aio

from aiorocketmq._transport.calls import UnderWay
from aiorocketmq._transport.failures import CALL_ERRORS, ended, failed
from aiorocketmq._transport.interface import Failure, Metadata, Take, TransportError

BURST = 8
"""Unary calls under way from which on answers come in bursts."""

_NO_FLAGS = 0
_OK = 0
_LEFT = "the caller does not wait for it any more"
_CLOSED = "the connection was closed"


class BatchedCalls:
    """Implements `Calls` on the operations below grpcio's asyncio interface."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Raises AttributeError or ImportError where the library is not made as it was."""
        # Any: the library declares nothing of this.
        library: Any = import_module("grpc._cython.cygrpc")
        below: Any = channel
        self._call = below._channel.call
        self._run = library.execute_batch
        self._interrupted = library.ExecuteBatchError
        self._send_metadata = library.SendInitialMetadataOperation
        self._send = library.SendMessageOperation
        self._send_end = library.SendCloseFromClientOperation
        self._receive_metadata = library.ReceiveInitialMetadataOperation
        self._receive = library.ReceiveMessageOperation
        self._receive_status = library.ReceiveStatusOnClientOperation
        self._loop = below._loop
        self.under_way = UnderWay[Any]()
        self._unary = 0
        """Unary calls under way."""

    async def unary(self, path: str, payload: bytes, metadata: Metadata, timeout: float) -> bytes:
        """See Calls."""
        if self._unary >= BURST:
            # All who got an answer of a burst make their next call now, one after the other. A turn of the loop lets
            # these calls leave together, and a server that reads them together answers a fifth more of them.
            await asyncio.sleep(0)
        call = self._begun(path, timeout)
        self._unary += 1
        try:
            answer: bytes | None = await call.unary_unary(payload, tuple(metadata))
        except BaseException as error:
            call.cancel(_LEFT)
            if isinstance(error, CALL_ERRORS):
                raise failed(error) from None
            raise
        finally:
            self._unary -= 1
            self.under_way.ended(call)
        if answer is not None:
            return answer
        status = await call.status()
        if status.code() == _OK:
            raise TransportError(Failure.INTERNAL, "the server answered without a message", was_sent=True)
        raise ended(status.code(), status.details())

    async def stream(self, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take) -> None:
        """See Calls."""
        call = self._begun(path, timeout)
        is_over = False
        try:
            received = self._receive(_NO_FLAGS)
            operations: tuple[object, ...] = (
                self._send_metadata(tuple(metadata), _NO_FLAGS),
                self._send(payload, _NO_FLAGS),
                self._send_end(_NO_FLAGS),
                self._receive_metadata(_NO_FLAGS),
                received,
            )
            try:
                while True:
                    await self._run(call, operations, self._loop)
                    answer: bytes | None = received.message()
                    if answer is None:
                        break
                    take(answer)
                    received = self._receive(_NO_FLAGS)
                    operations = (received,)
            except self._interrupted:
                pass  # the status says why
            status = self._receive_status(_NO_FLAGS)
            await self._run(call, (status,), self._loop)
            is_over = True
            if status.code() != _OK:
                raise ended(status.code(), status.details())
        except CALL_ERRORS as error:
            raise failed(error) from None
        finally:
            if not is_over:
                call.cancel(_LEFT)
            self.under_way.ended(call)

    def end(self) -> None:
        """See Calls."""
        for call in tuple(self.under_way.calls):
            call.cancel(_CLOSED)

    def _begun(self, path: str, timeout: float) -> Any:  # Any: not declared by the library
        try:
            call = self._call(path.encode(), time.time() + timeout, None, None)
        except CALL_ERRORS as error:
            raise failed(error) from None
        self.under_way.calls.add(call)
        return call
