"""Half messages: sent in transactions that are still open (9.1)."""

from __future__ import annotations

from collections.abc import Iterator

from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.model import OutgoingMessage

Key = tuple[str, str]
"""Topic and transaction id."""


class HalfMessage(Timer):
    """A half message; its timer is its next check, or its end."""

    __slots__ = (
        "checks",
        "content",
        "ended",
        "immune_until",
        "offset",
        "queue_id",
        "sent_at",
        "stored_at",
        "topic",
    )

    def __init__(
        self, topic: Topic, queue_id: int, content: OutgoingMessage, sent_at: int, offset: int
    ) -> None:
        self.ticket = 0
        self.topic = topic
        self.queue_id = queue_id
        self.content = content
        self.sent_at = sent_at
        """Milliseconds, as all times here."""
        self.stored_at = sent_at
        """Each check stores it again (R9.6)."""
        self.offset = offset
        """Its offset in the queue of half messages."""
        self.immune_until: int | None = None
        """Not checked before this; None until it is scheduled."""
        self.checks = 0
        """Number of checks."""
        self.ended = False
        """Committed, rolled back or given up."""

    @property
    def key(self) -> Key:
        """What a decision must name."""
        return self.topic.name, self.content.message_id


class HalfMessages:
    """Half messages, and the pending decisions of the proxy (R9.1).

    A send and every check add one pending decision each; the newest is used up first.
    """

    def __init__(self) -> None:
        self._open: dict[Key, list[HalfMessage]] = {}
        self._awaited: dict[Key, list[tuple[int, HalfMessage]]] = {}
        self._offset = 0

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def __iter__(self) -> Iterator[HalfMessage]:
        for halves in self._open.values():
            yield from halves

    def add(self, half: HalfMessage) -> None:
        """Add a half message."""
        self._open.setdefault(half.key, []).append(half)

    def next_offset(self) -> int:
        """Return the next offset in the queue of half messages."""
        self._offset += 1
        return self._offset - 1

    def remove(self, half: HalfMessage, now: int) -> None:
        """Remove a half message whose outcome is known; pending decisions will find it ended."""
        half.ended = True
        if half.key in self._awaited:
            self._keep(half.key, self._still_awaited(half.key, now))
        halves = self._open[half.key]
        halves.remove(half)
        if not halves:
            del self._open[half.key]

    def await_decision(self, half: HalfMessage, until: int, now: int) -> None:
        """Accept a decision about the half message up to a time."""
        # Expired ones are removed here, so that open transactions cannot accumulate them.
        awaited = [*self._still_awaited(half.key, now), (until, half)]
        self._keep(half.key, awaited[-limits.TRANSACTION_MEMORY_MAX :])

    def take_decision(self, key: Key, now: int) -> HalfMessage | None:
        """Return the half message of a decision, and use the pending decision up; None without one."""
        awaited = self._still_awaited(key, now)
        half = awaited.pop()[1] if awaited else None
        self._keep(key, awaited)
        return half

    def awaits(self, key: Key, now: int) -> HalfMessage | None:
        """Return the half message of a decision."""
        return next((half for until, half in reversed(self._awaited.get(key, [])) if until >= now), None)

    def forget_decisions(self) -> None:
        """Drop all pending decisions."""
        self._awaited.clear()

    def at(self, offset: int) -> HalfMessage | None:
        """Return the open half message at an offset of the queue of half messages, None without one."""
        return next((half for half in self if half.offset == offset), None)

    def of_topic(self, topic_name: str) -> list[HalfMessage]:
        """Return the half messages of a topic."""
        return [half for half in self if half.topic.name == topic_name]

    def forget_topic(self, topic_name: str) -> None:
        """Drop all that belongs to a topic."""
        for key in [key for key in self._open if key[0] == topic_name]:
            del self._open[key]
        for key in [key for key in self._awaited if key[0] == topic_name]:
            del self._awaited[key]

    def _still_awaited(self, key: Key, now: int) -> list[tuple[int, HalfMessage]]:
        return [entry for entry in self._awaited.get(key, []) if entry[0] >= now]

    def _keep(self, key: Key, awaited: list[tuple[int, HalfMessage]]) -> None:
        if awaited:
            self._awaited[key] = awaited
        else:
            self._awaited.pop(key, None)
