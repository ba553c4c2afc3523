"""Requests to the masters of a cluster, found by name servers or given by address."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from aiorocketmq._core.endpoint import Address, parse_addresses
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.name_servers import NameServers, unreadable
from aiorocketmq._remoting.pool import Pool
from aiorocketmq.errors import TopicNotFoundError, UnreachableError

T = TypeVar("T")
R = TypeVar("R")

_SCHEME = re.compile(r"(namesrv|broker)://(.+)", re.DOTALL)
_AT_ONCE = 32
"""Concurrent requests: brokers have few threads for administration."""


class Masters:
    """The masters behind name servers, or at given addresses."""

    def __init__(
        self, pool: Pool, addresses: tuple[Address, ...], *, through_namesrv: bool, timeout: float
    ) -> None:
        self.given = addresses
        """Addresses of name servers, or of masters."""
        self.through_namesrv = through_namesrv
        self.timeout = timeout
        """Seconds for each answer."""
        self._pool = pool

    def __str__(self) -> str:
        return ";".join(map(str, self.given))

    @property
    def name_servers(self) -> NameServers:
        """The name servers; ValueError if masters were given instead."""
        if not self.through_namesrv:
            raise ValueError(
                f"name servers answer this, and not the broker at {self}: give one, such as 'namesrv://host:9876'"
            )
        return NameServers(self._pool, self.given, timeout=self.timeout)

    async def addresses(self) -> tuple[Address, ...]:
        """The addresses of all masters, of which there is at least one; raises UnreachableError."""
        if not self.through_namesrv:
            return self.given
        brokers = await self.name_servers.brokers()
        masters = tuple(broker.master for broker in brokers if broker.master is not None)
        if not masters:
            raise UnreachableError(
                f"the name server at {self} knows no broker; is one running and registered with it?",
                endpoint=str(self),
            )
        return masters

    async def connect(self) -> None:
        """Raise UnreachableError unless a name server, or every given master, can be reached."""
        if self.through_namesrv:
            await self.addresses()
        else:
            for address in self.given:
                await self._pool.connect(address)

    async def on_each(
        self,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        topic: str | None = None,
        group: str | None = None,
        accept: Collection[int] = (),
    ) -> dict[Address, Frame]:
        """Make a request to all masters, one after the other; the first refusal is raised."""
        return {
            address: await self.call(address, code, fields, body, topic=topic, group=group, accept=accept)
            for address in await self.addresses()
        }

    async def that_have_it(self, ask: Callable[[Address], Awaitable[T]]) -> dict[Address, T]:
        """Return the results of `ask` for each master that has the topic; TopicNotFoundError if none has it."""
        results: dict[Address, T] = {}
        missing: TopicNotFoundError | None = None
        for address in await self.addresses():
            try:
                results[address] = await ask(address)
            except TopicNotFoundError as error:
                missing = error
        if missing is not None and not results:
            raise missing
        return results

    async def call(
        self,
        address: Address,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout: float | None = None,
        topic: str | None = None,
        group: str | None = None,
        accept: Collection[int] = (),
    ) -> Frame:
        """Make a request to one server; see `Pool.call`."""
        return await self._pool.call(
            address,
            code,
            fields,
            body,
            timeout=timeout or self.timeout,
            topic=topic,
            group=group,
            accept=accept,
        )


def parse_servers(endpoint: str) -> tuple[tuple[Address, ...], bool]:
    """Return the servers in `endpoint`, and whether they are name servers; ValueError if it is malformed."""
    matched = _SCHEME.fullmatch(endpoint.strip())
    if matched is None:
        raise ValueError(
            f"endpoint {endpoint!r} must be a name server, such as 'namesrv://host:9876', or a broker, such as "
            "'broker://host:10911': a proxy's gRPC port has no administration"
        )
    return parse_addresses(matched[2]), matched[1] == "namesrv"


async def gathered(call: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results of `call` for all items, in their order; some calls are made concurrently.

    The first error cancels the others."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(item: T) -> R:
        async with room:
            return await call(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def reading(server: object, what: str) -> Iterator[None]:
    """Turn a ValueError of the block into the MalformedAnswerError that `server` sent no `what`."""
    try:
        yield
    except ValueError as error:
        unreadable(server, what, error)


def number_of(server: object, answer: Frame, name: str) -> int:
    """Return a numeric field of an answer, at least -1; MalformedAnswerError if it is none."""
    with reading(server, "an answer"):
        return answer.number(name, least=-1)
