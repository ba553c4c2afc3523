"""When a group was drained, as far as its clients can know: asked anew, long after the last event, every queue said no.

A recording that says so (`drain.ok`) lets the audit judge that nothing was lost, not even at the end
(docs/reference/recording.md, Drains).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq._recording.facts import Note

INTERVALS = 2
"""How many times the longest lease or delay nothing may have happened."""

SLACK = 15.0
"""Seconds that a server may take beyond that: what the audit tolerates of a redelivery (recording.md, `late_ms`)."""

WHOLE_BROKER = -1
"""The queue id of a poll that asks all queues of a broker."""


Queue: TypeAlias = tuple[str, int]
"""A broker, and a queue of the topic there."""


@dataclass(frozen=True, slots=True, order=True)
class Poll:
    """When a poll was asked, and the number of its row."""

    now: float
    """Seconds of a clock that never goes back."""
    wall_us: int
    seq: int


@dataclass(frozen=True, slots=True)
class Drained:
    """A group polled a topic in vain, and nothing that this recorder saw can be on its way to it any more."""

    group: str
    topic: str
    asked: Poll
    """The oldest of the polls that show it: of what was sent later nothing is said."""


class _Quiet:
    """Since when nothing has happened, and the longest interval that something was kept back for, in seconds."""

    __slots__ = ("longest", "since")

    def __init__(self) -> None:
        self.since = 0.0
        self.longest = 0.0

    def disturb(self, at: float, interval: float = 0.0) -> None:
        self.since = at
        self.longest = max(self.longest, interval)


class _Pair(_Quiet):
    """A group and a topic."""

    __slots__ = ("filters", "in_vain", "is_fit", "queues", "told", "was_handed")

    def __init__(self) -> None:
        super().__init__()
        self.is_fit = True
        self.was_handed = False
        """What a group asks for is known to the audit by what it was handed."""
        self.filters: set[str | None] = set()
        self.queues: set[Queue] = set()
        """All that any route has named: the messages of a broker that is away are not gone."""
        self.in_vain: dict[Queue, Poll] = {}
        """The latest poll of each queue that brought nothing."""
        self.told = -1.0
        """Beginning of the quiet time of which a drain was told."""


class Drains:
    """Follows the events of all clients of one recorder, and knows no more than they do.

    Twice the longest lease after the last event, no lease that they saw is left, so nothing is in flight among them.
    Nothing is told of lite topics, of leases that servers renew by themselves, of groups with more than one filter
    for the topic, nor where a poll does not say which queues the topic has.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Quiet] = {}
        self._pairs: dict[tuple[str | None, str], _Pair] = {}
        self._asked: dict[tuple[str, str | None], Poll] = {}

    def note(
        self, client_id: str, group: str | None, note: Note, now: float, wall_us: int, seq: int
    ) -> Drained | None:
        """Take what an event says, the time of a clock that never goes back, in seconds, the wall clock's, and the
        number of its row; says whether it shows a group to be drained, once until something happens again."""
        what, *about = note
        if what == "polled":
            return self._polled(client_id, group, Poll(now, wall_us, seq), *about)
        if what == "sent":
            self.sent(now, *about)
        elif what == "resolved":
            self.resolved(now, *about)
        elif what == "delivered":
            self.delivered(group, now, *about)
        elif what == "moved":
            self.moved(group, now, *about)
        elif what == "kept_back":
            self._kept_back(group, now, *about)
        return None

    def sent(self, now: float, topic: str, delay: float) -> None:
        """A message is on its way, or has come there; it is kept back for `delay` seconds."""
        self._topic(topic).disturb(now, delay)

    def resolved(self, now: float, topic: str) -> None:
        """A transaction is over."""
        self._topic(topic).disturb(now)

    def delivered(self, group: str | None, now: float, topic: str, lease: float, is_fit: bool) -> None:
        """A group was handed a message, for `lease` seconds; if it is not fit, nobody can know that it is drained."""
        pair = self._pair(group, topic)
        pair.was_handed = True
        pair.is_fit = pair.is_fit and is_fit
        pair.disturb(now, lease)

    def moved(self, group: str | None, now: float, topic: str) -> None:
        """Something is done about a message that the group was handed."""
        self._pair(group, topic).since = now

    def _kept_back(self, group: str | None, now: float, topic: str, invisible: float) -> None:
        self._pair(group, topic).disturb(now, invisible)

    def _polled(
        self,
        client_id: str,
        group: str | None,
        at: Poll,
        topic: str,
        operation: str | None,
        phase: str,
        broker: str,
        queue: int,
        count: int,
        lease: float,
        wanted: str | None,
        readable: tuple[Queue, ...],
    ) -> Drained | None:
        name = (client_id, operation)
        pair = self._pair(group, topic)
        if phase == "invoke":
            pair.filters.add(wanted)
            pair.queues.update(readable)
            self._asked[name] = at
            return None
        asked = self._asked.pop(name, None)
        if phase == "info":
            # It may have taken messages that nobody saw.
            pair.disturb(at.now, lease)
        if phase != "ok" or count or asked is None:
            return None
        for each in pair.queues if queue == WHOLE_BROKER else ((broker, queue),):
            if each[0] == broker:
                pair.in_vain[each] = asked
        return self._drained(group, topic, pair) if readable else None

    def _drained(self, group: str | None, name: str, pair: _Pair) -> Drained | None:
        if not (pair.is_fit and pair.was_handed and len(pair.filters) == 1):
            return None
        topic = self._topic(name)
        since = max(pair.since, topic.since)
        quiet_from = since + INTERVALS * max(pair.longest, topic.longest) + SLACK
        polls = [pair.in_vain.get(queue) for queue in pair.queues]
        late = [poll for poll in polls if poll is not None and poll.now >= quiet_from]
        if pair.told == since or len(late) < len(polls):
            return None
        pair.told = since
        return Drained(group or "", name, min(late))

    def _topic(self, name: str) -> _Quiet:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Quiet()
        return found

    def _pair(self, group: str | None, topic: str) -> _Pair:
        found = self._pairs.get((group, topic))
        if found is None:
            found = self._pairs[group, topic] = _Pair()
        return found
