"""Allocation strategies: which queues of a topic belong to which member of a consumer group.

All members of a group must use the same strategy with the same parameters: each computes its own share, and shares are
not compared. With different strategies, queues are read twice or not at all. A strategy is any plain function of the
type `Allocation`; those here are small immutable values that can be called.
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
"""Takes the queues of one topic, sorted, the client ids of all members, sorted, and the client id of this member, which
is one of them. Returns the queues of this member, each once. If it raises, or returns anything else, repeatedly, the
consumer stops with BackgroundTaskError. Called on the event loop at each rebalance, so it must not block."""


@dataclass(frozen=True, slots=True)
class Averagely:
    """Consecutive queues to each member, the same number to each; the first members get one more of the remainder."""

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        index, size, rest = consumers.index(consumer), *divmod(len(queues), len(consumers))
        begin = index * size + min(index, rest)
        return queues[begin : begin + size + (index < rest)]


@dataclass(frozen=True, slots=True)
class AveragelyByCircle:
    """Queues to the members round-robin."""

    def __call__(
        self, queues: Sequence[MessageQueue], consumers: Sequence[str], consumer: str
    ) -> Sequence[MessageQueue]:
        """Return the queues of `consumer`."""
        return queues[consumers.index(consumer) :: len(consumers)]


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Queues to the members by consistent hashing: if a member leaves, only its own queues move.

    Shares are uneven, and a member may have none; more `virtual_nodes` (points of a member on the ring, at least 1)
    make them more even.
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
        hashes, indexes = _hashes_of(tuple(queues))
        shares: list[int] = []
        for point in _points(consumer, self.virtual_nodes):
            at = bisect_left(points, point)
            if points[at + 1 : at + 2] == [point] and self._last_at(point, consumers) != consumer:
                continue
            previous = points[at - 1] if at else -1
            shares += indexes[bisect_right(hashes, previous) : bisect_right(hashes, point)]
            if not at:
                shares += indexes[bisect_right(hashes, points[-1]) :]
        return [queues[index] for index in sorted(shares)]

    def _last_at(self, point: int, consumers: Sequence[str]) -> str:
        """The member that owns a point at which several members have one."""
        return next(each for each in reversed(consumers) if point in _points(each, self.virtual_nodes))


@dataclass(frozen=True, slots=True)
class Configured:
    """A fixed list of queues, whatever the members are: the lists of different members must not overlap."""

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
    """Only queues of brokers named `room@name` with one of `rooms`, divided evenly among all members."""

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
    """Queues to the members in the same room, by `inner`; queues of rooms without a member to all members.

    `room_of_queue` and `room_of_consumer` return the room of a queue and of a client id, which must not be empty: a
    call raises ValueError otherwise."""

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
        shares: list[MessageQueue] = []
        # Queues of its own room first, as Java's clients list them.
        for room in sorted(by_room, key=lambda room: (room != rooms[consumer], room)):
            members = [each for each in consumers if rooms[each] == room] or consumers
            if consumer in members:
                shares += self.inner(by_room[room], members, consumer)
        return shares


def check_allocation(allocation: object) -> None:
    """Raise TypeError unless `allocation` can be called as a strategy."""
    if not callable(allocation) or isinstance(allocation, type) or iscoroutinefunction(allocation):
        raise TypeError(
            f"allocation must be a strategy such as Averagely(), or a plain function, not {allocation!r}"
        )


def share(
    allocation: Allocation, queues: Iterable[MessageQueue], consumers: Iterable[str], consumer: str
) -> Sequence[MessageQueue]:
    """Return the queues of `consumer` by `allocation`: none if it is no member, or if there are no queues.

    Raises ValueError if the result has queues that are not in `queues`, or one twice."""
    # Java compares UTF-16 units, which for ASCII gives the same order; a client id that is there twice counts twice.
    in_order, members = sorted(queues), sorted(consumers)
    if not all(map(str.isascii, members)):
        members.sort(key=lambda each: each.encode("utf-16-be"))
    if consumer not in members or not in_order:
        return ()
    own = tuple(allocation(in_order, members, consumer))
    for queue in own:
        if not isinstance(queue, MessageQueue):
            raise TypeError(f"{allocation!r} must return MessageQueue values, not {queue!r}")
    if not isinstance(allocation, Configured) and (foreign := set(own).difference(in_order)):
        raise ValueError(f"{allocation!r} returned {min(foreign)}, which is no readable queue of its topic")
    if len(set(own)) < len(own):
        raise ValueError(f"{allocation!r} returned a queue twice: {own}")
    return own


def _check_room(name: Callable[..., str], of: MessageQueue | str, room: str) -> None:
    if not room:
        raise ValueError(f"{name!r} must return the name of a room for {of!r}, not {room!r}")


@lru_cache(maxsize=4096)
def _points(consumer: str, count: int) -> Sequence[int]:
    """The points of a member on the ring, sorted; they do not depend on the other members."""
    return sorted({_hash(f"{consumer}-{number}") for number in range(count)})


@lru_cache(maxsize=32)
def _hashes_of(queues: tuple[MessageQueue, ...]) -> tuple[Sequence[int], Sequence[int]]:
    """The hashes of queues, sorted, and the index of the queue of each hash."""
    hashes = [_hash(_java_text(queue)) for queue in queues]
    indexes = sorted(range(len(queues)), key=hashes.__getitem__)
    return [hashes[index] for index in indexes], indexes


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    """The text form of a queue in Java's clients, which they hash."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.id}]"
