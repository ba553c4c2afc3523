"""Half messages: what producers prepared and nobody has decided yet (9.1)."""

from __future__ import annotations

from collections.abc import Iterator

from aiorocketmq_fake.core.records.timers import Alarm
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.model import OutgoingMessage

Key = tuple[str, str]
"""Topic and transaction id."""


class Half(Alarm):
    """A half message; its alarm is its next check, or its end."""

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
        """Each check stores it anew (R9.6)."""
        self.offset = offset
        """Its place in the queue of half messages."""
        self.immune_until: int | None = None
        """Not checked before this; None until checks wait for it."""
        self.checks = 0
        """How often its outcome was asked for."""
        self.ended = False
        """Committed, rolled back or given up."""

    @property
    def key(self) -> Key:
        """What a decision has to name."""
        return self.topic.name, self.content.message_id


class Halves:
    """Half messages, and which decisions the proxy still knows what to do with (R9.1).

    A send and every check let the proxy wait for one decision each; the newest is used up first.
    """

    def __init__(self) -> None:
        self._open: dict[Key, list[Half]] = {}
        self._awaited: dict[Key, list[tuple[int, Half]]] = {}
        self._offset = 0

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def __iter__(self) -> Iterator[Half]:
        for halves in self._open.values():
            yield from halves

    def add(self, half: Half) -> None:
        """Keep a half message."""
        self._open.setdefault(half.key, []).append(half)

    def next_offset(self) -> int:
        """Number the places in the queue of half messages."""
        self._offset += 1
        return self._offset - 1

    def remove(self, half: Half, now: int) -> None:
        """Forget a half message whose outcome is known; decisions that are still awaited will find it ended."""
        half.ended = True
        if half.key in self._awaited:
            self._keep(half.key, self._still_awaited(half.key, now))
        halves = self._open[half.key]
        halves.remove(half)
        if not halves:
            del self._open[half.key]

    def await_decision(self, half: Half, until: int, now: int) -> None:
        """Let a decision about the half message be taken up to a time."""
        # Looked through here, so that undecided messages cannot pile up what is over.
        awaited = [*self._still_awaited(half.key, now), (until, half)]
        self._keep(half.key, awaited[-limits.TRANSACTION_MEMORY_MAX :])

    def take_decision(self, key: Key, now: int) -> Half | None:
        """Tell which half message a decision is about, and use the chance up; None when none is awaited."""
        awaited = self._still_awaited(key, now)
        half = awaited.pop()[1] if awaited else None
        self._keep(key, awaited)
        return half

    def awaits(self, key: Key, now: int) -> Half | None:
        """Tell which half message a decision would be about."""
        return next((half for until, half in reversed(self._awaited.get(key, [])) if until >= now), None)

    def forget_decisions(self) -> None:
        """Wait for no decision any more."""
        self._awaited.clear()

    def at(self, offset: int) -> Half | None:
        """Return the open half message at a place in the queue of half messages, None when there is none."""
        return next((half for half in self if half.offset == offset), None)

    def of_topic(self, topic_name: str) -> list[Half]:
        """List the half messages of a topic."""
        return [half for half in self if half.topic.name == topic_name]

    def forget_topic(self, topic_name: str) -> None:
        """Drop all that belongs to a topic."""
        for key in [key for key in self._open if key[0] == topic_name]:
            del self._open[key]
        for key in [key for key in self._awaited if key[0] == topic_name]:
            del self._awaited[key]

    def _still_awaited(self, key: Key, now: int) -> list[tuple[int, Half]]:
        return [entry for entry in self._awaited.get(key, []) if entry[0] >= now]

    def _keep(self, key: Key, awaited: list[tuple[int, Half]]) -> None:
        if awaited:
            self._awaited[key] = awaited
        else:
            self._awaited.pop(key, None)
