"""Messages that consumers have in flight, counted by weak references."""

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
    """A message from its arrival until it is settled or garbage-collected."""

    client: ClientIdentity
    at: float
    """The event loop's time."""
    place: Place
    size: int
    is_counted: bool
    link: ref[ReceivedMessage]


class InFlight:
    """Records arrivals by message; counts those in the caches of push consumers."""

    def __init__(self) -> None:
        self._arrivals: dict[int, Arrival] = {}
        self._cached: dict[Place, list[int]] = {}

    def arrived(self, message: ReceivedMessage, client: ClientIdentity, at: float) -> None:
        """Record the arrival of `message` by a weak reference."""
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
        """Return the arrival of `message`, None if it was not observed."""
        return self._arrivals.get(id(message))

    def settled(self, message: ReceivedMessage) -> None:
        """Remove a message that is settled."""
        arrival = self._arrivals.get(id(message))
        if arrival is not None:
            self._uncount(arrival)

    def forget(self, client_id: str) -> None:
        """Remove the counts of a client that has stopped."""
        for place in [place for place in self._cached if place[0] == client_id]:
            del self._cached[place]

    def cached(self, client_id: str | None = None) -> list[tuple[Place, int, int]]:
        """Messages and bytes in flight by client, topic and group, of one client or of all; may be called from any
        thread."""
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
