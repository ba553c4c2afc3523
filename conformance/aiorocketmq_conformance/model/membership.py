"""Members of groups that share queues out by themselves, and their locks of queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from aiorocketmq_conformance.model.calls import (
    Event,
    Joined,
    Left,
    Lock,
    Members,
    Noticed,
    Occurrence,
    Restart,
    Unlock,
)
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.state import Interval

SCAN = 30.0
"""A silent member is forgotten up to so much later."""
LOCK_LIFE = 60.0
"""Seconds after which a lock of a queue expires unless it is renewed; measured 60.2 to 60.3 s."""


@dataclass(slots=True)
class _Held:
    client: str
    since: Interval


@dataclass(slots=True)
class Membership:
    """What heartbeats and locks say, and what servers say of them."""

    knowledge: Knowledge
    _beats: dict[str, dict[str, float]] = field(default_factory=dict)
    """The last heartbeat of each member, by group."""
    _changes: list[tuple[Event, str, list[str]]] = field(default_factory=list)
    """Members that are new or leave, their group, and the others in it."""
    _notices: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By client and group."""
    _locks: dict[tuple[str, str, int], _Held] = field(default_factory=dict)
    """By group, topic and queue."""

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case Joined():
                yield event.begun.step, partial(self.joined, event)
            case Left():
                yield event.ended.step, partial(self.left, event)
            case Noticed():
                yield event.ended.step, partial(self.noticed, event)
            case Members():
                yield event.ended.step, partial(self.told, event)
            case Lock():
                yield event.ended.step, partial(self.locked, event)
            case Unlock():
                yield event.ended.step, partial(self.unlocked, event)
            case Restart():
                yield event.ended.step, partial(self.restarted, event)

    def joined(self, event: Joined) -> None:
        """Take note of a heartbeat."""
        beats = self._beats.setdefault(event.group, {})
        if event.client not in beats:
            self._changes.append((event, event.group, list(beats)))
        beats[event.client] = event.begun.at

    def left(self, event: Left) -> None:
        """Take note of a member that leaves."""
        beats = self._beats.get(event.group, {})
        if beats.pop(event.client, None) is not None:
            self._changes.append((event, event.group, list(beats)))

    def noticed(self, event: Noticed) -> None:
        """Take note of what a member was told."""
        self._notices.setdefault((event.client, event.group), []).append(event.ended.at)

    def finish(self) -> None:
        """Judge whether every change was told to the members that stayed."""
        semantics = self.knowledge.semantics
        for change, group, others in self._changes:
            late = change.ended.at + semantics.wake + self.knowledge.paused(change.begun.at, change.ended.at)
            for other in others:
                told = self._notices.get((other, group), ())
                if not any(change.begun.at - semantics.early <= at <= late for at in told):
                    text = f"{other} was not told that {change.client} has come or gone"
                    self.knowledge.report("notice", text, change.ended)

    def restarted(self, event: Restart) -> None:
        """Forget all: servers keep members and locks in memory only."""
        self._beats.clear()
        self._locks.clear()

    def told(self, told: Members) -> None:
        """Judge what a server says of a group's members."""
        beats, life = self._beats.get(told.group, {}), self.knowledge.semantics.expiry
        paused = self.knowledge.paused(0.0, told.ended.at)
        surely = {name for name, at in beats.items() if told.ended.at - at < life}
        maybe = {name for name, at in beats.items() if told.begun.at - at < life + SCAN + paused}
        named = sorted(told.clients)
        if len(set(named)) < len(named) or not surely <= set(named) <= maybe:
            text = f"the members {named} were answered, not {sorted(surely)}"
            self.knowledge.report("members", text, told.ended)

    def locked(self, event: Lock) -> None:
        """Judge which locks were granted."""
        for queue in event.asked:
            place = (event.group, event.topic, queue)
            held, is_granted = self._locks.get(place), queue in event.granted
            if held is None or held.client == event.client:
                if not is_granted:
                    self._report(event, f"{queue} was refused, although no other client holds it")
            else:
                self._check_lock_of_other(event, queue, held)
            if is_granted:
                self._locks[place] = _Held(event.client, Interval(event.begun.at, event.ended.at))
        if not set(event.granted) <= set(event.asked):
            text = f"locks {event.granted} were granted, of which only {event.asked} were asked for"
            self.knowledge.report("lock", text, event.ended)

    def _check_lock_of_other(self, event: Lock, queue: int, held: _Held) -> None:
        early = self.knowledge.semantics.early
        most, least = event.ended.at - held.since.low, event.begun.at - held.since.high
        is_granted = queue in event.granted
        if is_granted and most < LOCK_LIFE - early:
            self._report(event, f"{queue} was granted, which {held.client} holds")
        if not is_granted and least > LOCK_LIFE + early + self.knowledge.paused(0.0, event.ended.at):
            self._report(event, f"{queue} was refused, although that of {held.client} has ended")

    def _report(self, event: Lock, text: str) -> None:
        self.knowledge.report("lock", f"the lock of queue {text}", event.ended)

    def unlocked(self, event: Unlock) -> None:
        """Free the locks that the client holds."""
        for queue in event.queues:
            held = self._locks.get((event.group, event.topic, queue))
            if held is not None and held.client == event.client:
                del self._locks[event.group, event.topic, queue]
