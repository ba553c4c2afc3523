"""What all rules share: the state of a history so far, and the violations found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from aiorocketmq_conformance.model.calls import (
    START,
    Content,
    Filter,
    Instant,
    Pause,
    Receive,
    Violation,
    differences,
)
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.model.state import (
    DEAD_LETTERS,
    FOREVER,
    Copy,
    Group,
    Interval,
    Lease,
    Reading,
    Sent,
    Topic,
    hash_of,
)

Act: TypeAlias = tuple[int, Callable[[], None]]
"""The number of a step, and what is judged at it."""


class Knowledge:
    """The state of one history."""

    def __init__(self, semantics: Semantics) -> None:
        self.semantics = semantics
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.messages: dict[str, Sent] = {}
        self.copies: dict[tuple[str, str, str], Copy] = {}
        """By group, topic and message id."""
        self.readings: dict[tuple[str, str], Reading] = {}
        """By group and topic."""
        self.leases: dict[str, tuple[str, str, Copy, Lease]] = {}
        """Group, topic, copy and lease of every handle."""
        self.positions: dict[tuple[str, int, int], str] = {}
        """Message ids by topic, queue and offset."""
        self.trims = 0
        """How often old messages were deleted."""
        self.pauses: list[Pause] = []
        self.restarted: Instant | None = None
        """The last restart."""
        self.violations: list[Violation] = []

    def report(self, rule: str, text: str, at: Instant, message: str = "") -> None:
        """Add a violation."""
        self.violations.append(Violation(rule, text, at, message))

    def copy(self, group: str, topic: str, message: Sent) -> Copy:
        """Return the copy of a message for a group, a new one if there is none."""
        return self.copies.setdefault((group, topic, message.id), Copy(message))

    def group(self, name: str) -> Group:
        """Return a group; servers create unknown ones with default settings."""
        return self.groups.setdefault(name, Group(START))

    def of_topic(self, topic: str) -> Iterator[Sent]:
        """Yield the messages that were sent to a topic."""
        return (each for each in self.messages.values() if each.outgoing.content.topic == topic)

    def is_unclear(self, group: str, topic: str) -> bool:
        """Return whether a poll whose client or server was gone may have taken messages of the group (E7)."""
        reading = self.readings.get((group, topic), Reading())
        return reading.has_died or (reading.was_cut and not self.semantics.checks_leases)

    @property
    def starts_anywhere(self) -> bool:
        """Whether new groups may start at the last message of a queue, as it has lost its first ones."""
        return self.trims > 0 and not self.semantics.starts_at_creation

    def is_expected(self, group: str, topic: str, copy: Copy) -> bool:
        """Return whether the group surely gets the message unless it is settled, as far as filters and start say."""
        message, reading = copy.message, self.readings.get((group, topic))
        if reading is None or copy.is_free or self.is_unclear(group, topic):
            return False
        if message.is_uncertain or not message.is_stored or message.trimmed or message.may_be_trimmed:
            return False
        if message.recalled is not None or message.visible is None or copy.passed is not None:
            return False
        is_older = self.semantics.starts_at_creation and self.group(group).created.step >= message.begun.step
        if (self.starts_anywhere or is_older) and not reading.reads_whole:
            return False
        return all(each.selects(message.outgoing.content) for each in reading.filters)

    def visible(self, message: Sent) -> Interval:
        """Return when a message becomes visible for the first time; it never does if that is not certain."""
        start = message.committed if message.is_half else message.begun
        low = FOREVER if start is None else start.at
        high = FOREVER if message.visible is None else message.visible.at
        due = message.outgoing.deliver_at
        if due is not None and due > message.begun.at:
            low, high = max(low, due), max(high, due + self.semantics.delay_late)
        return Interval(low, high)

    def available(self, group: str, copy: Copy) -> Interval:
        """Return when a copy that is not settled becomes visible for its next delivery."""
        lease = copy.lease
        if lease is None:
            shown = self.visible(copy.message)
            if copy.visible_again is not None:
                shown = Interval(
                    max(shown.low, copy.visible_again.at), max(shown.high, copy.visible_again.at)
                )
            return self.after_pauses(shown)
        if self.group(group).ordered:
            window = self.semantics.ordered
        else:
            window = self.semantics.nack if lease.was_changed else self.semantics.revive
        # A lease that ends in a pause ends after it, and only then the way back begins.
        return self.after_pauses(self.after_pauses(lease.end).plus(window))

    def note_missed(self, group: str, copy: Copy, at: float) -> None:
        """Free a copy if changes or renewals of its lease until a moment may have left leases behind: acks do not
        reach them, and each ends with a redelivery."""
        lease = copy.lease
        if lease is None or not self.semantics.misses_changed or self.group(group).ordered:
            return
        age = at - lease.delivery.at.at + self.semantics.early
        is_renewed = lease.receive.auto_renew and age >= self.semantics.renewed - self.semantics.renew_ahead
        copy.is_free = copy.is_free or ((lease.was_changed or is_renewed) and not lease.is_of_first)

    def changes(self, message: Sent, came: Content, *more: str) -> Iterator[tuple[str, object, object]]:
        """Yield name and values of what differs between a message as it was sent and as it came."""
        # Some servers give all messages of a batch the birth time of the first one.
        is_blurred = message.is_repeated or (message.place > 0 and self.semantics.batch_is_one_block)
        for name, was, now in differences(message.outgoing.content, came, *more):
            if name != "born_ms" or not is_blurred:
                yield name, was, now

    def after_pauses(self, interval: Interval) -> Interval:
        """Return an interval whose latest moment is not in a pause: nothing becomes visible then."""
        for pause in self.pauses:
            if pause.begun.at <= interval.high <= pause.ended.at:
                interval = Interval(interval.low, pause.ended.at)
        return interval

    def paused(self, begun: float, ended: float) -> float:
        """Return how long the server was paused between two moments."""
        overlaps = (min(ended, pause.ended.at) - max(begun, pause.begun.at) for pause in self.pauses)
        return sum(max(0.0, overlap) for overlap in overlaps)

    def is_unnoticed(self, receive: Receive) -> bool:
        """Return whether parked polls need not notice what waits: a reset has put it there, or in front of it."""
        return self.readings[receive.group, receive.topic].was_reset and not self.semantics.resets_wake

    def is_exhausted(self, group: str, copy: Copy) -> bool | None:
        """Return whether its last delivery was the last attempt; None if the limit, or the number, is uncertain."""
        lease = copy.lease
        if lease is None or group not in self.groups:
            return False
        most = copy.times if self.blurs_attempts(group) else lease.delivery.attempt
        counted = {True: (most,), False: (most - 1,), None: (most - 1, most)}[lease.counts]
        answers = {attempts >= limit for attempts in counted for limit in self.limits(group, lease)}
        return answers.pop() if len(answers) == 1 else None

    def limits(self, group: str, lease: Lease) -> set[int]:
        """Return the limits of attempts that may have been in force when a lease ended, or later."""
        return self.group(group).limit.since(Instant(lease.end.low - self.semantics.early, 0))

    def blurs_attempts(self, group: str) -> bool:
        """Return whether all messages of a batch show the smallest attempt among them (R8.13)."""
        return self.semantics.order_by_queue and self.group(group).ordered

    def is_taken_unseen(self, group: str, topic: str, content: Content) -> bool:
        """Return whether receives of a group take a message and drop it, as its tag has the hash of another one."""
        return any(_collides(each, content) for each in self.readings.get((group, topic), Reading()).filters)

    def may_drop(self, receive: Receive) -> bool:
        """Return whether a server may have dropped all that a poll found, and ended it at once."""
        if not self.semantics.exhausted_end_polls:
            return False
        reading = self.readings[receive.group, receive.topic]
        is_open = self.group(receive.group).ordered or reading.was_reset or reading.was_cut
        return is_open or self._gives_up(receive) or self._hashes_collide(receive)

    def _hashes_collide(self, receive: Receive) -> bool:
        """Some servers read by the 32-bit hashes of tags, and drop afterwards what does not match (R5.23)."""
        return any(_collides(receive.filter, each.outgoing.content) for each in self.of_topic(receive.topic))

    def _gives_up(self, receive: Receive) -> bool:
        place = receive.group, receive.topic
        copies = [copy for key, copy in self.copies.items() if key[:2] == place]
        return any(copy.is_free or self.is_exhausted(receive.group, copy) is not False for copy in copies)

    def dead_letters(self, group: str, copy: Copy, at: float) -> tuple[int, int]:
        """Return how many dead letters of a copy there may be at a time, at least and at most."""
        topic = (content := copy.message.outgoing.content).topic
        self.note_missed(group, copy, at)
        if copy.is_free or copy.has_lost_count or copy.message.is_uncertain or self.is_unclear(group, topic):
            return 0, 2
        if self.blurs_attempts(group) and (copy.lease or self.is_taken_unseen(group, topic, content)):
            return 0, 2
        if copy.is_forwarded:
            return 1, 1
        if copy.settled is None and (is_exhausted := self.is_exhausted(group, copy)) is not False:
            assert copy.lease is not None
            surely = copy.lease.end.high + self.semantics.revive[1] < at and copy.lease.counts is True
            surely = surely and is_exhausted is True
            if self.semantics.exhausted_end_polls:
                # Given up by a receive that finds it, and does not skip it.
                surely = surely and self.is_expected(group, copy.lease.receive.topic, copy)
            maybe = copy.lease.end.low - self.semantics.early <= at or copy.settling
            return int(surely and not copy.settling), int(bool(maybe))
        return 0, int(bool(copy.settling))

    def origin(self, topic: str, message: Sent) -> tuple[str, Copy] | None:
        """Return group and copy of the original of a dead letter; None for other topics."""
        if not topic.startswith(DEAD_LETTERS):
            return None
        group = topic.removeprefix(DEAD_LETTERS)
        return group, self.copy(group, message.outgoing.content.topic, message)


def _collides(filter_: Filter, content: Content) -> bool:
    """Return whether a tag that a filter does not name has the hash of one that it names."""
    if filter_.is_sql or not content.tag or filter_.selects(content):
        return False
    return hash_of(content.tag) in {hash_of(term.strip()) for term in filter_.text.split("||")}
