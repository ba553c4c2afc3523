"""Interface between a pull consumer and its wire."""

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
"""Prefix of a group's retry topic."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull brought."""

    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    continued_at: int | None = None
    """Where the server read on, if it no longer has, or never had, a message at the offset; None if it has."""
    log_offsets: tuple[int, ...] = ()
    """The commit log offset of each message, which identifies it to the broker; remoting protocol only."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Each member reads all queues, and keeps its own offsets in a file.

    The file is `directory/member/group/offsets.json`, written as Java's clients do: with the member name of a Java
    client (`10.0.0.5@DEFAULT`), reading continues where that has stopped. Two members must not have the same name."""

    member: str = ""
    """The name of this member, the same at each start; by default that of the machine with `@DEFAULT`."""
    directory: str | Path = "~/.rocketmq_offsets"


@dataclass(frozen=True, slots=True)
class PullSettings:
    """What a pull consumer reads, and how."""

    group: str
    topics: Collection[str]
    """Topics whose queues are shared with the group."""
    filters: Mapping[str, FilterText]
    start: Offset | datetime
    max_messages: int
    wait: float
    broadcast: Broadcast | None = None
    is_young_whole: bool = False
    """Whether brokers may let a group begin a young queue at its first message, wherever it starts otherwise."""
    is_push: bool = False
    """Whether messages are for handlers, which need attempts, and the original topic of a retry."""
    allow_pop_members: bool = False
    """Whether the group may have members that receive messages and own no queues."""

    @property
    def grain(self) -> Grain:
        """What the members of the group share."""
        return Grain.QUEUE if self.broadcast is None else Grain.BROADCAST


class PullCalls(Protocol):
    """Pulls and offsets of one group."""

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`."""

    async def pull(self, queue: MessageQueue, offset: int, poll_length: Callable[[float], float]) -> Pulled:
        """Read from `offset`, waiting for messages for the configured time after `poll_length`."""

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset, None if unset."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's next offset."""

    def is_at_replica(self, queue: MessageQueue) -> bool:
        """Whether `queue` is currently read from a replica, since the master that stores its offsets is unavailable."""

    async def resolve(self, queue: MessageQueue, offset: Offset | int | datetime) -> int:
        """The number of a symbolic offset or a time; ValueError for an invalid one."""


def check_offset(offset: Offset | int | datetime) -> None:
    """Raise ValueError or TypeError unless `value` is a valid offset."""
    if isinstance(offset, Offset):
        return
    if isinstance(offset, datetime):
        if offset.tzinfo is None:
            raise ValueError("an offset given as datetime needs a time zone")
    elif isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset is a number, Offset.BEGIN, Offset.END or a datetime, not {offset!r}")
    elif offset < 0:
        raise ValueError(f"an offset counts from 0, not {offset}")
