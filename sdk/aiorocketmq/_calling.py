"""Makes the calls of one client: headers on, bytes out, bytes in, status and network failures turned into errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError

from aiorocketmq._calls import Call, Request, Response
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.headers import Headers, HeaderSource
from aiorocketmq._failures import error_of, unusable
from aiorocketmq._transport.interface import Transport, TransportError
from aiorocketmq.errors import Closed, refusal
from aiorocketmq.wire import messages as pb

_FINE = frozenset({int(pb.Code.OK), int(pb.Code.MULTIPLE_RESULTS)})


class Calling:
    """The calls of one client.

    `closed` gives the error to raise instead of a failure that closing has caused, `knows` tells whether a topic was
    found before."""

    def __init__(
        self,
        transport: Transport,
        headers: HeaderSource,
        *,
        wall: Callable[[], float],
        closed: Callable[[], Closed | None],
        knows: Callable[[str], bool],
    ) -> None:
        self.transport = transport
        self.headers = headers
        self._wall = wall
        self._closed = closed
        self._knows = knows

    def next_headers(self) -> tuple[Headers, str]:
        """Headers and request id of a new call."""
        return self.headers.next(self._wall())

    async def unary(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        timeout: float,
        topic: str | None = None,
        group: str | None = None,
        accept: Sequence[int] = (),
    ) -> Response:
        """One call; its answer has status OK, MULTIPLE_RESULTS or one of `accept`, anything else is raised."""
        headers, request_id = self.headers.next(self._wall())
        try:
            answer = await self.transport.unary(
                endpoint, call.path, request.SerializeToString(), headers, timeout
            )
        except TransportError as failure:
            closed = self._closed()
            if closed is not None:
                raise closed from failure
            raise error_of(
                failure, what=call.name, endpoint=endpoint, request_id=request_id, topic=topic, group=group
            ) from failure
        response = self._decoded(call, answer, endpoint, request_id, topic, group)
        status: pb.Status = response.status  # type: ignore[attr-defined]  # every answer of a unary call has one
        if status.code not in _FINE and status.code not in accept:
            raise refusal(
                status.code,
                status.message,
                what=call.name,
                request_id=request_id,
                endpoint=str(endpoint),
                topic=topic,
                group=group,
                topic_known=topic is not None and self._knows(topic),
            )
        return response

    async def stream(
        self,
        endpoint: Endpoint,
        call: Call[Request, Response],
        request: Request,
        timeout: float,
        topic: str | None = None,
        group: str | None = None,
        *,
        take: Callable[[Response], None],
    ) -> None:
        """One call with many answers; network failures are raised, statuses among the answers are for `take`."""
        headers, request_id = self.next_headers()
        try:
            await self.transport.server_stream(
                endpoint,
                call.path,
                request.SerializeToString(),
                headers,
                timeout,
                lambda answer: take(self._decoded(call, answer, endpoint, request_id, topic, group)),
            )
        except TransportError as failure:
            closed = self._closed()
            if closed is not None:
                raise closed from failure
            raise error_of(
                failure, what=call.name, endpoint=endpoint, request_id=request_id, topic=topic, group=group
            ) from failure

    @staticmethod
    def _decoded(
        call: Call[Request, Response],
        answer: bytes,
        endpoint: Endpoint,
        request_id: str,
        topic: str | None,
        group: str | None,
    ) -> Response:
        try:
            return call.response.FromString(answer)
        except DecodeError:
            raise unusable(
                "it could not be decoded",
                what=call.name,
                endpoint=endpoint,
                request_id=request_id,
                topic=topic,
                group=group,
            ) from None
