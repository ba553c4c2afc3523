"""Requests to name servers: to one of them while it answers, then to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.routes import BrokerAddresses, Route, parse_cluster, parse_route
from aiorocketmq.errors import MalformedAnswerError, NotSupportedError, UnreachableError


class NameServers:
    """The name servers of one client, which do not communicate with each other: answers may differ for a moment."""

    def __init__(self, pool: Pool, addresses: Sequence[Address], *, timeout: float) -> None:
        self._pool = pool
        self._addresses = tuple(addresses)
        self._timeout = timeout
        self._first = 0

    def __str__(self) -> str:
        return ";".join(map(str, self._addresses))

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`; raises TopicNotFoundError, UnreachableError if no name server answers. Request
        105."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields, topic=topic)
        try:
            return parse_route(answer.body)
        except ValueError as error:
            unreadable(self, "a route", error)

    async def brokers(self) -> tuple[BrokerAddresses, ...]:
        """All brokers of the cluster; raises as `ask`. Request 106."""
        answer = await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        try:
            return parse_cluster(answer.body)
        except ValueError as error:
            unreadable(self, "a list of brokers", error)

    async def ask(self, code: RequestCode, fields: Mapping[str, str], *, topic: str | None = None) -> Frame:
        """Return the answer of the first name server that gives one, beginning with the one that answered last.

        Raises NotSupportedError if the server is no name server, and UnreachableError if none answers."""
        failures: list[UnreachableError] = []
        for number in range(len(self._addresses)):
            index = (self._first + number) % len(self._addresses)
            address = self._addresses[index]
            try:
                answer = await self._pool.call(address, code, fields, timeout=self._timeout, topic=topic)
            except UnreachableError as error:
                failures.append(error)
            except NotSupportedError as error:
                raise NotSupportedError(
                    f"the server at {address} is no name server; if it is a broker, give Admin 'broker://{address}', "
                    "and clients the address of a name server (usually port 9876)",
                    code=error.code,
                    server_text=error.server_text,
                    endpoint=str(address),
                    topic=topic,
                ) from error
            else:
                self._first = index
                return answer
        if len(failures) == 1:
            raise failures[0]
        raise UnreachableError(
            f"none of the name servers {self} answered; the last: {failures[-1]}",
            endpoint=str(self),
            tried=tuple(str(failure) for failure in failures),
        ) from failures[-1]


def unreadable(server: object, what: str, error: ValueError) -> NoReturn:
    """Raise the MalformedAnswerError for an answer of `server`."""
    raise MalformedAnswerError(
        f"the server at {server} sent {what} that cannot be decoded: {error}; {MalformedAnswerError.remedy}",
        endpoint=str(server),
    ) from error
