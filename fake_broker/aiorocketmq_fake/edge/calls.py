"""What all calls of the data plane share: headers, faults, refusals, internal errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from aiorocketmq.wire.methods import METHODS
from google.protobuf.message import DecodeError, Message
from grpc import aio

from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.edge.admission import admit
from aiorocketmq_fake.edge.caller import Caller, read_caller
from aiorocketmq_fake.edge.conversion import set_status, subject
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Disturbance, FaultRule, Faults

__all__ = ["Act", "Context", "abort", "caller_of", "disturbance", "parse", "silence", "unary"]

logger = logging.getLogger("aiorocketmq_fake.broker")

# Without a serializer grpc.aio passes bytes through: requests are parsed here, where a malformed one can be answered.
Context = aio.ServicerContext[Any, Any]
Act = Callable[[Any, Caller], Message]
"""Handles one call: parsed request to response. Any: each takes the request class of its own method."""

NO_CLIENT_ID = "the header x-mq-client-id is missing: send the client's id with every call."


def caller_of(context: Context) -> Caller:
    """Read the headers of a call."""
    return read_caller(context.invocation_metadata() or (), context.peer)


async def parse(name: str, payload: bytes, context: Context) -> Any:
    """Return the request in `payload`, of the class of method `name`; end the call if it is malformed."""
    try:
        return METHODS[name].request.FromString(payload)
    except DecodeError:
        await abort(context, "INTERNAL", no_message(name))


def no_message(name: str) -> str:
    """End the call of a malformed request."""
    return f"the request of {name} is no protobuf message of its type."


async def abort(context: Context, status: str, text: str) -> NoReturn:
    """End a call with a gRPC status."""
    await context.abort(grpc.StatusCode[status], text)
    raise AssertionError("abort raises")


def disturbance(faults: Faults, name: str, request: Message, caller: Caller) -> FaultRule | None:
    """Return the fault for this call, if any."""
    return faults.take(name, caller.client_id, *subject(request)) if faults else None


def unary(name: str, act: Act, driver: Driver, faults: Faults) -> grpc.RpcMethodHandler[bytes, Message]:
    """Return a handler that answers calls of a unary method with the result of `act`, or with its refusal."""
    read, response_class = METHODS[name].request.FromString, METHODS[name].response

    def refusal(code: Code, text: str) -> Message:
        response: Any = response_class()
        set_status(response.status, code, text)
        refused: Message = response
        return refused

    isolated, access = driver.core.profile.namespaces_isolate, driver.core.access

    async def handle(payload: bytes, context: Context) -> Message:
        driver.in_progress.enter()
        try:
            if driver.gate.is_shut:
                await driver.gate.wait()
            request = read(payload)
            caller = caller_of(context)
            if isolated or access.is_checked:
                admit(name, request, caller, driver)
            if not caller.client_id:
                return refusal(Code.CLIENT_ID_REQUIRED, NO_CLIENT_ID)
            if faults and (rule := disturbance(faults, name, request, caller)):
                answer = await _disturb(rule, driver, context, lambda: act(request, caller))
            else:
                answer = act(request, caller)
            if driver.journal is not None:
                await driver.durable()
            if driver.gate.is_shut:
                await driver.gate.wait()
            return answer
        except Refusal as refused:
            answer = refusal(refused.code, refused.message)
            if (
                refused.code is Code.TOO_MANY_REQUESTS
                and "receipt_handle" in answer.DESCRIPTOR.fields_by_name
            ):
                # R1.3: the answer names the handle that is still the newest.
                answer.receipt_handle = request.receipt_handle  # type: ignore[attr-defined]  # as just seen
            return answer
        except DecodeError:
            await abort(context, "INTERNAL", no_message(name))
        except aio.AbortError:
            raise
        except Exception:
            # Outermost handler of a call: an internal error must not look like a decision (R1.6).
            logger.exception("%s failed", name)
            await abort(context, "INTERNAL", f"the fake broker failed in {name}: its log says why.")
        finally:
            driver.in_progress.leave()

    return grpc.unary_unary_rpc_method_handler(
        handle, response_serializer=METHODS[name].response.SerializeToString
    )


async def _disturb(rule: FaultRule, driver: Driver, context: Context, act: Callable[[], Message]) -> Message:
    """Handle a unary call under a fault."""
    match rule.disturbance:
        case Disturbance.REFUSE:
            raise Refusal(Code(rule.code), rule.message)
        case Disturbance.DELAY:
            await driver.sleep(rule.seconds)
            return act()
        case Disturbance.LOSE:
            await silence(driver)
        case Disturbance.DROP_REPLY:
            _regardless(act)
            await drop(rule, driver, context)
        case Disturbance.DUPLICATE:
            try:
                return act()
            finally:
                _regardless(act)
        case Disturbance.FAIL | Disturbance.CUT_STREAM:
            await abort(context, rule.status, rule.message)
    raise AssertionError(f"unary calls have no {rule.disturbance}")


async def drop(rule: FaultRule, driver: Driver, context: Context) -> NoReturn:
    """Give a caller no answer: break its call, or hang until its own deadline."""
    if rule.hang:
        await silence(driver)
    await abort(context, rule.status, rule.message)


async def silence(driver: Driver) -> NoReturn:
    """Hang until the caller gives up."""
    driver.in_progress.leave()
    try:
        await asyncio.Event().wait()
    finally:
        driver.in_progress.enter()
    raise AssertionError("this wait never ends")


def _regardless(act: Callable[[], Message]) -> None:
    """Run it; a refusal is only logged."""
    try:
        act()
    except Refusal as refused:
        logger.debug("refusal without a caller: %s", refused)
