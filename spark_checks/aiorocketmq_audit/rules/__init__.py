"""The rules by frame, and the checks that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aiorocketmq_audit.rules import (
    attempts,
    commits,
    dead_letters,
    delay,
    double_delivery,
    fairness,
    filters,
    handles,
    locks,
    loss,
    offsets,
    ordering,
    origin,
    queues,
    recall,
    retry_timing,
    transactions,
)
from aiorocketmq_audit.rules.rule import Check, Rule

_MODULES = (
    *(ordering, double_delivery, retry_timing, attempts, dead_letters, delay, origin, loss, filters),
    *(transactions, recall, queues, locks, offsets, commits, fairness, handles),
)

CHECKS: Mapping[str, Check] = MappingProxyType({module.CHECK.name: module.CHECK for module in _MODULES})
"""By name, in the order of the report."""

RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "deliveries": (
            *(*ordering.DELIVERIES, *double_delivery.DELIVERIES, *retry_timing.DELIVERIES),
            *(*attempts.DELIVERIES, *dead_letters.DELIVERIES, *delay.DELIVERIES, *filters.DELIVERIES),
        ),
        "messages": origin.MESSAGES,
        "dead letters": dead_letters.DEAD_LETTERS,
        "recalls": recall.RECALLS,
        "transactions": transactions.TRANSACTIONS,
        "drained messages": loss.DRAINED,
        "stored messages": loss.STORED,
        "places": offsets.PLACES,
        "sends in a row": offsets.SENDS,
        "ownerships": queues.OWNERSHIPS,
        "deliveries to owners": queues.READS,
        "grants": locks.GRANTS,
        "locked work": locks.WORK,
        "written offsets": commits.PROGRESS,
        "slices": fairness.SLICES,
        "answers": filters.ANSWERS,
        "handles": handles.HANDLES,
        "handlers": ordering.HANDLERS,
        "lite deliveries": filters.LITE,
    }
)
"""By the name of the frame."""


def explain(name: str) -> str:
    """Return the rules of an invariant or a check, with their conditions; KeyError for an unknown name."""
    explanations = [
        f"{rule.description()}\n  frame: {frame}"
        for frame, rules in RULES.items()
        for rule in rules
        if name in (rule.invariant, rule.check)
    ]
    if not explanations:
        raise KeyError(name)
    return "\n\n".join(explanations)
