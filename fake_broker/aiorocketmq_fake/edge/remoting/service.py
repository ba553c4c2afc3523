"""Dispatches requests to their handlers, and converts refusals to answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from aiorocketmq_fake.core.values.classic_model import MembersChanged
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.model import CheckHalf
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.peers import PeerBrokers
from aiorocketmq_fake.edge.remoting.administration import Administration
from aiorocketmq_fake.edge.remoting.disturbances import disturb, subject
from aiorocketmq_fake.edge.remoting.frames import Frame, FrameError
from aiorocketmq_fake.edge.remoting.groups import Groups
from aiorocketmq_fake.edge.remoting.inspection import InspectionRequests
from aiorocketmq_fake.edge.remoting.messages import record
from aiorocketmq_fake.edge.remoting.reading import Reading
from aiorocketmq_fake.edge.remoting.records import host, message_id, write_record
from aiorocketmq_fake.edge.remoting.requests import Act, HangUpError, Request, answer
from aiorocketmq_fake.edge.remoting.rights import SIGNATURE_FIELDS, authorize
from aiorocketmq_fake.edge.remoting.routes import Routes
from aiorocketmq_fake.edge.remoting.sending import Sending
from aiorocketmq_fake.edge.remoting_codes import (
    NAME_SERVER,
    PULLS,
    SERVED,
    RequestCode,
    RequestError,
    ResponseCode,
    command_name,
    response_code,
)

__all__ = ["Service"]

logger = logging.getLogger("aiorocketmq_fake.broker")

_ONE_WAY = 2
_MEMBER_ANSWERS = 10.0
"""Timeout of a member's answer, in real seconds (live 6)."""
_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


Ask: TypeAlias = Callable[[int, Frame], Awaitable[Frame]]


class Service:
    """A name server and a broker in one."""

    def __init__(self, driver: Driver, faults: Faults, address: Address, peers: PeerBrokers) -> None:
        self._driver = driver
        self._faults = faults
        self._address = address
        self._reading = Reading(driver, address)
        self.ask: Ask
        """Sends a request to a connection and returns its answer; set by the port."""
        self._acts: dict[int, Act] = {
            **Routes(driver, peers).acts(),
            **Groups(driver).acts(),
            **self._reading.acts(),
            **Sending(driver, address).acts(),
            **Administration(driver).acts(),
            **InspectionRequests(driver, address).acts(),
        }

    async def serve(self, request: Request) -> Frame | None:
        """Handle a request, and return its answer when its effect is durable; None: it gets no answer."""
        code = request.frame.code
        try:
            response = await self._act(request)
            await self._driver.durable()
            return response
        except HangUpError:
            raise
        except RequestError as refused:
            return answer(code=refused.code, remark=refused.remark)
        except Refusal as refused:
            return answer(code=response_code(refused.code), remark=refused.message)
        except FrameError as unreadable:
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=str(unreadable))
        except Exception:
            # Outermost handler of a request: an internal error must not look like a decision.
            logger.exception("request %d failed", code)
            text = f"the fake broker failed in request {code}: its log says why"
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=text)

    async def _act(self, request: Request) -> Frame | None:
        code = request.frame.code
        if self._driver.core.access.is_checked and code not in NAME_SERVER:
            authorize(request, self._driver)
        if code not in SERVED:
            text = f" request type {code} not supported"
            return answer(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=text)
        if self._faults and (rule := self._faults.take(command_name(code), *subject(request))):
            return await disturb(rule, self._driver, lambda: self._do(request))
        return await self._do(request)

    async def _do(self, request: Request) -> Frame | None:
        code = request.frame.code
        if code in PULLS:
            return await self._reading.pull(request)
        if code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return await self._running_info(request)
        return self._acts[code](request)

    async def _running_info(self, request: Request) -> Frame:
        """Forward a query about a member to it, and return its answer."""
        group, client_id = request.text("consumerGroup"), request.text("clientId")
        group_members = self._driver.core.members(group)
        members = group_members.members if group_members is not None else ()
        member = next((each for each in members if each.client_id == client_id), None)
        if member is None:
            text = f"The Consumer <{group}> <{client_id}> not online"
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=text)
        try:
            fields = {
                name: text for name, text in request.frame.fields.items() if name not in SIGNATURE_FIELDS
            }
            async with asyncio.timeout(_MEMBER_ANSWERS):
                reply = await self.ask(member.channel, replace(request.frame, fields=fields))
        except TimeoutError:
            text = f"consumer <{group}> <{client_id}> Timeout"
            return answer(code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=text)
        return replace(reply, opaque=0)

    def command(self, command: MembersChanged | CheckHalf) -> Frame:
        """Convert a command of the core to a request to a client."""
        if isinstance(command, MembersChanged):
            fields = {"consumerGroup": command.group}
            return Frame(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields, flag=_ONE_WAY)
        core, message, place = self._driver.core, command.message, host(self._address.endpoint)
        offset = str(message.offset)
        fields = {
            "topic": _HALF_TOPIC,
            "tranStateTableOffset": offset,
            "commitLogOffset": offset,
            "msgId": message.content.message_id,
            "transactionId": message.content.message_id,
            "offsetMsgId": message_id(place, message.offset),
            "bname": core.name,
        }
        body = write_record(record(message, place, core.cluster, checks=command.checks))
        return Frame(RequestCode.CHECK_TRANSACTION_STATE, fields, body, flag=_ONE_WAY)
