"""Ring buffer: positions of blocks in a file of fixed size that is written and read in order. Pure."""

from __future__ import annotations

from collections import deque


class Ring:
    """Assigns a position to each block, as near to the beginning as possible: with a fast reader, little of the file is
    used."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._blocks: deque[tuple[int, int]] = deque()
        """Offset and length of unread blocks, the oldest first."""

    @property
    def is_empty(self) -> bool:
        """Everything has been read."""
        return not self._blocks

    def place(self, length: int) -> int | None:
        """Return the offset of the next block; None if there is no room until one is read."""
        if not self._blocks:
            offset = 0
        else:
            oldest, (newest, newest_length) = self._blocks[0][0], self._blocks[-1]
            offset = newest + newest_length
            if newest >= oldest:
                if offset + length > self._size:
                    if length > oldest:
                        return None
                    offset = 0
            elif offset + length > oldest:
                return None
        if offset + length > self._size:
            return None
        self._blocks.append((offset, length))
        return offset

    def read(self, count: int) -> None:
        """Mark the oldest `count` blocks as read."""
        for _ in range(count):
            self._blocks.popleft()

    def unplace(self) -> None:
        """Remove the newest block, which was not written."""
        self._blocks.pop()
