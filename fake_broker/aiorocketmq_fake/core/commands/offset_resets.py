"""Offsets that an administrator has set: who pulls next is told, and commits do not count until then (6.19)."""

from aiorocketmq_fake.core.commands.offsets import Offsets
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.model import Pulled, PullRequest


class OffsetResets:
    """Marks of classic groups; they live in memory only."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self._marks: dict[tuple[str, str, int], int] = {}

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group in one queue, with whoever reads it."""
        self._offsets.update(group, topic, queue_id, offset)
        self._marks[group, topic, queue_id] = offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store a member's offset; False where it does not count, because its reading has to move first."""
        if (group, topic, queue_id) in self._marks:
            return False
        self._offsets.update(group, topic, queue_id, offset)
        return True

    def moved(self, request: PullRequest) -> Pulled | None:
        """Tell the next reader of a queue where to go on; None where nothing was set."""
        offset = self._marks.pop((request.group, request.topic, request.queue_id), None)
        return None if offset is None else Pulled(Code.ILLEGAL_OFFSET, "OFFSET_RESET", (), offset)

    def forget_all(self) -> None:
        """Forget all marks: the broker lost its memory."""
        self._marks.clear()
