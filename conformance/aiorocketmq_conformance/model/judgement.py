"""Entry point: every response of a history that the documents do not allow.

The events are read in the order of their steps: a call may take effect from its begin on, and surely has at its end.
Clocks and concurrency are intervals: an objection means that no order of events inside of them is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from aiorocketmq_conformance.model.absences import Absences
from aiorocketmq_conformance.model.calls import (
    Ack,
    Assignment,
    Change,
    Check,
    Commit,
    Committed,
    Drained,
    Ends,
    EndTransaction,
    Forward,
    Gone,
    GroupCreated,
    Joined,
    Lag,
    Left,
    Lock,
    Members,
    Noticed,
    Occurrence,
    Pause,
    Pull,
    Recall,
    Receive,
    Reset,
    Restart,
    Route,
    Send,
    Settings,
    TopicCreated,
    Trim,
    Unlock,
    Violation,
)
from aiorocketmq_conformance.model.deliveries import Deliveries
from aiorocketmq_conformance.model.knowledge import Knowledge
from aiorocketmq_conformance.model.lifecycle import Lifecycle
from aiorocketmq_conformance.model.membership import Membership
from aiorocketmq_conformance.model.offsets import Offsets
from aiorocketmq_conformance.model.pulling import Pulling
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.model.sending import Sending
from aiorocketmq_conformance.model.settling import Settling


def judge(events: Iterable[Occurrence], semantics: Semantics) -> list[Violation]:
    """Return the violations of a history, in the order in which they show."""
    knowledge = Knowledge(semantics)
    sending, settling, lifecycle = Sending(knowledge), Settling(knowledge), Lifecycle(knowledge)
    deliveries, absences, pulling = Deliveries(knowledge), Absences(knowledge), Pulling(knowledge)
    offsets, membership = Offsets(knowledge), Membership(knowledge)
    steps: list[tuple[int, int, Callable[[], None]]] = []

    def plan(step: int, act: Callable[[], None]) -> None:
        steps.append((step, len(steps), act))

    for event in events:
        begin, end = event.begun.step, event.ended.step
        match event:
            case TopicCreated() | GroupCreated():
                plan(begin, partial(lifecycle.created, event))
            case Send():
                plan(begin, partial(sending.begin_send, event))
                plan(end, partial(sending.end_send, event))
            case EndTransaction():
                plan(begin, partial(sending.begin_end, event))
                plan(end, partial(sending.end_end, event))
            case Check():
                plan(end, partial(sending.checked, event))
            case Settings() | Route() | Assignment():
                plan(end, partial(lifecycle.answered, event))
            case Recall():
                plan(end, partial(sending.recalled, event))
            case Receive():
                plan(begin, partial(deliveries.begin_receive, event))
                for place, one in enumerate(event.deliveries):
                    plan(one.at.step, partial(deliveries.deliver, event, place))
                plan(end, partial(deliveries.end_receive, event))
                plan(end, partial(absences.end_receive, event))
            case Ack():
                plan(begin, partial(settling.begin_ack, event))
                plan(end, partial(settling.end_ack, event))
            case Change():
                plan(begin, partial(settling.begin_change, event))
                plan(end, partial(settling.end_change, event))
            case Forward():
                plan(begin, partial(settling.begin_forward, event))
                plan(end, partial(settling.end_forward, event))
            case Reset():
                plan(begin, partial(lifecycle.reset, event))
            case Pull():
                plan(begin, partial(pulling.begin, event))
                plan(begin, partial(offsets.begin, event))
                plan(end, partial(pulling.end, event))
                plan(end, partial(offsets.end, event))
            case Commit():
                plan(begin, partial(offsets.begin, event))
                plan(end, partial(offsets.end, event))
            case Committed():
                plan(end, partial(offsets.told, event))
            case Ends():
                plan(end, partial(offsets.ends, event))
            case Joined():
                plan(begin, partial(membership.joined, event))
            case Left():
                plan(end, partial(membership.left, event))
            case Noticed():
                plan(end, partial(membership.noticed, event))
            case Members():
                plan(end, partial(membership.told, event))
            case Lock():
                plan(end, partial(membership.locked, event))
            case Unlock():
                plan(end, partial(membership.unlocked, event))
            case Trim():
                plan(begin, partial(lifecycle.trimmed, event))
            case Restart():
                plan(begin, partial(lifecycle.restarted, event))
                plan(end, partial(membership.restarted, event))
            case Pause():
                knowledge.pauses.append(event)
            case Gone():
                plan(begin, partial(lifecycle.left, event))
            case Lag():
                plan(end, partial(absences.lag, event))
            case Drained():
                plan(end, partial(absences.drained, event))
    for _, _, act in sorted(steps, key=lambda each: each[:2]):
        act()
    pulling.finish()
    offsets.finish()
    membership.finish()
    return knowledge.violations
