"""What a pull consumer asks of servers, on whichever wire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from aiorocketmq._core.offset import Offset
from aiorocketmq._core.settings import FilterText
from aiorocketmq.hooks import Grain
from aiorocketmq.message import MessageQueue, ReceivedMessage

RETRY = "%RETRY%"
"""Begins the topic in which brokers keep what a group is to get again."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull brought."""

    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    is_moved: bool = False
    """Whether the server did not have the offset, and named another one to go on at."""
    log_offsets: tuple[int, ...] = ()
    """Where the broker's log has each message, which names it to the broker; of the remoting protocol alone."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every member reads all queues, and keeps its own progress in a file.

    The file is `directory/member/group/offsets.json`, written as Java's clients do: with the member of one
    (`10.0.0.5@DEFAULT`), reading goes on where that has stopped. Two members must not have one name."""

    member: str = ""
    """The name of this member, the same at each start; by default that of the machine with `@DEFAULT`."""
    directory: str | Path = "~/.rocketmq_offsets"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pull consumer is to read, and how."""

    group: str
    topics: Collection[str]
    """Those whose queues are shared with the group."""
    filters: Mapping[str, FilterText]
    start: Offset | datetime
    max_messages: int
    wait: float
    broadcast: Broadcast | None = None
    is_young_whole: bool = False
    """Whether brokers may say that a group begins a young queue at its first message, wherever it starts otherwise."""
    is_handed: bool = False
    """Whether messages are handed to handlers, which ask for attempts, and for the topic that a retry comes from."""
    allow_pop_members: bool = False
    """Whether the group may have members that are handed messages and own no queues."""

    @property
    def grain(self) -> Grain:
        """What the members of the group share."""
        return Grain.QUEUE if self.broadcast is None else Grain.BROADCAST


class PullCalls(Protocol):
    """Pulls and offsets of one group."""

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`."""

    async def pull(self, queue: MessageQueue, offset: int, poll_length: Callable[[float], float]) -> Pulled:
        """Read from `offset` on, waiting for messages as long as `poll_length` makes of what is configured."""

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset, None where there is none."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's next offset."""

    def is_at_replica(self, queue: MessageQueue) -> bool:
        """Whether `queue` is read from a replica for now, since the server that stores its offsets is away."""

    async def resolve(self, queue: MessageQueue, offset: Offset | int | datetime) -> int:
        """The number of an offset that is given by place or instant; ValueError for one that cannot be."""


def check_offset(offset: Offset | int | datetime) -> None:
    """Raise ValueError or TypeError unless this can be an offset."""
    if isinstance(offset, Offset):
        return
    if isinstance(offset, datetime):
        if offset.tzinfo is None:
            raise ValueError("an offset given as datetime needs a time zone")
    elif isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset is a number, Offset.BEGIN, Offset.END or a datetime, not {offset!r}")
    elif offset < 0:
        raise ValueError(f"an offset counts from 0, not {offset}")
