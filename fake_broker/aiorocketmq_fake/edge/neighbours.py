"""The brokers behind one route: what a client that asks one of them is told about all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import RouteEntry
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver

__all__ = ["Neighbour", "Neighbours"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One broker of a cluster, as the others know it."""

    driver: Driver
    address: Address
    is_listed: Callable[[], bool]
    """Whether routes name it."""
    remoting: Address | None = None
    """Where it speaks the classic protocol; None where it does not."""


class Neighbours:
    """All brokers of one cluster, in the order of their names."""

    def __init__(self) -> None:
        self._members: list[Neighbour] = []

    def join(self, member: Neighbour) -> None:
        """Add a broker."""
        self._members.append(member)

    def listed(self, asked: Driver) -> Iterator[Neighbour]:
        """Yield the brokers that routes of the classic protocol name; the one that was asked is among them."""
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
        """Ask all brokers that routes name; the one that was asked refuses for all but where others know the topic."""
        found: list[tuple[RouteEntry, Address]] = []
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
            found.extend((entry, member.address) for entry in entries)
        if not found and refused is not None:
            raise refused
        return found
