"""Topics, groups and clients: what their changes do to leases and to what a group gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from aiorocketmq_conformance.model.calls import (
    OK,
    Assignment,
    Gone,
    GroupCreated,
    Occurrence,
    Reset,
    Restart,
    Route,
    Settings,
    TopicCreated,
    Trim,
)
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.state import Copy, Group, Interval, Number, Reading, Sent, Topic

TERMINATION_HOLD = 2.0
"""Renewed leases of a client that left last this much longer (R7.9: one second, and a scan)."""


class Lifecycle:
    """Changes that are no calls of producers or consumers."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case TopicCreated() | GroupCreated():
                yield event.begun.step, partial(self.created, event)
            case Settings() | Route() | Assignment():
                yield event.ended.step, partial(self.answered, event)
            case Reset():
                yield event.begun.step, partial(self.reset, event)
            case Trim():
                yield event.begun.step, partial(self.trimmed, event)
            case Restart():
                yield event.begun.step, partial(self.restarted, event)
            case Gone():
                yield event.begun.step, partial(self.left, event)

    def created(self, event: TopicCreated | GroupCreated) -> None:
        """Take note of a topic or a group, or of its new number."""
        knowledge = self._knowledge
        if isinstance(event, TopicCreated):
            topic = knowledge.topics.setdefault(event.topic, Topic(event.type, Number([])))
            topic.queues.changes.append((event.queues, event.ended))
            return
        if event.is_anew:
            self._deleted(event.group)
        new = Group(event.begun, event.ordered, Number([]), event.steps)
        group = knowledge.groups.setdefault(event.group, new)
        group.limit.changes.append((event.max_attempts, event.ended))

    def _deleted(self, name: str) -> None:
        """Forget a group with its progress; its dead letters stay."""
        knowledge = self._knowledge
        del knowledge.groups[name]
        is_new = knowledge.semantics.checks_leases  # Apache's leave redeliveries to the successor
        for key, reading in knowledge.readings.items():
            if key[0] == name:
                old = replace(reading, reads_whole=False, was_reset=True)
                knowledge.readings[key] = Reading() if is_new else old
        for place, copy in knowledge.copies.items():
            if place[0] == name:
                copy.is_free = True  # for calls with its handles
                knowledge.copies[place] = Copy(copy.message, is_free=not is_new, has_lost_count=True)

    def answered(self, event: Settings | Route | Assignment) -> None:
        """Judge what a server says of a group or a topic."""
        knowledge = self._knowledge
        if isinstance(event, Settings):
            group = knowledge.group(event.group)
            limits, declared = group.limit.since(event.begun), (event.ordered, event.steps)
            real = (group.ordered, group.steps or event.steps)
            if declared != real or event.max_attempts not in limits:
                text = f"a group was answered as {declared} and {event.max_attempts}, not {real} and {limits}"
                knowledge.report("settings", text, event.ended)
            return
        if (topic := knowledge.topics.get(event.topic)) is None:
            return
        counts = topic.queues.since(event.begun._replace(at=event.begun.at - knowledge.semantics.route_late))
        # Unordered groups receive from all queues at once, under the number -1.
        if event.code != OK or event.queues not in [(-1,), *(tuple(range(count)) for count in counts)]:
            what = "route" if isinstance(event, Route) else "assignment"
            text = f"a {what} was answered with {event.code} and queues {event.queues}, not {counts} queues"
            knowledge.report(what, text, event.ended)

    def left(self, event: Gone) -> None:
        """End the renewal of a client's leases."""
        semantics = self._knowledge.semantics
        longest = semantics.expiry if event.crashed else 0.0
        for _, _, _, lease in self._knowledge.leases.values():
            if lease.is_renewed and lease.receive.client == event.client:
                lease.is_renewed = False
                lease.end = Interval(event.begun.at, event.ended.at + longest + TERMINATION_HOLD)

    def restarted(self, event: Restart) -> None:
        """End all renewals: a proxy that restarts forgets them (R12.7)."""
        self._knowledge.restarted = event.ended
        for _, _, _, lease in self._knowledge.leases.values():
            is_alive = lease.is_renewed or lease.end.high > event.begun.at
            if lease.receive.auto_renew and not lease.was_changed and lease.settled is None and is_alive:
                # Also of a client that has crashed, and was not forgotten yet.
                age = event.ended.at - lease.delivery.after.at
                until = event.ended.at + self._knowledge.semantics.rest_of_renewed(age) + TERMINATION_HOLD
                low = event.begun.at if lease.is_renewed else min(lease.end.low, event.begun.at)
                high = until if lease.is_renewed else max(lease.end.high, until)
                lease.is_renewed, lease.end = False, Interval(low, high)

    def trimmed(self, event: Trim) -> None:
        """Delete what was stored longer ago than an age: what is in flight may be redelivered."""
        knowledge = self._knowledge
        knowledge.trims += 1
        early = knowledge.semantics.early
        for message in knowledge.messages.values():
            stored = knowledge.after_pauses(knowledge.visible(message))
            if stored.high < event.begun.at - event.age - early:
                message.trimmed = message.trimmed or event.ended
            elif stored.low <= event.ended.at - event.age + early:
                message.may_be_trimmed = True
        for copy in knowledge.copies.values():
            if copy.message.trimmed is None and not copy.message.may_be_trimmed:
                continue
            copy.has_lost_count = True
            copy.is_free = copy.is_free or (copy.lease is not None and copy.settled is None)

    def reset(self, event: Reset) -> None:
        """Pass over what was stored before the time of the reset, and make the rest visible to the group again."""
        knowledge = self._knowledge
        reading = knowledge.readings.setdefault((event.group, event.topic), Reading())
        reading.was_reset, reading.reads_whole = True, reading.reads_whole or not event.to_end
        for message in list(knowledge.of_topic(event.topic)):
            copy = knowledge.copy(event.group, event.topic, message)
            before = message.visible is not None and message.visible.step < event.begun.step
            is_stored = before and knowledge.visible(message).high <= event.begun.at
            copy.has_lost_count = copy.has_lost_count or copy.lease is not None
            if copy.lease is not None:
                copy.lease.is_dropped = True
            if not knowledge.semantics.checks_leases:
                # Leases survive a reset there (R10.6): what is in flight is redelivered in addition.
                copy.is_free = copy.is_free or copy.lease is not None or reading.was_cut
            passes = event.to_end if event.at is None else self._is_before(message, event.at)
            if passes is None:
                copy.is_free = True
            elif passes:
                if copy.lease is not None or not is_stored:
                    copy.is_free = copy.is_free or not is_stored or not knowledge.semantics.checks_leases
                copy.passed = event.ended if is_stored else None
            else:
                copy.lease, copy.settled, copy.passed, copy.is_forwarded = None, None, None, False
                copy.settling.clear()
                copy.visible_again = event.ended if is_stored else None

    def _is_before(self, message: Sent, at: float) -> bool | None:
        """Return whether a message was stored before a time; None if that is not certain."""
        knowledge = self._knowledge
        stored, early = knowledge.after_pauses(knowledge.visible(message)), knowledge.semantics.early
        if stored.high < at - early:
            return True
        return False if stored.low > at + early else None
