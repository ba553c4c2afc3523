"""Offset resets by an administrator: the next pull is redirected, commits are ignored until then (6.19)."""

from aiorocketmq_fake.core.commands.offsets import Offsets
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.model import Pulled, PullRequest


class OffsetResets:
    """Pending resets of classic groups, in memory only."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self._marks: dict[tuple[str, str, int], int] = {}

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group's offset in one queue, and redirect its next pull."""
        self._offsets.update(group, topic, queue_id, offset)
        self._marks[group, topic, queue_id] = offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store a member's offset; False if it is ignored because its reading has to move first."""
        if (group, topic, queue_id) in self._marks:
            return False
        self._offsets.update(group, topic, queue_id, offset)
        return True

    def moved(self, request: PullRequest) -> Pulled | None:
        """Return the redirection of the next pull of a queue; None without a reset."""
        offset = self._marks.pop((request.group, request.topic, request.queue_id), None)
        return None if offset is None else Pulled(Code.ILLEGAL_OFFSET, "OFFSET_RESET", (), offset)

    def forget_all(self) -> None:
        """Drop all resets: the broker lost its memory."""
        self._marks.clear()
