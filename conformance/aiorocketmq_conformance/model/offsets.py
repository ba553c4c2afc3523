"""Committed offsets and the ends of queues."""

from __future__ import annotations

from typing import TypeAlias

from aiorocketmq_conformance.model.calls import OK, UNKNOWN, Commit, Committed, Ends, Instant, Pull
from aiorocketmq_conformance.model.knowledge import Knowledge
from aiorocketmq_conformance.model.state import Sent

_Place: TypeAlias = tuple[str, str, int]
"""Group, topic and queue."""


class Offsets:
    """What groups commit, and what servers say of it and of their queues."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._possible: dict[_Place, set[int | None]] = {}
        """What may be committed."""
        self._last: dict[_Place, Instant] = {}
        """The begin of the last commit."""
        self._ends: list[Ends] = []

    def begin(self, event: Commit | Pull) -> None:
        """Let a commit take effect, or not yet."""
        offset = event.offset if isinstance(event, Commit) else event.commit
        if offset is not None:
            self._of(event).add(offset)
            self._last[_place(event)] = event.begun

    def end(self, event: Commit | Pull) -> None:
        """Judge the response to a commit: if none has begun since, it is the one that holds."""
        offset = event.offset if isinstance(event, Commit) else event.commit
        if offset is None or event.code == UNKNOWN:
            return
        if isinstance(event, Commit) and event.code != OK:
            text = f"a commit of {offset} was answered with {event.code}"
            self._knowledge.report("offset", text, event.ended)
        elif self._last[_place(event)] == event.begun:
            self._possible[_place(event)] = {offset}

    def _of(self, event: Commit | Committed | Pull) -> set[int | None]:
        # Of a group without a commit, servers answer nothing, or the beginning.
        return self._possible.setdefault(_place(event), {None, 0})

    def told(self, told: Committed) -> None:
        """Judge what a server says is committed."""
        possible = self._of(told)
        if told.offset not in possible:
            expected = " or ".join(sorted(map(str, possible)))
            text = f"{told.offset} was answered as the committed offset, not {expected}"
            self._knowledge.report("offset", text, told.ended)

    def ends(self, ends: Ends) -> None:
        """Keep the ends of a queue until all that is known of it is known."""
        self._ends.append(ends)

    def finish(self) -> None:
        """Judge the ends of queues by the messages that were found in them, at any time."""
        for (topic, queue, offset), id_ in self._knowledge.positions.items():
            message = self._knowledge.messages.get(id_)
            if message is None or message.is_uncertain or message.is_repeated:
                continue
            for ends in self._ends:
                if (ends.topic, ends.queue) == (topic, queue):
                    self._check(ends, offset, message)

    def _check(self, ends: Ends, offset: int, message: Sent) -> None:
        knowledge, text = self._knowledge, ""
        shown = knowledge.after_pauses(knowledge.visible(message))
        is_stored = message.visible is not None and message.visible.step < ends.begun.step
        if is_stored and shown.high < ends.begun.at and offset >= ends.high:
            text = f"the end of queue {ends.queue} was answered as {ends.high}; a message lies at {offset}"
        elif shown.low > ends.ended.at + knowledge.semantics.early and offset < ends.high:
            text = f"the end of queue {ends.queue} was answered as {ends.high} before {offset} was stored"
        elif offset < ends.low and not knowledge.trims:
            text = f"the begin of queue {ends.queue} was answered as {ends.low}; a message lies at {offset}"
        if text:
            knowledge.report("offset", text, ends.ended, message.id)


def _place(event: Commit | Committed | Pull) -> _Place:
    return event.group, event.topic, event.queue
