"""When a group was drained, as far as its clients can know: asked anew, long after the last event, every queue said no.

A recording that says so (`drain.ok`) lets the audit judge that nothing was lost, not even at the end
(docs/reference/recording.md, Drains).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    DeliverEvent,
    Event,
    ForwardEvent,
    HandleEvent,
    Phase,
    ReceiveEvent,
    SendEvent,
    SettleEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import MessageQueue
from aiorocketmq.subscription import Sql, Tags

INTERVALS = 2
"""How many times the longest lease or delay nothing may have happened."""

SLACK = 15.0
"""Seconds that a server may take beyond that: what the audit tolerates of a redelivery (recording.md, `late_ms`)."""

SERVERS_LEASE = 60.0
"""The lease of a poll that names none, in seconds."""

WHOLE_BROKER = -1
"""The queue id of a poll that asks all queues of a broker."""


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
        self.filters: set[Tags | Sql | None] = set()
        self.queues: set[MessageQueue] = set()
        """All that any route has named: the messages of a broker that is away are not gone."""
        self.in_vain: dict[MessageQueue, Poll] = {}
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
        # Each function takes the types that it stands beside; a table cannot say so, hence Any.
        self._notes: dict[type[Event], Callable[[Any, float], None]] = {
            TransactionEndEvent: self._resolved,
            DeliverEvent: self._delivered,
            ForwardEvent: self._moved,
            ChangeEvent: self._kept_back,
        }

    def note(self, event: Event, now: float, wall_us: int, seq: int) -> Drained | None:
        """Take the next event, the time of a clock that never goes back, in seconds, the wall clock's, and the number
        of its row; says whether it shows a group to be drained, once until something happens again."""
        if type(event) is HandleEvent or type(event) is AckEvent:  # the most frequent ones by far
            self._moved(event, now)
        elif type(event) is ReceiveEvent:
            return self._polled(event, Poll(now, wall_us, seq))
        elif type(event) is SendEvent:
            self._sent(event, now, wall_us)
        elif (note := self._notes.get(type(event))) is not None:
            note(event, now)
        return None

    def _sent(self, event: SendEvent, now: float, wall_us: int) -> None:
        delay = 0.0 if event.due_us is None else (event.due_us - wall_us) / 1e6
        self._topic(event.message.topic).disturb(now, delay)

    def _resolved(self, event: TransactionEndEvent, now: float) -> None:
        self._topic(event.topic).disturb(now)

    def _delivered(self, event: DeliverEvent, now: float) -> None:
        pair = self._pair(event.client.group, event.message.topic)
        pair.was_handed = True
        pair.is_fit = pair.is_fit and not event.auto_renew and event.message.lite_topic is None
        pair.disturb(now, _lease(event))

    def _moved(self, event: SettleEvent | HandleEvent, now: float) -> None:
        self._pair(event.client.group, event.message.topic).since = now

    def _kept_back(self, event: ChangeEvent, now: float) -> None:
        self._pair(event.client.group, event.message.topic).disturb(now, event.invisible)

    def _polled(self, event: ReceiveEvent, at: Poll) -> Drained | None:
        name = (event.client.client_id, event.operation)
        pair = self._pair(event.client.group, event.queue.topic)
        if event.phase is Phase.INVOKE:
            pair.filters.add(event.filter)
            pair.queues.update(event.readable)
            self._asked[name] = at
            return None
        asked = self._asked.pop(name, None)
        if event.phase is Phase.INFO:
            # It may have taken messages that nobody saw.
            pair.disturb(at.now, _lease(event))
        if event.phase is not Phase.OK or event.count or asked is None:
            return None
        for queue in pair.queues if event.queue.id == WHOLE_BROKER else (event.queue,):
            if queue.broker == event.queue.broker:
                pair.in_vain[queue] = asked
        return self._drained(event, pair)

    def _drained(self, event: ReceiveEvent, pair: _Pair) -> Drained | None:
        if not (pair.is_fit and pair.was_handed and event.readable and len(pair.filters) == 1):
            return None
        topic = self._topic(event.queue.topic)
        since = max(pair.since, topic.since)
        quiet_from = since + INTERVALS * max(pair.longest, topic.longest) + SLACK
        polls = [pair.in_vain.get(queue) for queue in pair.queues]
        late = [poll for poll in polls if poll is not None and poll.now >= quiet_from]
        if pair.told == since or len(late) < len(polls):
            return None
        pair.told = since
        return Drained(event.client.group or "", event.queue.topic, min(late))

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


def _lease(event: DeliverEvent | ReceiveEvent) -> float:
    return SERVERS_LEASE if event.invisible is None else event.invisible
