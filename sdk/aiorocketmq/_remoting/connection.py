"""One connection of the classic protocol: concurrent requests, answers matched by their number."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Callable, Collection, Mapping
from ssl import SSLContext, SSLError
from types import MappingProxyType, TracebackType
from typing import Self, TypeAlias

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import (
    RESPONSE,
    Frame,
    FrameReader,
    MalformedFrameError,
    OtherProtocol,
    encode,
)
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.refusals import remoting_refusal
from aiorocketmq.errors import ClosedError, UnreachableError

logger = logging.getLogger("aiorocketmq.client")

RequestHandler: TypeAlias = Callable[[Frame], Frame | None]
"""Handles a request of the peer, and returns the answer of a two-way one: its code, fields, body and remark count."""

CONNECT_TIMEOUT = 3.0
"""Seconds, as Java's clients; remoting-protocol.md section 0."""
FRAME_TIMEOUT = 30.0
"""Seconds in which a frame that has begun must be complete: 16 MiB take as long at 5 Mbit/s."""

_PORTS = "give the port of a name server (usually 9876) or broker (usually 10911)"
_OTHER_PROTOCOLS: Mapping[str, str] = MappingProxyType(
    {
        "HTTP/2": "speaks HTTP/2, as the gRPC port of a proxy does (usually 8081): give the port of a name server "
        "(usually 9876), or to a client the address without 'namesrv://'",
        "TLS": "speaks TLS: give tls=Tls()",
        "HTTP": f"speaks HTTP: {_PORTS}",
    }
)
"""Names of servers of other protocols, and what to do, by protocol."""


class RemotingConnection:
    """A connection to one name server or broker, open from `async with` to its end or the peer's.

    Requests of the peer are passed to `on_request`, which returns the answer of a two-way one; if it returns None, the
    answer is REQUEST_CODE_NOT_SUPPORTED. `on_lost` is called once when the peer has closed the connection."""

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout: float = CONNECT_TIMEOUT,
        on_request: RequestHandler | None = None,
        on_lost: Callable[[], object] | None = None,
        ssl: SSLContext | None = None,
        server_name: str | None = None,
        frame_timeout: float = FRAME_TIMEOUT,
    ) -> None:
        self.address = address
        self._connect_timeout = connect_timeout
        self._on_request = on_request
        self._on_lost = on_lost
        self._ssl = ssl
        self._server_name = server_name
        self._frame_timeout = frame_timeout
        self._wire: _Wire | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, self._wire = await loop.create_connection(
                    lambda: _Wire(self.address, self._on_request, self._on_lost, self._frame_timeout),
                    self.address.host,
                    self.address.port,
                    ssl=self._ssl,
                    server_hostname=self._server_name if self._ssl else None,
                )
        except TimeoutError as error:
            raise UnreachableError(
                f"no connection to {self.address} within {self._connect_timeout:g} s: check host and port",
                timed_out=True,
                endpoint=str(self.address),
            ) from error
        except SSLError as error:
            raise UnreachableError(
                f"no TLS with {self.address} ({error.reason or error}): check tls= and the server's certificate",
                endpoint=str(self.address),
            ) from error
        except OSError as error:
            raise UnreachableError(
                f"no connection to {self.address} ({error.strerror or error}); is the server running there?",
                endpoint=str(self.address),
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wire is not None:
            self._wire.close()

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._wire is not None and self._wire.failure is None

    async def request(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,
    ) -> Frame:
        """Send a request and return its answer, whatever its code, within `timeout` seconds.

        Raises UnreachableError if there is no answer or the connection ends, ClosedError outside of `async with`,
        ValueError if the request is larger than a frame may be. Cancelled, or after a timeout, the request may have
        taken effect; a late answer is dropped and the connection stays usable. It is closed if nothing arrives for the
        whole time of two consecutive requests, or if a frame is not complete in time."""
        wire = self._usable()
        frame = Frame(code=code, opaque=wire.next_opaque(), fields=fields or {}, body=body)
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout):
                return await wire.exchange(frame)
        except TimeoutError as error:
            wire.missed(began)
            raise UnreachableError(
                f"no answer from {self.address} to {_request_name(code)} within {timeout:g} s; check that the server "
                "runs and its load, or allow more time",
                may_have_taken_effect=True,
                timed_out=True,
                endpoint=str(self.address),
            ) from error

    async def call(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,
        topic: str | None = None,
        group: str | None = None,
        accept: Collection[int] = (),
    ) -> Frame:
        """Send a request; raises the matching RefusedError or BusyError unless the answer is SUCCESS or one of
        `accept`."""
        answer = await self.request(code, fields, body, timeout=timeout)
        if answer.code != ResponseCode.SUCCESS and answer.code not in accept:
            raise remoting_refusal(
                answer.code,
                answer.remark,
                what=_request_name(code),
                address=str(self.address),
                topic=topic,
                group=group,
            )
        return answer

    def _usable(self) -> _Wire:
        if self._wire is None:
            raise ClosedError(f"the connection to {self.address} is not open; use it inside its `async with`")
        if self._wire.failure is not None:
            raise self._wire.failure
        return self._wire


