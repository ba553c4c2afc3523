"""Committed offsets and the ends of queues."""

from __future__ import annotations

from aiorocketmq_conformance.model.calls import OK, Commit, Committed, Ends, Pull
from aiorocketmq_conformance.model.knowledge import Knowledge
from aiorocketmq_conformance.model.state import Sent


class Offsets:
    """What groups commit, and what servers say of it and of their queues."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._possible: dict[tuple[str, str, int], set[int]] = {}
        """The offsets that may be committed, by group, topic and queue."""
        self._under_way: dict[tuple[str, str, int], list[int]] = {}
        """Commits of pulls that have not ended."""
        self._ends: list[Ends] = []

    def committed_now(self, commit: Commit) -> None:
        """Take note of a commit."""
        if commit.code != OK:
            text = f"a commit of {commit.offset} was answered with {commit.code}"
            self._knowledge.report("offset", text, commit.ended)
            return
        place = (commit.group, commit.topic, commit.queue)
        self._possible[place] = {commit.offset, *self._under_way.get(place, ())}

    def begin_pull(self, pull: Pull) -> None:
        """Let the commit of a pull take effect, or not yet."""
        if pull.commit is not None:
            place = (pull.group, pull.topic, pull.queue)
            self._under_way.setdefault(place, []).append(pull.commit)
            if place in self._possible:
                self._possible[place].add(pull.commit)

    def end_pull(self, pull: Pull) -> None:
        """Count the commit of a pull as done: alone, it is the one that holds."""
        if pull.commit is not None:
            place = (pull.group, pull.topic, pull.queue)
            under_way = self._under_way[place]
            under_way.remove(pull.commit)
            if place not in self._possible and not under_way:
                self._possible[place] = {pull.commit}

    def told(self, told: Committed) -> None:
        """Judge what a server says is committed."""
        possible = self._possible.get((told.group, told.topic, told.queue))
        if possible is not None and told.offset not in possible:
            expected = " or ".join(map(str, sorted(possible)))
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
