"""Makes the calls of one client: adds headers, encodes, decodes, and raises errors for statuses and network
failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from google.protobuf.message import DecodeError

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.headers import Headers, HeaderSource
from aiorocketmq._session.calls import Call, Request, Response
from aiorocketmq._session.transport_errors import error_of, malformed_answer
from aiorocketmq._transport.interface import Transport, TransportError
from aiorocketmq.errors import ClosedError, RocketMQError, refusal
from aiorocketmq.wire import messages as pb

_MOST_MALFORMED = 128
"""Undecodable answers of one stream after which the stream is closed."""

_FINE = frozenset({int(pb.Code.OK), int(pb.Code.MULTIPLE_RESULTS)})


class Calling:
    """The calls of one client.

    `closed` returns the error to raise instead of a failure that closing has caused; `knows` returns whether a topic
    was found before."""

    def __init__(
        self,
        transport: Transport,
        headers: HeaderSource,
        *,
        wall: Callable[[], float],
        closed: Callable[[], ClosedError | None],
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
        """Make one call; the status of its answer is OK, MULTIPLE_RESULTS or one of `accept`, others are raised."""
        headers, request_id = self.headers.next(self._wall())
        try:
            answer = await self.transport.unary(
                endpoint, call.path, request.SerializeToString(), headers, timeout
            )
        except Exception as error:  # of a transport: whatever it is becomes a RocketMQError
            raise self._error(error, endpoint, call.name, request_id, topic, group) from error
        try:
            response = call.response.FromString(answer)
        except DecodeError as error:
            raise malformed_answer(
                error, what=call.name, endpoint=endpoint, request_id=request_id, topic=topic, group=group
            ) from error
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
        in_order: bool = False,
    ) -> None:
        """Make one call with many answers; network failures are raised, statuses among the answers are for `take`.

        An answer that cannot be decoded, or processed by `take`, does not end the stream, as later ones may be intact:
        MalformedAnswerError is raised at its end. With `in_order`, no later answer reaches `take`."""
        headers, request_id = self.next_headers()
        parse = call.response.FromString
        malformed: list[Exception] = []

        def decode(answer: bytes) -> None:
            if malformed and in_order:
                return
            try:
                take(parse(answer))
            except RocketMQError:
                raise
            except Exception as error:  # whatever a malformed answer may cause
                malformed.append(error)
                if len(malformed) >= _MOST_MALFORMED:
                    raise_malformed()

        def raise_malformed() -> NoReturn:
            raise malformed_answer(
                malformed[0],
                what=call.name,
                endpoint=endpoint,
                request_id=request_id,
                topic=topic,
                group=group,
            ) from malformed[0]

        try:
            await self.transport.server_stream(
                endpoint, call.path, request.SerializeToString(), headers, timeout, decode
            )
        except RocketMQError:
            if malformed:  # although `take` has ended the stream, an answer is missing
                raise_malformed()
            raise
        except Exception as error:  # as in `unary`
            raise self._error(error, endpoint, call.name, request_id, topic, group) from error
        if malformed:
            raise_malformed()

    def _error(
        self,
        error: Exception,
        endpoint: Endpoint,
        what: str,
        request_id: str,
        topic: str | None,
        group: str | None,
    ) -> RocketMQError:
        closed = self._closed() if isinstance(error, TransportError) else None
        return closed or error_of(
            error, what=what, endpoint=endpoint, request_id=request_id, topic=topic, group=group
        )
