"""Entry point: every response of a history that the documents do not allow.

The events are read in the order of their steps: a call may take effect from its begin on, and surely has at its end.
Clocks and concurrency are intervals: an objection means that no order of events inside of them is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq_conformance.model.absences import Absences
from aiorocketmq_conformance.model.calls import Occurrence, Pause, Violation
from aiorocketmq_conformance.model.deliveries import Deliveries
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.lifecycle import Lifecycle
from aiorocketmq_conformance.model.membership import Membership
from aiorocketmq_conformance.model.offsets import Offsets
from aiorocketmq_conformance.model.pulling import Pulling
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.model.sending import Sending
from aiorocketmq_conformance.model.settling import Settling


def judge(events: Iterable[Occurrence], semantics: Semantics) -> list[Violation]:
    """Return the violations of a history, in the order in which they show."""
    events = tuple(events)
    knowledge = Knowledge(semantics)
    knowledge.pauses += [event for event in events if isinstance(event, Pause)]
    pulling, offsets, membership = Pulling(knowledge), Offsets(knowledge), Membership(knowledge)
    # Where several judge at one step, in this order.
    judges = (
        Lifecycle(knowledge),
        Sending(knowledge),
        Settling(knowledge),
        Deliveries(knowledge),
        Absences(knowledge),
        pulling,
        offsets,
        membership,
    )
    acts: list[Act] = [act for event in events for each in judges for act in each.acts(event)]
    for _, act in sorted(acts, key=lambda act: act[0]):
        act()
    for each in (pulling, offsets, membership):
        each.finish()
    return knowledge.violations
