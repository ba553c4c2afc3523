"""Connections of one client to name servers and brokers: opened on demand, and reopened after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from copy import copy
from functools import partial
from ssl import SSLContext
from typing import TypeAlias

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.connection import CONNECT_TIMEOUT, RemotingConnection
from aiorocketmq._remoting.signing import sign
from aiorocketmq.config import Credentials
from aiorocketmq.errors import ClosedError, PermissionDeniedError, UnreachableError

ServerRequestHandler: TypeAlias = Callable[[Address, Frame], Frame | None]
"""Handles a request of the server at an address; see `connection.RequestHandler`."""


class Pool:
    """One connection for each address. Every request is signed if there are credentials."""

    def __init__(
        self,
        *,
        credentials: Callable[[], Awaitable[Credentials | None]],
        other_credentials: Callable[[Credentials | None], Awaitable[Credentials | None]] | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        ssl: SSLContext | None = None,
        server_name: str | None = None,
        mapped: Callable[[Address], Address] = lambda address: address,
        on_request: ServerRequestHandler | None = None,
        on_lost: Callable[[Address], object] | None = None,
    ) -> None:
        """`other_credentials` returns others than those just refused, None if there are none."""
        self._credentials = credentials
        self._other_credentials = other_credentials
        self._connect_timeout = connect_timeout
        self._ssl = ssl
        self._server_name = server_name
        self._mapped = mapped
        self._on_request = on_request
        self._on_lost = on_lost
        self._connections: dict[Address, RemotingConnection] = {}
        self._opening: dict[Address, asyncio.Task[RemotingConnection]] = {}
        self._is_closed = False

    def is_open(self, address: Address) -> bool:
        """Whether there is an open connection to `address`."""
        connection = self._connections.get(address)
        return connection is not None and connection.is_open

    async def connect(self, address: Address) -> None:
        """Connect to `address` if there is no connection; raises UnreachableError."""
        await self._connection(address)

    async def call(
        self,
        address: Address,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float,
        topic: str | None = None,
        group: str | None = None,
        accept: Collection[int] = (),
        repeats: bool = True,
    ) -> Frame:
        """Send a request, and return its answer, whose code is SUCCESS or one of `accept`.

        If a connection has broken, the request is repeated once on a new one, if it `repeats`: servers close
        connections that were idle for two minutes. If the server refuses the credentials, and there are others by now,
        it is repeated with these. Raises the error of the answer, UnreachableError, or ClosedError after `close`."""
        call = partial(
            RemotingConnection.call,
            code=code,
            body=body,
            timeout=timeout,
            topic=topic,
            group=group,
            accept=accept,
        )
        credentials = await self._credentials()
        try:
            return await self._attempt(
                address, partial(call, fields=_signed(fields, body, credentials)), repeats
            )
        except PermissionDeniedError:
            other = None if self._other_credentials is None else await self._other_credentials(credentials)
            if other is None:
                raise
        return await self._attempt(address, partial(call, fields=_signed(fields, body, other)), repeats)

    async def _attempt(
        self, address: Address, call: Callable[[RemotingConnection], Awaitable[Frame]], repeats: bool
    ) -> Frame:
        connection = await self._connection(address)
        try:
            return await call(connection)
        except UnreachableError as error:
            if connection.is_open or error.timed_out or not repeats:
                raise
        return await call(await self._connection(address))

    async def close(self) -> None:
        """Close all connections; calls in flight raise ClosedError."""
        self._is_closed = True
        for opening in tuple(self._opening.values()):
            opening.cancel()
        for connection in self._connections.values():
            await connection.__aexit__(None, None, None)
        self._connections.clear()

    async def _connection(self, address: Address) -> RemotingConnection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = asyncio.ensure_future(self._opened(address))
            opening.add_done_callback(partial(self._end_opening, address))
        # One attempt for all waiters, which is not cancelled with one of them.
        await asyncio.wait((opening,))
        if opening.cancelled():
            raise self._closed(address)
        if (error := opening.exception()) is not None:
            raise copy(error) from error.__cause__
        return opening.result()

    def _end_opening(self, address: Address, opening: asyncio.Task[RemotingConnection]) -> None:
        del self._opening[address]
        if not opening.cancelled():
            opening.exception()  # or asyncio would log it if nobody waits any more

    async def _opened(self, address: Address) -> RemotingConnection:
        connection = RemotingConnection(
            self._mapped(address),
            connect_timeout=self._connect_timeout,
            on_request=None if self._on_request is None else partial(self._on_request, address),
            on_lost=None if self._on_lost is None else partial(self._on_lost, address),
            ssl=self._ssl,
            server_name=self._server_name,
        )
        if self._is_closed:
            raise self._closed(address)
        await connection.__aenter__()
        self._connections[address] = connection
        return connection

    @staticmethod
    def _closed(address: Address) -> ClosedError:
        return ClosedError(f"the connections to {address} and others were closed", endpoint=str(address))


def _signed(fields: Mapping[str, str] | None, body: bytes, credentials: Credentials | None) -> dict[str, str]:
    if credentials is None:
        return dict(fields or {})
    return sign(
        fields or {},
        body,
        access_key=credentials.access_key,
        secret_key=credentials.secret_key,
        session_token=credentials.session_token,
    )
