"""Drains: when the clients of a group know that it has received everything.

A recording with such a row (`drain.ok`) lets the audit judge that nothing was lost, not even at the end
(docs/reference/recording.md, Drains)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq._recording.records import Note
from aiorocketmq.recording_format import INTERVALS, QuietTime

SLACK = 15.0
"""Seconds that a server may take beyond that: the audit's tolerance of a late redelivery (recording.md, `late_ms`)."""

WHOLE_BROKER = -1
"""The queue id of a poll that covers all queues of a broker."""


Queue: TypeAlias = tuple[str, int]
"""A broker, and a queue of the topic there."""


@dataclass(frozen=True, slots=True, order=True)
class Poll:
    """When a poll began, and the number of its row."""

    now: float
    """Seconds of a clock that never decreases."""
    wall_us: int
    seq: int


@dataclass(frozen=True, slots=True)
class Drained:
    """A group polled a topic without result, and nothing that this recorder observed can still be delivered to it."""

    group: str
    topic: str
    poll: Poll
    """The oldest of the polls that show it: nothing is stated about messages that were sent later."""


class _Pair(QuietTime):
    """A group and a topic."""

    __slots__ = ("empty", "filters", "has_received", "is_fit", "queues")

    def __init__(self) -> None:
        super().__init__()
        self.is_fit = True
        self.has_received = False
        """The group's filter is known to the audit from its deliveries."""
        self.filters: set[str | None] = set()
        self.queues: set[Queue] = set()
        """All queues of any route so far: the messages of an unavailable broker still exist."""
        self.empty: dict[Queue, Poll] = {}
        """The latest poll of each queue that returned nothing."""


class Drains:
    """Tracks the events of all clients of one recorder, without any other knowledge.

    Twice the longest lease after the last event, no observed lease is left, so nothing is in flight among these
    clients. Drains are not reported for lite topics, for leases that servers renew, for groups with more than one
    filter for the topic, or if polls do not specify the queues of the topic."""

    def __init__(self) -> None:
        self._topics: dict[str, QuietTime] = {}
        self._pairs: dict[tuple[str | None, str], _Pair] = {}
        self._polls: dict[tuple[str, str | None], Poll] = {}

    def note(
        self, client_id: str, group: str | None, note: Note, now: float, wall_us: int, seq: int
    ) -> Drained | None:
        """Process an event, with the time of a clock that never decreases, the wall clock and the number of its row;
        return a drain once for each quiet time."""
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
        """A message is being sent or was stored; it is invisible for `delay` seconds."""
        self._topic(topic).disturb(now, delay)

    def resolved(self, now: float, topic: str) -> None:
        """A transaction was committed or rolled back."""
        self._topic(topic).disturb(now)

    def delivered(self, group: str | None, now: float, topic: str, lease: float, is_fit: bool) -> None:
        """A group received a message, leased for `lease` seconds; unless `is_fit`, a drain of it can never be known."""
        pair = self._pair(group, topic)
        pair.has_received = True
        pair.is_fit = pair.is_fit and is_fit
        pair.disturb(now, lease)

    def moved(self, group: str | None, now: float, topic: str) -> None:
        """A message that the group received is handled or settled."""
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
            self._polls[name] = at
            return None
        poll = self._polls.pop(name, None)
        if phase == "info":
            # It may have leased messages that were lost on the way.
            pair.disturb(at.now, lease)
        if phase != "ok" or count or poll is None:
            return None
        for each in pair.queues if queue == WHOLE_BROKER else ((broker, queue),):
            if each[0] == broker:
                pair.empty[each] = poll
        return self._drained(group, topic, pair) if readable else None

    def _drained(self, group: str | None, name: str, pair: _Pair) -> Drained | None:
        if not (pair.is_fit and pair.has_received and len(pair.filters) == 1):
            return None
        topic = self._topic(name)
        since = max(pair.since, topic.since)
        quiet_from = since + INTERVALS * max(pair.longest, topic.longest) + SLACK
        polls = [pair.empty.get(queue) for queue in pair.queues]
        late = [poll for poll in polls if poll is not None and poll.now >= quiet_from]
        if pair.reported == since or len(late) < len(polls):
            return None
        pair.reported = since
        return Drained(group or "", name, min(late))

    def _topic(self, name: str) -> QuietTime:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = QuietTime()
        return topic

    def _pair(self, group: str | None, topic: str) -> _Pair:
        pair = self._pairs.get((group, topic))
        if pair is None:
            pair = self._pairs[group, topic] = _Pair()
        return pair
