"""Which queues of a topic belong to which member of a consumer group.

All members of a group must use the same strategy with the same parameters: each computes its own share, and nobody
compares them. Every strategy is a small value that can be called; any function of the same kind will do as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import md5
from inspect import iscoroutinefunction
from itertools import chain
from typing import TypeAlias, TypeVar

from aiorocketmq.message import MessageQueue

__all__ = [
    "Allocation",
    "Averagely",
    "AveragelyByCircle",
    "Configured",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
]

Of = TypeVar("Of")

Allocation: TypeAlias = Callable[[Sequence[MessageQueue], Sequence[str], str], Sequence[MessageQueue]]
"""Takes the queues of one topic, sorted, the client ids of all members, sorted, and that of this one, which is among
them; returns the queues of this one."""


@dataclass(frozen=True, slots=True)
class Averagely:
    """Neighbouring queues to each member, as many to each as to the others; the first ones take what is left over."""

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        index, size, rest = consumers.index(consumer), *divmod(len(queues), len(consumers))
        begin = index * size + min(index, rest)
        return queues[begin : begin + size + (index < rest)]


@dataclass(frozen=True, slots=True)
class AveragelyByCircle:
    """One queue after another to the members in turn."""

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        return queues[consumers.index(consumer) :: len(consumers)]


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Queues to the members by a ring of hashes: who leaves gives its own queues away, and no others move.

    Shares are uneven, and a member may have none; more `virtual_nodes` (points of a member on the ring) even them out.
    """

    virtual_nodes: int = 10

    def __post_init__(self) -> None:
        if type(self.virtual_nodes) is not int or self.virtual_nodes < 1:
            raise ValueError(f"virtual_nodes must be an integer of at least 1, not {self.virtual_nodes!r}")

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        # A queue belongs to the first point at its hash or behind it, on a ring.
        points = sorted(chain.from_iterable(_points(each, self.virtual_nodes) for each in consumers))
        hashes, indexes = _places(tuple(queues))
        found: list[int] = []
        for point in _points(consumer, self.virtual_nodes):
            at = bisect_left(points, point)
            if points[at + 1 : at + 2] == [point] and self._last_at(point, consumers) != consumer:
                continue
            found += indexes[bisect_right(hashes, points[at - 1] if at else -1) : bisect_right(hashes, point)]
            if not at:
                found += indexes[bisect_right(hashes, points[-1]) :]
        return [queues[index] for index in sorted(found)]

    def _last_at(self, point: int, consumers: Sequence[str]) -> str:
        """The member that has a point which is that of several."""
        return next(each for each in reversed(consumers) if point in _points(each, self.virtual_nodes))


@dataclass(frozen=True, slots=True)
class Configured:
    """The same queues for whoever uses this, whatever the group and the topic have: keep them apart yourself."""

    queues: tuple[MessageQueue, ...]

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        object.__setattr__(self, "queues", tuple(queues))  # the way of frozen dataclasses

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        topics = {queue.topic for queue in queues}
        return [queue for queue in self.queues if queue.topic in topics]


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Only queues of brokers that are named `room@name` with one of `rooms`; evenly among all members."""

    rooms: frozenset[str]

    def __init__(self, rooms: Iterable[str]) -> None:
        if isinstance(rooms, str):
            raise TypeError(f"rooms must be a collection of names; write [{rooms!r}]")
        object.__setattr__(self, "rooms", frozenset(rooms))

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        brokers = {
            broker for broker in {queue.broker for queue in queues} if self._is_ours(broker.split("@"))
        }
        ours = [queue for queue in queues if queue.broker in brokers]
        index, size = consumers.index(consumer), len(ours) // len(consumers)
        rest = ours[len(consumers) * size :]
        return ours[index * size : (index + 1) * size] + rest[index : index + 1]

    def _is_ours(self, parts: Sequence[str]) -> bool:
        return len(parts) == 2 and parts[0] in self.rooms


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Queues to the members in the same room, by `inner`; those of rooms without a member to all.

    `room_of_queue` and `room_of_consumer` name the room, which must not be empty, of a queue and of a client id."""

    room_of_queue: Callable[[MessageQueue], str]
    room_of_consumer: Callable[[str], str]
    inner: Allocation = field(default_factory=Averagely)

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        rooms = {each: self.room_of_consumer(each) for each in consumers}
        for each, room in rooms.items():
            _check_room(self.room_of_consumer, each, room)
        by_room: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            by_room[self.room_of_queue(queue)].append(queue)
        for room, of_room in by_room.items():
            _check_room(self.room_of_queue, of_room[0], room)
        found: list[MessageQueue] = []
        # Those of its own room first, as Java's clients list them.
        for room in sorted(by_room, key=lambda room: (room != rooms[consumer], room)):
            members = [each for each in consumers if rooms[each] == room] or consumers
            if consumer in members:
                found += self.inner(by_room[room], members, consumer)
        return found


def check_allocation(allocation: object) -> None:
    """Raise TypeError unless this can be called as a strategy is."""
    if not callable(allocation) or isinstance(allocation, type) or iscoroutinefunction(allocation):
        raise TypeError(
            f"allocation must be a strategy such as Averagely(), or a plain function, not {allocation!r}"
        )


def share(
    allocation: Allocation, queues: Iterable[MessageQueue], consumers: Iterable[str], consumer: str
) -> Sequence[MessageQueue]:
    """The queues of `consumer` by `allocation`: none if it is no member, or if there are no queues.

    Raises ValueError for what cannot be: queues that are not among `queues`, or one twice."""
    # Java compares UTF-16 units, for ASCII as we do; a client id that is there twice counts twice.
    in_order, members = sorted(queues), sorted(consumers)
    if not all(map(str.isascii, members)):
        members.sort(key=lambda each: each.encode("utf-16-be"))
    if consumer not in members or not in_order:
        return ()
    found = tuple(allocation(in_order, members, consumer))
    for queue in found:
        if not isinstance(queue, MessageQueue):
            raise TypeError(f"{allocation!r} must return MessageQueue values, not {queue!r}")
    if not isinstance(allocation, Configured) and (strange := set(found).difference(in_order)):
        raise ValueError(f"{allocation!r} returned {min(strange)}, which is no readable queue of its topic")
    if len(set(found)) < len(found):
        raise ValueError(f"{allocation!r} returned a queue twice: {found}")
    return found


def _check_room(name: Callable[..., str], of: MessageQueue | str, room: str) -> None:
    if not room:
        raise ValueError(f"{name!r} must return the name of a room for {of!r}, not {room!r}")


@lru_cache(maxsize=4096)
def _points(consumer: str, count: int) -> Sequence[int]:
    """Where a member stands on the ring, sorted; it stays there, whoever else comes and goes."""
    return sorted({_hash(f"{consumer}-{number}") for number in range(count)})


@lru_cache(maxsize=32)
def _places(queues: tuple[MessageQueue, ...]) -> tuple[Sequence[int], Sequence[int]]:
    """The hashes of queues, sorted, and which queue each one is of."""
    hashes = [_hash(_java_text(queue)) for queue in queues]
    indexes = sorted(range(len(queues)), key=hashes.__getitem__)
    return [hashes[index] for index in indexes], indexes


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    """How Java's clients write a queue, of which they take the hash."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.id}]"
