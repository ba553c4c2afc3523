"""The checks by name: what each promises, what it judges, and how it finds what was broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame

from aiorocketmq_audit import (
    attempts,
    dead_letters,
    delay,
    double_delivery,
    filters,
    loss,
    ordering,
    origin,
    reading,
    retry_timing,
)
from aiorocketmq_audit.figures import Figures


@dataclass(frozen=True, slots=True)
class Material:
    """What checks look at."""

    events: DataFrame
    settings: DataFrame
    deliveries: DataFrame
    marks: DataFrame
    traces: DataFrame
    stored: DataFrame


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, or a few that belong together."""

    promise: str
    """In a sentence for people."""
    subject: str
    """What is counted as judged, in the plural."""
    judged: Callable[[Figures], int]
    find: Callable[[Material], DataFrame]
    """Findings, as rows of FINDING."""
    depends_on_time: bool = True
    """Whether clocks that disagree leave it unsure; the order of events within a recorder does not need them."""


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
                retry_timing.polls(material.events),
                material.marks,
                ended=reading.last_instants(material.events),
            ),
        ),
        attempts.NAME: Check(
            "Every delivery has the next number, up to the group's limit.",
            "deliveries with a known attempt",
            lambda numbers: numbers.numbered,
            lambda material: attempts.attempts(
                material.deliveries, attempts.lost_answers(material.events), material.marks
            ),
            depends_on_time=False,
        ),
        dead_letters.NAME: Check(
            "A message is given up once, after its last attempt, and does not come again.",
            "dead letters",
            lambda numbers: numbers.dead_letters,
            lambda material: dead_letters.dead_letters(
                material.events, material.deliveries, material.settings, material.marks
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
            lambda material: origin.origin(material.traces),
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
            "deliveries by tag",
            lambda numbers: numbers.by_tag,
            lambda material: filters.filters(material.deliveries),
            depends_on_time=False,
        ),
    }
)