class _Wire(asyncio.Protocol):
    """The event loop's side of a connection: decodes data, wakes waiters for answers."""

    def __init__(
        self,
        address: Address,
        on_request: RequestHandler | None,
        on_lost: Callable[[], object] | None,
        frame_timeout: float,
    ) -> None:
        self.failure: UnreachableError | ClosedError | None = None
        self._address = address
        self._on_request = on_request
        self._on_lost = on_lost
        self._frame_timeout = frame_timeout
        self._reader = FrameReader()
        self._frame_began = math.inf
        """When the incomplete frame began; None if there is none."""
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._opaques = itertools.count(1)
        self._answered = False
        self._silent_since: float | None = None
        """When a request was given up for which nothing had arrived since it was sent; None once something arrives."""
        self._heard_at = -math.inf
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()

    def next_opaque(self) -> int:
        return next(self._opaques) & 0x7FFFFFFF

    async def exchange(self, frame: Frame) -> Frame:
        await self.send(frame)
        # Created last: if sending fails, asyncio would log that the error of the future was not retrieved.
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[frame.opaque] = answer
        try:
            return await answer
        finally:
            self._waiting.pop(frame.opaque, None)

    async def send(self, frame: Frame) -> None:
        data = encode(frame)
        await self._writable.wait()
        if self.failure is not None:
            raise self.failure
        self._unsent.append(data)
        if len(self._unsent) == 1:
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write all that was sent in this turn of the loop at once: a system call takes as long as all else."""
        transport = self._transport
        # A transport that is about to report its loss cannot take anything; from Python 3.12 on it fails then.
        if self._unsent and transport is not None and not transport.is_closing() and self.failure is None:
            transport.writelines(self._unsent)
        self._unsent.clear()

    def missed(self, began: float) -> None:
        """A request got no answer: close the connection if it is the second one without any incoming data.

        A firewall or a dead machine that drops a connection notifies neither side. One request alone may be one that
        this server does not answer."""
        if self.failure is not None:
            return
        if asyncio.get_running_loop().time() - self._frame_began >= self._frame_timeout:
            # Its length may be damaged, which would swallow all later answers.
            text = f"the server at {self._address} has not ended an answer within {self._frame_timeout:g} s; try again"
            self._abort(UnreachableError(text, may_have_taken_effect=True, endpoint=str(self._address)))
        elif self._heard_at >= began:
            return
        elif self._silent_since is None:
            self._silent_since = asyncio.get_running_loop().time()
        elif began >= self._silent_since:
            text = f"the server at {self._address} is silent: it answered nothing for two requests; check that it runs"
            self._abort(UnreachableError(text, may_have_taken_effect=True, endpoint=str(self._address)))

    def close(self) -> None:
        self._write()
        self._end(ClosedError(f"the connection to {self._address} was closed"))
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard_at, self._silent_since = asyncio.get_running_loop().time(), None
        has_begun = self._reader.has_begun
        try:
            for frame in self._reader.feed(data):
                has_begun = False
                self._answered = True
                self._dispatch(frame)
        except MalformedFrameError as error:
            self._abort(self._foreign(error))
        if not self._reader.has_begun:
            self._frame_began = math.inf
        elif not has_begun:
            self._frame_began = self._heard_at

    def _foreign(self, error: MalformedFrameError) -> UnreachableError:
        is_known = isinstance(error, OtherProtocol) and not self._answered
        what = (
            _OTHER_PROTOCOLS[str(error)]
            if is_known
            else f"does not speak the classic RocketMQ protocol ({error}); {_PORTS}"
        )
        failure = UnreachableError(
            f"the server at {self._address} {what}",
            may_have_taken_effect=not is_known,
            endpoint=str(self._address),
        )
        failure.__cause__ = error
        return failure

    def connection_lost(self, exc: Exception | None) -> None:
        when, remedy = "", "try again, and look at the server's log"
        if self._reader.has_begun:
            when = " in the middle of an answer"
        elif not self._answered:
            when, remedy = " before any answer", f"{_PORTS}, and tls=Tls() if it speaks TLS"
        self._end(
            UnreachableError(
                f"the server at {self._address} closed the connection{when}; {remedy}",
                may_have_taken_effect=True,
                endpoint=str(self._address),
            )
        )

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _dispatch(self, frame: Frame) -> None:
        if frame.is_response:
            waiting = self._waiting.get(frame.opaque)
            if waiting is None or waiting.done():
                logger.debug("dropped a late answer from %s, opaque %d", self._address, frame.opaque)
            else:
                waiting.set_result(frame)
            return
        answer = None if self._on_request is None else self._on_request(frame)
        # Answers for a peer that does not read them are not kept.
        if not frame.is_one_way and self._transport is not None and self._writable.is_set():
            answer = answer or Frame(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, opaque=0)
            self._transport.write(encode(answer._replace(opaque=frame.opaque, flag=RESPONSE)))

    def _abort(self, failure: UnreachableError) -> None:
        self._end(failure)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, failure: UnreachableError | ClosedError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        if self._on_lost is not None and isinstance(failure, UnreachableError):
            self._on_lost()
        self._writable.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)


def _request_name(code: int) -> str:
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}"
