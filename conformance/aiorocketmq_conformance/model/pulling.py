"""Pulls: reading a queue from an offset, which takes nothing and hides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aiorocketmq_conformance.model.calls import EVERYTHING, OK, Delivered, Instant, Occurrence, Pull
from aiorocketmq_conformance.model.knowledge import Act, Knowledge

EMPTY = "MESSAGE_NOT_FOUND"
OUTSIDE = "ILLEGAL_OFFSET"


class Pulling:
    """Responses to pulls."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._waiting: dict[Instant, int] = {}
        """How many messages were surely stored from the offset on when a pull began."""
        self._empty: list[Pull] = []

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        if isinstance(event, Pull):
            yield event.begun.step, partial(self.begin, event)
            yield event.ended.step, partial(self.end, event)

    def begin(self, pull: Pull) -> None:
        """Count the messages that surely are stored from the offset on."""
        offset = pull.offset
        while (pull.topic, pull.queue, offset) in self._knowledge.positions:
            offset += 1
        self._waiting[pull.begun] = offset - pull.offset

    def end(self, pull: Pull) -> None:
        """Judge the response, message by message, and as a whole."""
        for place, one in enumerate(pull.deliveries):
            self._deliver(pull, one, pull.offset + place)
        self._check_code(pull)
        semantics = self._knowledge.semantics
        surely = self._waiting.pop(pull.begun)
        took = pull.ended.at - pull.begun.at
        if pull.code == OUTSIDE:
            if surely and not self._knowledge.trims:
                self._report(pull, f"the offset {pull.offset} was refused, although a message lies there")
            return
        late = semantics.poll_late + pull.late + self._knowledge.paused(pull.begun.at, pull.ended.at)
        if took > pull.poll + late:
            self._report(pull, f"a pull of {pull.poll:g} s took {took:.3f} s")
        if surely and took > semantics.wake + late:
            self._report(pull, f"a pull of stored messages took {took:.3f} s")
        count = len(pull.deliveries)
        least = min(surely, pull.batch, semantics.batch_max) if pull.filter == EVERYTHING else 0
        if not least <= count <= min(pull.batch, semantics.batch_max) and not self._knowledge.trims:
            self._report(
                pull, f"{count} messages were returned, not {least} to {min(pull.batch, semantics.batch_max)}"
            )
        if not count and pull.filter == EVERYTHING:
            self._empty.append(pull)
            if took < pull.poll - 0.2:
                self._report(pull, f"a pull of {pull.poll:g} s ended empty after {took:.3f} s")
        self._check_next(pull)

    def finish(self) -> None:
        """Judge empty pulls by what is known in the end about the offsets that they waited for."""
        knowledge = self._knowledge
        for pull in self._empty:
            id_ = knowledge.positions.get((pull.topic, pull.queue, pull.offset))
            message = knowledge.messages.get(id_ or "")
            if message is None or message.is_uncertain:
                continue
            since = knowledge.after_pauses(knowledge.visible(message)).high
            if max(since, pull.begun.at) + knowledge.semantics.wake < pull.ended.at:
                text = f"ended empty although its message was visible for {pull.ended.at - since:.3f} s"
                self._report(pull, text, message.id)

    def _report(self, pull: Pull, text: str, message: str = "") -> None:
        self._knowledge.report("pull", text, pull.ended, message)

    def _check_code(self, pull: Pull) -> None:
        allowed = {OK} if pull.deliveries else {EMPTY, OUTSIDE}
        if pull.code not in allowed:
            count = len(pull.deliveries)
            self._report(pull, f"a legal pull was answered with {pull.code} and {count} messages")

    def _check_next(self, pull: Pull) -> None:
        after = pull.deliveries[-1].offset + 1 if pull.deliveries else pull.offset
        is_exact = pull.filter == EVERYTHING
        if pull.next_offset < after or (is_exact and pull.next_offset != after):
            text = f"the next offset is {pull.next_offset}, not {after}{'' if is_exact else ' or more'}"
            self._report(pull, text)

    def _deliver(self, pull: Pull, one: Delivered, expected: int) -> None:
        knowledge = self._knowledge
        message = knowledge.messages.get(one.content.id)
        if message is None or message.is_refused:
            self._report(pull, "a message was pulled that nobody sent", one.content.id)
            return
        if not pull.filter.selects(message.outgoing.content):
            self._report(pull, "a message was pulled that does not match the filter", message.id)
        is_elsewhere = one.offset < expected if pull.filter != EVERYTHING else one.offset != expected
        if is_elsewhere or one.queue != pull.queue or one.content.topic != pull.topic:
            where = f"offset {one.offset} of queue {one.queue} of {one.content.topic}"
            self._report(pull, f"{where} was pulled, not {expected}", message.id)
        for name, was, came in knowledge.changes(message, one.content):
            self._report(pull, f"the {name} {was!r} was pulled as {came!r}", message.id)
        if message.offset not in (-1, one.offset):
            self._report(pull, f"pulled from {one.offset}; its receipt has {message.offset}", message.id)
        place = (pull.topic, one.queue, one.offset)
        if knowledge.positions.setdefault(place, message.id) != message.id:
            self._report(pull, "another message was delivered from this offset", message.id)
        if one.at.at < knowledge.visible(message).low - knowledge.semantics.early:
            self._report(pull, "a message was pulled before it was visible", message.id)
        if message.trimmed is not None and message.trimmed.step < one.after.step:
            self._report(pull, "a message was pulled after it was deleted", message.id)
