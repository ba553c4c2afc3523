"""Retention: how long messages are kept, and what happens when the disk fills (11).

The log belongs to the node: messages are deleted by their store time, independent of topic and consumption (R11.1).
Servers drop whole files of the log; this one drops messages, so that a test need not write a gigabyte. An
administrator sets the disk usage: nothing here measures it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from aiorocketmq_fake.core.records.topics import Queue, Topic
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.choices import DiskStage
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import DeletedFor, MessagesDeleted, RetentionChanged
from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.core.values.snapshots import RetentionSnapshot

HOUR, DAY = 3_600_000, 86_400_000


class Retention:
    """Deletes expired messages, and the oldest ones to free space."""

    def __init__(self, state: State, trim_lite: Callable[[Callable[[Queue], int]], None]) -> None:
        self._state = state
        self._trim_lite = trim_lite
        self._period = milliseconds(state.profile.retention)
        self._disk_used = 0.0
        self._plan()

    # Commands

    def set(self, retention: float | None, disk_used: float | None) -> None:
        """Set how long messages are kept, and how full the disk is; None leaves it as it is."""
        if retention is not None and not 0 < retention <= limits.SPAN_MAX:
            problem = f"The retention of {retention} s is not above 0 and at most {limits.SPAN_MAX:.0f}."
            raise Refusal(Code.BAD_REQUEST, problem)
        if disk_used is not None and not 0 <= disk_used <= 1:
            raise Refusal(Code.BAD_REQUEST, f"The used share {disk_used} of the disk is not 0 to 1.")
        state = self._state
        if retention is not None:
            self._period = max(milliseconds(retention), 1)
        if disk_used is not None:
            self._disk_used = disk_used
            state.store_full = self._stage is DiskStage.FULL
        state.events.append(RetentionChanged(state.at, self._period / 1000, self._disk_used, self._stage))
        self._plan()

    def clean(self) -> int:
        """Delete expired messages now, at any hour; return how many copies were deleted."""
        deleted = self._delete_expired()
        self._plan()
        return deleted

    def snapshot(self) -> RetentionSnapshot:
        """Return the settings in force."""
        return RetentionSnapshot(self._period / 1000, self._disk_used, self._stage)

    # By time

    def on_time(self) -> None:
        """Do the periodic cleaning."""
        self._delete_expired()
        if self._stage in (DiskStage.CRITICAL, DiskStage.FULL):
            self._delete_oldest()
        self._plan()

    def _plan(self) -> None:
        """Set the time of the next cleaning: when the oldest message expires, at the hour for it."""
        state = self._state
        interval = milliseconds(state.profile.cleaning_interval)
        if self._stage in (DiskStage.CRITICAL, DiskStage.FULL):
            state.cleaning_at = (state.now // interval + 1) * interval
            return
        oldest = min((_stored_at(queue.entries[0]) for _, queue in self._filled()), default=state.now)
        at = max(-(-(oldest + self._period) // interval) * interval, state.now + 1)
        hour = state.profile.cleaning_hour
        if hour is not None and self._stage is DiskStage.NORMAL and at % DAY // HOUR != hour:
            begin = at - at % DAY + hour * HOUR
            at = begin if begin >= at else begin + DAY
        state.cleaning_at = at

    # Deleting

    def _delete_expired(self) -> int:
        until = self._state.now - self._period
        return self._delete(lambda queue: bisect_right(queue.entries, until, key=_stored_at), DeletedFor.AGE)

    def _delete_oldest(self) -> None:
        """Delete the oldest tenth of the log, as servers do file by file; the newest message stays."""
        state = self._state
        first = min((queue.entries[0].position for _, queue in self._filled()), default=state.log_end)
        until = min(first + max((state.log_end - first) // 10, 1), state.log_end - 1)
        self._delete(lambda queue: bisect_left(queue.entries, until, key=_position), DeletedFor.ROOM)

    def _delete(self, count: Callable[[Queue], int], reason: DeletedFor) -> int:
        state = self._state
        deleted = 0
        for topic, queue in list(self._filled()):
            number = count(queue)
            if not number:
                continue
            deleted += number
            first = queue.min_offset
            queue.drop(number)
            state.events.append(
                MessagesDeleted(state.at, topic.name, queue.id, first, queue.min_offset, reason)
            )
            for consumption in state.consumptions.values():
                if consumption.topic is topic and queue.id in consumption.orders:
                    consumption.orders[queue.id].trim()
        self._trim_lite(count)
        return deleted

    @property
    def _stage(self) -> DiskStage:
        used = self._disk_used
        if used > limits.DISK_FULL:
            return DiskStage.FULL
        if used > limits.DISK_CRITICAL:
            return DiskStage.CRITICAL
        return DiskStage.HIGH if used > limits.DISK_HIGH else DiskStage.NORMAL

    def _filled(self) -> Iterator[tuple[Topic, Queue]]:
        for topic in self._state.topics.values():
            for queue in topic.queues:
                if queue.entries:
                    yield topic, queue


def _stored_at(message: StoredMessage) -> int:
    return milliseconds(message.store_timestamp)


def _position(message: StoredMessage) -> int:
    return message.position
