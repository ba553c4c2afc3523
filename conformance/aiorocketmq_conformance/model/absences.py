"""What did not happen: messages that a poll, a drained group or a dead-letter topic should have had."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aiorocketmq_conformance.model.calls import EVERYTHING, Drained, Lag, Occurrence, Receive
from aiorocketmq_conformance.model.deliveries import EMPTY
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.state import DEAD_LETTERS, FOREVER, Copy


class Absences:
    """Judges empty responses, and the end of a history."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case Receive():
                yield event.ended.step, partial(self.end_receive, event)
            case Lag():
                yield event.ended.step, partial(self.lag, event)
            case Drained():
                yield event.ended.step, partial(self.drained, event)

    def end_receive(self, receive: Receive) -> None:
        """Judge an empty poll of a normal group: no message was visible all the time before its end."""
        knowledge = self._knowledge
        if receive.is_cut or receive.deliveries or receive.code not in EMPTY:
            return
        is_early = receive.ended.at - receive.begun.at < receive.poll - 0.2
        if knowledge.group(receive.group).ordered or (is_early and knowledge.may_drop(receive)):
            return
        for copy in self._waiting(receive.group, receive.topic):
            since = knowledge.available(receive.group, copy).high
            is_unnoticed = knowledge.is_unnoticed(receive)
            if since + knowledge.semantics.wake < receive.ended.at and not is_unnoticed:
                text = (
                    f"a poll ended empty although a message was visible for {receive.ended.at - since:.3f} s"
                )
                knowledge.report("empty", text, receive.ended, copy.message.id)
                return

    def _waiting(self, group: str, topic: str) -> list[Copy]:
        """Return the copies that surely wait for their next delivery."""
        knowledge = self._knowledge
        copies = []
        for message in list(knowledge.of_topic(topic)):
            copy = knowledge.copy(group, topic, message)
            lease = copy.lease
            is_over = copy.settled is not None or bool(copy.settling)
            is_over = is_over or knowledge.is_exhausted(group, copy) is not False
            is_ended = lease is not None and (lease.settled is not None or lease.is_dropped)
            if not is_over and not is_ended and knowledge.is_expected(group, topic, copy):
                copies.append(copy)
        return copies

    def lag(self, lag: Lag) -> None:
        """Judge an administrator's view of a group."""
        knowledge = self._knowledge
        at = lag.ended.at
        mine = [
            copy
            for (group, topic, _), copy in knowledge.copies.items()
            if (group, topic) == (lag.group, lag.topic)
        ]
        for copy in mine:
            knowledge.note_missed(lag.group, copy, at)
        is_unclear = any(copy.is_free for copy in mine) or knowledge.is_unclear(lag.group, lag.topic)
        if is_unclear or (lag.group, lag.topic) not in knowledge.readings:
            return
        reading = knowledge.readings[lag.group, lag.topic]
        leased = [
            copy.lease.end
            for copy in mine
            if copy.lease is not None and copy.lease.settled is None and not copy.lease.is_dropped
        ]
        early = knowledge.semantics.early
        least = sum(lag.ended.at < end.low - early for end in leased)
        most = sum(lag.begun.at <= end.high + early for end in leased)
        if not least <= lag.in_flight <= most and not reading.was_reset:
            text = f"{lag.in_flight} messages in flight were reported, not {least} to {most}"
            knowledge.report("lag", text, lag.ended)
        if knowledge.group(lag.group).ordered or reading.was_reset or reading.filters != {EVERYTHING}:
            return
        fresh = [copy for copy in self._waiting(lag.group, lag.topic) if copy.lease is None]
        least = sum(
            knowledge.available(lag.group, copy).high <= lag.begun.at
            for copy in fresh
            if copy.message.visible is not None and copy.message.visible.step < lag.begun.step
        )
        unread = [
            message
            for message in knowledge.of_topic(lag.topic)
            if knowledge.copy(lag.group, lag.topic, message).lease is None and not message.is_refused
        ]
        most = sum(knowledge.visible(message).low <= at for message in unread)
        if not least <= lag.waiting <= most:
            text = f"a lag of {lag.waiting} was reported, not {least} to {most}"
            knowledge.report("lag", text, lag.ended)

    def drained(self, drained: Drained) -> None:
        """Judge a group that polled until nothing arrived: nothing visible is left."""
        knowledge = self._knowledge
        if drained.topic.startswith(DEAD_LETTERS):
            self._dead_letters(drained)
            return
        self._unchecked(drained)
        for copy in self._waiting(drained.group, drained.topic):
            since = knowledge.available(drained.group, copy).high
            if since < FOREVER and since + knowledge.semantics.wake < drained.ended.at:
                times = "never delivered" if copy.lease is None else "not redelivered"
                text = f"{times} to {drained.group}, although visible for {drained.ended.at - since:.0f} s"
                knowledge.report("lost", text, drained.ended, copy.message.id)

    def _unchecked(self, drained: Drained) -> None:
        """Judge half messages that nobody decided, and no producer was asked about."""
        semantics = self._knowledge.semantics
        patience = semantics.immunity + 2 * semantics.check_interval + semantics.wake
        for message in self._knowledge.of_topic(drained.topic):
            is_open = message.is_half and message.is_stored and not message.is_uncertain
            is_open = (
                is_open
                and message.outgoing.recovery is None
                and message.committed is None
                and not message.is_rolled_back
            )
            if is_open and not message.times_checked and message.ended.at + patience < drained.begun.at:
                age = drained.begun.at - message.ended.at
                text = f"a half message was not checked for {age:.0f} s"
                self._knowledge.report("check", text, drained.ended, message.id)

    def _dead_letters(self, drained: Drained) -> None:
        knowledge = self._knowledge
        if knowledge.starts_anywhere:
            return
        group = drained.topic.removeprefix(DEAD_LETTERS)
        for (owner, _, id_), copy in list(knowledge.copies.items()):
            if owner != group:
                continue
            dead = knowledge.copies.get((drained.group, drained.topic, id_))
            arrived = dead is not None and dead.lease is not None
            if knowledge.dead_letters(group, copy, drained.begun.at)[0] > 0 and not arrived:
                text = f"given up by {group}, and not among its dead letters"
                knowledge.report("dead letter", text, drained.ended, id_)
