"""The checks by name: what each promises, what it judges, and how it finds what was broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame

from aiorocketmq_audit import (
    attempts,
    commits,
    dead_letters,
    delay,
    double_delivery,
    fairness,
    filters,
    handles,
    loss,
    offsets,
    ordering,
    origin,
    queues,
    recall,
    retry_timing,
    transactions,
)
from aiorocketmq_audit.figures import Figures
from aiorocketmq_audit.recording import reading


@dataclass(frozen=True, slots=True)
class Material:
    """What checks look at."""

    events: DataFrame
    settings: DataFrame
    deliveries: DataFrame
    marks: DataFrame
    """What excuses, as `excuses.marks` tells it."""
    away: DataFrame
    """When servers were away from clients, as `excuses.away` tells it."""
    traces: DataFrame
    stored: DataFrame
    around: DataFrame
    """Events of all these deliveries, and of what may excuse them: all of them, or those that were put aside."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, or a few that belong together."""

    promise: str
    """In a sentence for people."""
    subject: str
    """What is counted as judged, in the plural."""
    judged: Callable[[Figures], int]
    find: Callable[[Material], DataFrame] | None = None
    """Findings, as rows of FINDING; None where `sides` finds all of them."""
    depends_on_time: bool = True
    """Whether clocks that disagree leave it unsure; the order of events within a recorder does not need them."""


def _counted_aside(_: Figures) -> int:
    """Nothing of the figures: `sides` counts what these checks judge."""
    return 0


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        ordering.NAME: Check(
            "A group that asked for order gets the messages of a message group one after the other, as stored.",
            "first deliveries of ordered messages",
            lambda numbers: numbers.ordered_first,
            lambda material: ordering.ordering(material.deliveries, material.marks),
            depends_on_time=False,
        ),
        double_delivery.NAME: Check(
            "While one consumer holds a message, or after it was acked, nobody else of its group gets it.",
            "deliveries with a known hold",
            lambda numbers: numbers.with_hold,
            lambda material: double_delivery.double_delivery(material.deliveries, material.marks),
        ),
        retry_timing.NAME: Check(
            "A message comes again when it was asked to: not before, and not much later.",
            "redeliveries",
            lambda numbers: numbers.redeliveries,
            lambda material: retry_timing.retry_timing(
                material.deliveries,
                retry_timing.polls(material.around),
                material.marks,
                ended=reading.last_instants(material.around),
            ),
        ),
        attempts.NAME: Check(
            "Every delivery has the next number, up to the group's limit.",
            "deliveries with a known attempt",
            lambda numbers: numbers.numbered,
            lambda material: attempts.attempts(
                material.deliveries, attempts.lost_answers(material.around), material.marks
            ),
            depends_on_time=False,
        ),
        dead_letters.NAME: Check(
            "A message is given up once, after its last attempt, and does not come again.",
            "dead letters",
            lambda numbers: numbers.dead_letters,
            lambda material: dead_letters.dead_letters(
                material.around, material.deliveries, material.settings, material.marks
            ),
            depends_on_time=False,
        ),
        delay.NAME: Check(
            "A message that was sent for a later time does not come before it.",
            "deliveries of delayed messages",
            lambda numbers: numbers.scheduled,
            lambda material: delay.delay(material.deliveries),
        ),
        origin.NAME: Check(
            "What is delivered was sent, unchanged, and not refused.",
            "delivered messages whose send is known",
            lambda numbers: numbers.traced,
            lambda material: origin.origin(material.traces, material.events),
            depends_on_time=False,
        ),
        loss.NAME: Check(
            "Nothing that was stored is passed over.",
            "stored messages that groups have passed",
            lambda numbers: numbers.expected,
            lambda material: loss.loss(material.stored),
            depends_on_time=False,
        ),
        filters.NAME: Check(
            "A consumer gets what it asked for, and nothing else.",
            "deliveries by tag or lite topic, and answers to polls",
            lambda numbers: numbers.by_tag,
            lambda material: filters.filters(material.deliveries),
            depends_on_time=False,
        ),
        transactions.NAME: Check(
            "A half message comes when it was committed, and nobody is asked about it for ever.",
            "transactions",
            _counted_aside,
        ),
        recall.NAME: Check(
            "A delayed message that was taken back in time does not come.",
            "messages taken back in time",
            _counted_aside,
        ),
        queues.NAME: Check(
            "Consumers that own whole queues own them alone, and read each in order.",
            "ownerships of queues and deliveries to owners",
            _counted_aside,
        ),
        offsets.NAME: Check(
            "A place in a queue holds one message, and sends one after the other take places one after the other.",
            "places and sends in a row",
            _counted_aside,
            depends_on_time=False,
        ),
        commits.NAME: Check(
            "A group's progress does not fall, and is not ahead of what was handed out.",
            "written offsets",
            _counted_aside,
            depends_on_time=False,
        ),
        fairness.NAME: Check(
            "While somebody asks and something waits, every queue of a group goes on.",
            "half minutes of queues",
            _counted_aside,
        ),
        handles.NAME: Check(
            "A receipt handle stands for one delivery of one message.",
            "receipt handles",
            _counted_aside,
            depends_on_time=False,
        ),
    }
)
