"""Batches that a pull consumer delivers: some messages of one queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from aiorocketmq.message import MessageQueue, ReceivedMessage


@dataclass(frozen=True, slots=True)
class PullBatch(Sequence[ReceivedMessage]):
    """Messages of one queue in the order of their offsets; the filter may leave gaps."""

    queue: MessageQueue
    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    """The offset of the next message after this batch, which a commit of the batch stores."""

    @overload
    def __getitem__(self, index: int) -> ReceivedMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ReceivedMessage]: ...
    def __getitem__(self, index: int | slice) -> ReceivedMessage | Sequence[ReceivedMessage]:
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return iter(self.messages)
