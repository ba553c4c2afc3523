"""The calls that answer with a stream of messages: ReceiveMessage and PullMessage."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import grpc
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from google.protobuf.message import Message
from grpc import aio

from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import Delivery, Parked, Pulled, Received
from aiorocketmq_fake.edge import conversion
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.admission import admit
from aiorocketmq_fake.edge.caller import Caller
from aiorocketmq_fake.edge.calls import (
    NO_CLIENT_ID,
    Context,
    abort,
    caller_of,
    disturbance,
    drop,
    parse,
    silence,
)
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Disturbance, FaultRule, Faults

__all__ = ["Streaming"]

logger = logging.getLogger("aiorocketmq_fake.broker")

# With a manual clock a poll does not time out: it is answered this many real seconds before the caller's deadline.
REAL_MARGIN = 0.25


class Streaming:
    """The streaming half of `MessagingService`."""

    def __init__(self, driver: Driver, faults: Faults, address: Address) -> None:
        self._driver = driver
        self._faults = faults
        self._address = address

    def receive_message(self) -> grpc.RpcMethodHandler[bytes, Message]:
        """Return the handler of ReceiveMessage (5)."""
        return self._handler("ReceiveMessage", self._receive)

    def pull_message(self) -> grpc.RpcMethodHandler[bytes, Message]:
        """Return the handler of PullMessage (10.1)."""
        return self._handler("PullMessage", self._pull)

    def _handler(
        self, name: str, serve: Callable[[Any, Caller, Context, FaultRule | None], Awaitable[None]]
    ) -> grpc.RpcMethodHandler[bytes, Message]:
        async def handle(payload: bytes, context: Context) -> None:
            self._driver.in_progress.enter()
            try:
                await self._driver.gate.wait()
                request = await parse(name, payload, context)
                caller = caller_of(context)
                rule = disturbance(self._faults, name, request, caller)
                if rule is not None:
                    await self._before(rule, context)
                await serve(request, caller, context, rule)
            except aio.AbortError:
                raise
            except Exception:
                # Outermost handler of a call: an internal error must not look like a decision (R1.6).
                logger.exception("%s failed", name)
                await abort(context, "INTERNAL", f"the fake broker failed in {name}: its log says why.")
            finally:
                self._driver.in_progress.leave()

        return grpc.unary_stream_rpc_method_handler(
            handle, response_serializer=METHODS[name].response.SerializeToString
        )

    async def _before(self, rule: FaultRule, context: Context) -> None:
        """Apply a fault that acts before the call."""
        if rule.disturbance is Disturbance.FAIL:
            await abort(context, rule.status, rule.message)
        if rule.disturbance is Disturbance.LOSE:
            await silence(self._driver)
        if rule.disturbance is Disturbance.DELAY:
            await self._driver.sleep(rule.seconds)

    async def _receive(
        self, request: pb.ReceiveMessageRequest, caller: Caller, context: Context, rule: FaultRule | None
    ) -> None:
        try:
            self._check("ReceiveMessage", request, caller, rule)
            remaining = context.time_remaining()
            result = self._driver.run(
                self._driver.core.receive, conversion.receive_request(request, caller, remaining)
            )
            answer = await self._wait(result, remaining)
        except Refusal as refused:
            answer = Received(refused.code, refused.message)
        assert isinstance(answer, Received)
        await self._write(context, rule, self._received(answer), answer.deliveries)

    async def _pull(
        self, request: pb.PullMessageRequest, caller: Caller, context: Context, rule: FaultRule | None
    ) -> None:
        try:
            self._check("PullMessage", request, caller, rule)
            remaining = context.time_remaining()
            result = self._driver.run(
                self._driver.core.pull, conversion.pull_request(request, caller, remaining)
            )
            answer = await self._wait(result, remaining)
        except Refusal as refused:
            answer = Pulled(refused.code, refused.message, (), request.offset)
        assert isinstance(answer, Pulled)
        await self._write(context, rule, self._pulled(answer), ())

    def _check(self, name: str, request: Any, caller: Caller, rule: FaultRule | None) -> None:
        """Refuse what the core does not decide. Any: the request class of the method."""
        admit(name, request, caller, self._driver)
        if not caller.client_id:
            raise Refusal(Code.CLIENT_ID_REQUIRED, NO_CLIENT_ID)
        if rule is not None and rule.disturbance is Disturbance.REFUSE:
            raise Refusal(Code(rule.code), rule.message)

    async def _wait(self, result: Received | Pulled | Parked, remaining: float | None) -> Received | Pulled:
        """Return the answer when it is there and durable."""
        if isinstance(result, Parked):
            real_timeout = None
            if self._driver.clock.is_manual and remaining is not None:
                real_timeout = max(remaining - REAL_MARGIN, 0.0)
            result = await self._driver.poll(result.poll_id, real_timeout)
        if self._driver.journal is not None:
            try:
                await self._driver.durable()
            except BaseException:
                self._driver.release_deliveries(result)
                raise
        return result

    def _received(self, answer: Received) -> Iterator[Message]:
        """Build the frames of a receive's answer (R5.5)."""
        status = pb.ReceiveMessageResponse()
        conversion.set_status(status.status, answer.code, answer.message)
        yield status
        for delivery in answer.deliveries:
            yield conversion.delivered(delivery, self._address.endpoint)
        end = pb.ReceiveMessageResponse()
        conversion.set_instant(end.delivery_timestamp, self._driver.clock.now())
        yield end

    def _pulled(self, answer: Pulled) -> Iterator[Message]:
        """Build the frames of a pull's answer (10.1)."""
        status = pb.PullMessageResponse()
        conversion.set_status(status.status, answer.code, answer.message)
        yield status
        for message in answer.messages:
            frame = pb.PullMessageResponse()
            conversion.set_message(frame.message, message, self._address.endpoint)
            yield frame
        yield pb.PullMessageResponse(next_offset=answer.next_offset)

    async def _write(
        self,
        context: Context,
        rule: FaultRule | None,
        frames: Iterator[Message],
        deliveries: Sequence[Delivery],
    ) -> None:
        """Write frames; messages that were not written, or cut off by a fault, are released (R5.7)."""
        if rule is not None and rule.disturbance is Disturbance.DROP_REPLY:
            await drop(rule, self._driver, context)
        cut = rule.frames if rule is not None and rule.disturbance is Disturbance.CUT_STREAM else None
        written = 0
        try:
            for frame in frames:
                if rule is not None and written == cut:
                    await abort(context, rule.status, rule.message)
                if self._driver.gate.is_shut:
                    await self._driver.gate.wait()
                await context.write(frame)
                written += 1
        finally:
            # The first frame is the status, then one for each delivery.
            if unwritten := deliveries[max(written - 1, 0) :]:
                handles = tuple(delivery.receipt_handle for delivery in unwritten)
                self._driver.run(self._driver.core.release_deliveries, handles)
