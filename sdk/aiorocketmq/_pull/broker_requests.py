"""Requests of brokers and administrators to a member of a group; remoting-protocol.md 6.14 and 6.15."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.bodies import parse_offsets, running_info, status
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._pull.fetching import Fetching
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq._version import version
from aiorocketmq.message import MessageQueue

logger = logging.getLogger("aiorocketmq.pull_consumer")

Reset: TypeAlias = Callable[[Mapping[MessageQueue, int]], Coroutine[Any, Any, None]]


class BrokerRequests:
    """Answers the requests for one consumer."""

    def __init__(self, session: RemotingSession, fetching: Fetching, reset: Reset) -> None:
        """`reset` continues at other offsets in the assigned queues."""
        self._session = session
        self._fetching = fetching
        self._reset = reset
        self._started_ms = int(session.environment.wall() * 1000)
        session.requests |= {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._answer_running_info,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._answer_status,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._on_reset,
        }

    def _answer_running_info(self, _: Address, frame: Frame) -> Frame:
        body = running_info(self._positions(), version=version(), started_ms=self._started_ms)
        return Frame(code=ResponseCode.SUCCESS, opaque=frame.opaque, body=body)

    def _answer_status(self, _: Address, frame: Frame) -> Frame:
        return Frame(code=ResponseCode.SUCCESS, opaque=frame.opaque, body=status(self._positions()))

    def _on_reset(self, _: Address, frame: Frame) -> None:
        try:
            offsets = parse_offsets(frame.body)
            if min(offsets.values(), default=0) < 0:
                raise ValueError("an offset is negative")
        except ValueError as error:
            logger.warning(
                "a malformed reset of offsets is ignored: %s",
                error,
                extra=self._session.log_fields(),
            )
            return
        self._session.spawn(self._reset, offsets, name="reset offsets")

    def _positions(self) -> dict[MessageQueue, int]:
        positions = self._fetching.positions
        by_queue = {queue: positions.position(queue) for queue in positions.queues}
        return {queue: position for queue, position in by_queue.items() if position is not None}
