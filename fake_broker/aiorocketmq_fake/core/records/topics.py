"""Topics and their queues: append-only lists with offsets."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Protocol, overload

from aiorocketmq_fake.core.values.codes import MessageType, TopicType
from aiorocketmq_fake.core.values.model import StoredMessage, TopicConfig

ACCEPTED: dict[TopicType, tuple[MessageType, ...]] = {
    TopicType.UNSPECIFIED: (MessageType.UNSPECIFIED,),
    TopicType.NORMAL: (MessageType.NORMAL,),
    TopicType.FIFO: (MessageType.FIFO,),
    TopicType.DELAY: (MessageType.DELAY,),
    TopicType.TRANSACTION: (MessageType.TRANSACTION,),
    TopicType.MIXED: (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION),
    TopicType.PRIORITY: (MessageType.PRIORITY,),
    TopicType.LITE: (MessageType.LITE,),
}
"""Message types that a topic accepts, as in routes (R3.4); UNSPECIFIED accepts none (session §4.3)."""


class Entries(Protocol):
    """The messages of a queue: a list, or a sequence that keeps most of them on disk."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[StoredMessage]: ...

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...

    @overload
    def __getitem__(self, index: slice) -> list[StoredMessage]: ...

    def __delitem__(self, index: slice) -> None:
        """Drop the oldest ones; only `del entries[:count]` is needed."""
        ...

    def append(self, message: StoredMessage) -> None:
        """Add a message at the end."""
        ...


NewEntries = Callable[[], Entries]
"""Makes the container for the messages of a new queue."""


class Queue:
    """One queue: messages by offset, the oldest ones perhaps deleted."""

    __slots__ = ("entries", "id", "min_offset")

    def __init__(self, id_: int, entries: Entries) -> None:
        self.id = id_
        self.min_offset = 0
        self.entries = entries

    @property
    def max_offset(self) -> int:
        """Offset that the next message will get."""
        return self.min_offset + len(self.entries)

    def get(self, offset: int) -> StoredMessage | None:
        """Return the message at an offset; None without one."""
        index = offset - self.min_offset
        return self.entries[index] if 0 <= index < len(self.entries) else None

    def drop(self, count: int) -> None:
        """Drop the oldest messages."""
        del self.entries[:count]
        self.min_offset += count

    def first_since(self, timestamp: float) -> int:
        """Find the offset of the first message stored at or after a time (R10.7)."""
        return self.min_offset + bisect_left(self.entries, timestamp, key=_store_timestamp)

    def first_from(self, position: int) -> int:
        """Find the offset of the first message at or after a position of the log."""
        return self.min_offset + bisect_left(self.entries, position, key=_position)


class Topic:
    """A topic: its settings, and its queues of which the first `read_queues` are read, `write_queues`
    written."""

    __slots__ = ("_new_entries", "config", "queues", "system")

    def __init__(self, config: TopicConfig, new_entries: NewEntries, *, system: bool = False) -> None:
        self.config = config
        self._new_entries = new_entries
        self.system = system
        self.queues: list[Queue] = []
        self.resize()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.config.name

    @property
    def readable(self) -> list[Queue]:
        """Queues that consumers read."""
        return self.queues[: self.config.read_queues]

    def resize(self) -> None:
        """Make the queues that the settings require; queues beyond them keep their messages."""
        for id_ in range(len(self.queues), max(self.config.read_queues, self.config.write_queues)):
            self.queues.append(Queue(id_, self._new_entries()))


def _store_timestamp(message: StoredMessage) -> float:
    return message.store_timestamp


def _position(message: StoredMessage) -> int:
    return message.position
