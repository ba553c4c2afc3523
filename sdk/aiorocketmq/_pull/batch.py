"""What a pull consumer hands out: some messages of one queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from aiorocketmq.message import MessageQueue, ReceivedMessage


@dataclass(frozen=True, slots=True)
class PullBatch(Sequence[ReceivedMessage]):
    """Messages of one queue in the order of their offsets; gaps are what the filter left out."""

    queue: MessageQueue
    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    """Where reading goes on after this batch, and what committing it stores."""

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
