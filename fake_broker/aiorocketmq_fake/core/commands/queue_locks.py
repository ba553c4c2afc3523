"""Locks on queues: one member of a classic group consumes a queue in order (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ)."""

from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import QueueKey
from aiorocketmq_fake.core.values.events import QueueLocked, QueueUnlocked


class QueueLocks:
    """All locks; they live in memory only, and outlive connections."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: dict[str, dict[QueueKey, tuple[str, int]]] = {}
        """Owner and end of each lock, by group and queue."""

    def lock(self, group: str, client_id: str, queues: tuple[QueueKey, ...]) -> tuple[QueueKey, ...]:
        """Lock queues, or renew the locks; return those that the client holds now."""
        state = self._state
        held = self._unexpired(group)
        until = state.now + milliseconds(limits.QUEUE_LOCK_LIFE)
        granted = []
        for queue in queues:
            owner = held.get(queue, ("", 0))[0]
            if owner not in ("", client_id):
                continue
            if not owner:
                state.events.append(QueueLocked(state.at, group, *queue, client_id))
            held[queue] = (client_id, until)
            granted.append(queue)
        self._keep(group, held)
        return tuple(granted)

    def unlock(self, group: str, client_id: str, queues: tuple[QueueKey, ...]) -> None:
        """Release locks that the client holds; others are ignored."""
        state = self._state
        held = self._unexpired(group)
        for queue in queues:
            if held.get(queue, ("", 0))[0] == client_id:
                del held[queue]
                state.events.append(QueueUnlocked(state.at, group, *queue, client_id))
        self._keep(group, held)

    def is_held_by(self, group: str) -> bool:
        """Return whether any member of a group holds a lock."""
        return bool(self._unexpired(group))

    def forget_all(self) -> None:
        """Drop every lock: the broker lost its memory."""
        self._held.clear()

    def _unexpired(self, group: str) -> dict[QueueKey, tuple[str, int]]:
        now = self._state.now
        return {queue: lock for queue, lock in self._held.get(group, {}).items() if lock[1] > now}

    def _keep(self, group: str, held: dict[QueueKey, tuple[str, int]]) -> None:
        if held:
            self._held[group] = held
        else:
            self._held.pop(group, None)
