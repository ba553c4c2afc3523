"""The promises again, in plain Python: slow, obvious, and for small histories only; what the Spark checks are tested
against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from spark_checks.tests.oracle import content, leases, locks, numbers, order, others
from spark_checks.tests.oracle.histories import (
    BROKEN,
    POSSIBLE,
    Account,
    Found,
    Row,
    accounts,
    is_doubtful,
    ways,
)

__all__ = ["Found", "judge"]

_OF_ACCOUNTS = (
    order.order,
    order.handlers,
    numbers.dead_letters,
    numbers.not_buried,
    content.delays,
    content.filters,
    content.answers,
    content.lite,
    content.origin,
    content.passed_over,
    content.drained,
    others.transactions,
    others.recalls,
    others.owners,
    others.pulled,
    others.places,
    others.serial,
    others.progress,
    locks.grants,
    locks.work,
    others.fairness,
    others.handles,
)
_OF_WAYS = (leases.redeliveries, leases.lateness, numbers.attempts)


def judge(rows: Iterable[Row]) -> Iterator[Found]:
    """All that is broken, or may be, in a recording that is whole; what is excused is left out."""
    for account in accounts(rows):
        for found in _judged(account):
            doubt = found.verdict == BROKEN and is_doubtful(account, found)
            yield replace(found, verdict=POSSIBLE) if doubt else found


def _judged(account: Account) -> Iterator[Found]:
    for check in _OF_ACCOUNTS:
        yield from check(account)
    for way in ways(account):
        for reading in _OF_WAYS:
            yield from reading(way)
