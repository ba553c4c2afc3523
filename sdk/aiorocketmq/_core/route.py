"""Routes: where a topic's queues are, and which of them a send uses (client-behaviour.md, 9.2 and 9.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.siphash import queue_index


class MessageQueue(NamedTuple):
    """One queue of a topic: topic, name of its broker, and number.

    A named tuple: members of a group sort and hash thousands of them at every rebalance."""

    topic: str
    broker: str
    id: int


@dataclass(frozen=True, slots=True)
class RouteQueue:
    """One queue of a route: its name, the endpoint that serves it, and its permissions."""

    queue: MessageQueue
    endpoint: Endpoint
    broker_id: int = 0
    """0 is the master; the queues of replicas are listed as well."""
    readable: bool = True
    writable: bool = True
    accepts: frozenset[str] = frozenset()
    """Names of the message types that the topic accepts; empty if the server does not declare them."""


class Route:
    """All queues of one topic, in the server's order."""

    def __init__(self, topic: str, queues: Iterable[RouteQueue]) -> None:
        self.topic = topic
        self.queues = tuple(queues)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Route) and (self.topic, self.queues) == (other.topic, other.queues)

    def __hash__(self) -> int:
        return hash((self.topic, self.queues))

    def __repr__(self) -> str:
        return f"Route({self.topic!r}, {len(self.queues)} queues)"

    @cached_property
    def writable(self) -> tuple[RouteQueue, ...]:
        """The queues of masters that take messages."""
        return tuple(each for each in self.queues if each.writable and each.broker_id == 0)

    @cached_property
    def readable(self) -> tuple[RouteQueue, ...]:
        """The queues of masters that can be read."""
        return tuple(each for each in self.queues if each.readable and each.broker_id == 0)

    @cached_property
    def readable_queues(self) -> tuple[MessageQueue, ...]:
        """The names of those queues."""
        return tuple(each.queue for each in self.readable)

    @cached_property
    def readable_brokers(self) -> tuple[RouteQueue, ...]:
        """One readable queue of each broker, for polls whose broker chooses among its queues."""
        return tuple({(each.queue.broker, each.endpoint): each for each in reversed(self.readable)}.values())[
            ::-1
        ]

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every address that serves a queue of the topic, each once, in the server's order."""
        return tuple(dict.fromkeys(each.endpoint for each in self.queues))

    @cached_property
    def accepts(self) -> frozenset[str]:
        """The message types that some writable queue accepts; empty if the server does not declare them."""
        return frozenset().union(*(each.accepts for each in self.writable))


class QueueChoice:
    """Chooses the queue of each send: in turn, skipping isolated servers, one broker after the other on retries."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._group_locks: dict[str, int] = {}

    def turn(self, topic: str) -> int:
        """The number of the next send to `topic`: from a random start, increasing by one, across route updates."""
        turn = self._group_locks.get(topic)
        if turn is None:
            turn = self._random.randrange(1 << 16)
        self._group_locks[topic] = turn + 1
        return turn

    def candidates(self, route: Route, turn: int, isolated: Collection[Endpoint]) -> tuple[RouteQueue, ...]:
        """One queue of each broker, beginning at `turn`; empty if none is writable.

        Isolated servers are skipped unless all are isolated."""
        writable = route.writable
        if not writable:
            return ()
        walk = [writable[(turn + step) % len(writable)] for step in range(len(writable))]
        chosen: dict[str, RouteQueue] = {}
        for each in walk:
            if each.endpoint not in isolated and each.queue.broker not in chosen:
                chosen[each.queue.broker] = each
        if not chosen:
            for each in walk:
                chosen.setdefault(each.queue.broker, each)
        return tuple(chosen.values())

    def first(self, route: Route, isolated: Collection[Endpoint]) -> tuple[RouteQueue, int] | None:
        """The queue of a first attempt and its turn, or None if no queue is writable; a fast path of `candidates`."""
        turn = self.turn(route.topic)
        writable = route.writable
        if not writable:
            return None
        chosen = writable[turn % len(writable)]
        if isolated and chosen.endpoint in isolated:
            chosen = self.candidates(route, turn, isolated)[0]
        return chosen, turn

    @staticmethod
    def of_message_group(route: Route, message_group: str) -> RouteQueue | None:
        """The queue of a message group, for all attempts; None if no queue is writable."""
        writable = route.writable
        return writable[queue_index(message_group, len(writable))] if writable else None
