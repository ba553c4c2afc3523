"""Handles requests under scripted faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.edge.calls import silence
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Disturbance, FaultRule
from aiorocketmq_fake.edge.remoting.bodies import load
from aiorocketmq_fake.edge.remoting.frames import Frame, FrameError
from aiorocketmq_fake.edge.remoting.groups import locked_queues, memberships
from aiorocketmq_fake.edge.remoting.requests import HangUpError, Request
from aiorocketmq_fake.edge.remoting_codes import RequestCode, RequestError, ResponseCode

__all__ = ["disturb", "subject"]

_LOCKS = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)


def subject(request: Request) -> tuple[str, str, str]:
    """Return client, topic and group of a request, empty without one; for matching faults only.

    A heartbeat has its first group.
    """
    fields = request.frame.fields
    client_id = request.peer.client_id or fields.get("clientID", "")
    topic = fields.get("topic") or fields.get("b", "")
    group = fields.get("consumerGroup") or fields.get("group") or fields.get("groupName", "")
    if request.frame.code == RequestCode.HEART_BEAT:
        body = load(request.frame.body)
        client_id = str(body.get("clientID", ""))
        group = next((each.group for each in memberships(body)), "")
    elif request.frame.code in _LOCKS:
        group, client_id, queues = locked_queues(request)
        topic = next((topic for topic, _ in queues), "")
    return client_id, topic, group


async def disturb(
    rule: FaultRule, driver: Driver, act: Callable[[], Awaitable[Frame | None]]
) -> Frame | None:
    """Handle a request under a fault, and return its answer; HangUpError if the connection breaks instead."""
    match rule.disturbance:
        case Disturbance.REFUSE:
            raise RequestError(ResponseCode(rule.code), rule.message)
        case Disturbance.DELAY:
            await driver.sleep(rule.seconds)
            return await act()
        case Disturbance.LOSE:
            await silence(driver)
        case Disturbance.DROP_REPLY:
            await _regardless(act)
            if rule.hang:
                await silence(driver)
        case Disturbance.DUPLICATE:
            try:
                return await act()
            finally:
                await _regardless(act)
    raise HangUpError


async def _regardless(act: Callable[[], Awaitable[Frame | None]]) -> None:
    """Run it; a refusal is only logged."""
    with suppress(Refusal, RequestError, FrameError):
        await act()
