"""Committed offsets and the ends of queues."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aiorocketmq_conformance.model.calls import (
    OK,
    UNKNOWN,
    Commit,
    Committed,
    Ends,
    Instant,
    Occurrence,
    OfQueue,
    Pull,
)
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.state import Sent


class Offsets:
    """What groups commit, and what servers say of it and of their queues."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._possible: dict[tuple[str, str, int], set[int | None]] = {}
        """What may be committed, by group, topic and queue."""
        self._last: dict[tuple[str, str, int], Instant] = {}
        """The begin of the last commit."""
        self._unknown: list[Commit | Pull] = []
        """Commits without a response, which may take effect until they are given up, also after later ones."""
        self._ends: list[Ends] = []
        """Judged when all is known of the queues."""

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case Pull() | Commit():
                yield event.begun.step, partial(self.begin, event)
                yield event.ended.step, partial(self.end, event)
            case Committed():
                yield event.ended.step, partial(self.told, event)
            case Ends():
                yield event.ended.step, partial(self._ends.append, event)

    def begin(self, event: Commit | Pull) -> None:
        """Let a commit take effect, or not yet."""
        if event.commit is not None:
            self._of(event).add(event.commit)
            self._last[event.place] = event.begun
            if event.code == UNKNOWN:
                self._unknown.append(event)

    def end(self, event: Commit | Pull) -> None:
        """Judge the response to a commit: if none has begun since, it is the one that holds."""
        if event in self._unknown:
            self._unknown.remove(event)
        elif isinstance(event, Commit) and event.code != OK:
            text = f"a commit of {event.commit} was answered with {event.code}"
            self._knowledge.report("offset", text, event.ended)
        elif self._last.get(event.place) == event.begun:
            unknown = (each.commit for each in self._unknown if each.place == event.place)
            self._possible[event.place] = {event.commit, *unknown}

    def _of(self, event: OfQueue) -> set[int | None]:
        # Of a group without a commit, servers answer nothing, or the beginning.
        return self._possible.setdefault(event.place, {None, 0})

    def told(self, told: Committed) -> None:
        """Judge what a server says is committed."""
        possible = self._of(told)
        if told.offset not in possible:
            expected = " or ".join(sorted(map(str, possible)))
            text = f"{told.offset} was answered as the committed offset, not {expected}"
            self._knowledge.report("offset", text, told.ended)

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
