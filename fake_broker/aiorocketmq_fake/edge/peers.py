"""The brokers of one cluster, as routes show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import RouteEntry
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver

__all__ = ["PeerBroker", "PeerBrokers"]


@dataclass(frozen=True, slots=True)
class PeerBroker:
    """One broker of a cluster, as seen by the others."""

    driver: Driver
    address: Address
    is_listed: Callable[[], bool]
    """Whether it is in routes."""
    remoting: Address | None = None
    """Its address of the classic protocol; None without one."""


class PeerBrokers:
    """All brokers of one cluster, in the order of their names."""

    def __init__(self) -> None:
        self._members: list[PeerBroker] = []

    def join(self, member: PeerBroker) -> None:
        """Add a broker."""
        self._members.append(member)

    def listed(self, asked: Driver) -> Iterator[PeerBroker]:
        """Yield the brokers in routes of the classic protocol, including the queried one."""
        for member in self._members:
            if member.remoting is not None and (member.driver is asked or member.is_listed()):
                yield member

    def ask(
        self,
        asked: Driver,
        question: Callable[[Broker], Callable[..., tuple[RouteEntry, ...]]],
        *arguments: object,
        **keywords: object,
    ) -> list[tuple[RouteEntry, Address]]:
        """Query all brokers in routes; a refusal of the queried one counts unless others have the topic."""
        route: list[tuple[RouteEntry, Address]] = []
        refused: Refusal | None = None
        for member in self._members:
            if member.driver is not asked and not member.is_listed():
                continue
            try:
                entries = member.driver.run(question(member.driver.core), *arguments, **keywords)
            except Refusal as refusal:
                if member.driver is asked:
                    if refusal.code is not Code.TOPIC_NOT_FOUND:
                        raise
                    refused = refusal
                continue
            route.extend((entry, member.address) for entry in entries)
        if not route and refused is not None:
            raise refused
        return route
