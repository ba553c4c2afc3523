"""Which messages consumers have in hand, counted without keeping any of them alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from weakref import ref

from aiorocketmq.hooks import ClientIdentity, Role
from aiorocketmq.message import ReceivedMessage

Place: TypeAlias = tuple[str, str, str]
"""Client id, topic, consumer group."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A message from its arrival until nothing is left to do about it, or nobody holds it any more."""

    client: ClientIdentity
    at: float
    """The event loop's time."""
    place: Place
    size: int
    is_counted: bool
    link: ref[ReceivedMessage]


class InHand:
    """Remembers arrivals by their message; counts those that push consumers have in their caches."""

    def __init__(self) -> None:
        self._arrivals: dict[int, Arrival] = {}
        self._cached: dict[Place, list[int]] = {}

    def arrived(self, message: ReceivedMessage, client: ClientIdentity, at: float) -> None:
        """Remember `message` for as long as somebody else holds it."""
        number = id(message)
        place = (client.client_id, message.topic, client.group or "")

        def gone(_: ref[ReceivedMessage]) -> None:
            self._uncount(self._arrivals.pop(number))

        counted = client.role is Role.PUSH
        arrival = Arrival(client, at, place, len(message.body), counted, ref(message, gone))
        self._arrivals[number] = arrival
        if counted:
            totals = self._cached.setdefault(place, [0, 0])
            totals[0] += 1
            totals[1] += arrival.size

    def of(self, message: ReceivedMessage) -> Arrival | None:
        """How `message` arrived, where that was seen."""
        return self._arrivals.get(id(message))

    def settled(self, message: ReceivedMessage) -> None:
        """Nothing is left to do about `message`."""
        arrival = self._arrivals.get(id(message))
        if arrival is not None:
            self._uncount(arrival)

    def forget(self, client_id: str) -> None:
        """Leave the places of a client that has stopped out of all later counts."""
        for place in [place for place in self._cached if place[0] == client_id]:
            del self._cached[place]

    def cached(self, client_id: str | None = None) -> list[tuple[Place, int, int]]:
        """Messages and bytes by place, of one client or of all; may be called from any thread."""
        return [
            (place, totals[0], totals[1])
            for place, totals in list(self._cached.items())
            if client_id in (None, place[0])
        ]

    def _uncount(self, arrival: Arrival) -> None:
        totals = self._cached.get(arrival.place)
        if arrival.is_counted and totals is not None:
            totals[0] -= 1
            totals[1] -= arrival.size
        arrival.is_counted = False
