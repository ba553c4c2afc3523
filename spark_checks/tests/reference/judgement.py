"""Entry point: every violation in the rows of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from spark_checks.tests.reference import attempts, content, leases, locks, order, queues
from spark_checks.tests.reference.histories import (
    BROKEN,
    POSSIBLE,
    Observation,
    Row,
    Violation,
    is_doubtful,
    message_histories,
    observations,
)

__all__ = ["Violation", "judge"]

_OF_OBSERVATIONS = (
    order.order,
    order.handlers,
    attempts.dead_letters,
    attempts.not_buried,
    content.delays,
    content.filters,
    content.answers,
    content.lite,
    content.origin,
    content.passed_over,
    content.drained,
    queues.transactions,
    queues.recalls,
    queues.owners,
    queues.pulled,
    queues.places,
    queues.serial,
    queues.progress,
    locks.grants,
    locks.work,
    queues.fairness,
    queues.handles,
)
_OF_MESSAGES = (leases.redeliveries, leases.lateness, attempts.attempts)


def judge(rows: Iterable[Row]) -> Iterator[Violation]:
    """Yield the violations, definite and possible, in a complete recording; exempt ones are left out."""
    for observation in observations(rows):
        for violation in _judged(observation):
            doubt = violation.verdict == BROKEN and is_doubtful(observation, violation)
            yield replace(violation, verdict=POSSIBLE) if doubt else violation


def _judged(observation: Observation) -> Iterator[Violation]:
    for check in _OF_OBSERVATIONS:
        yield from check(observation)
    for history in message_histories(observation):
        for reading in _OF_MESSAGES:
            yield from reading(history)
