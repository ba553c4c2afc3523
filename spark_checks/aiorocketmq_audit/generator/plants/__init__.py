"""Faults that can be planted into a recording, by kind."""

from aiorocketmq_audit.generator.plants import (
    answers,
    content,
    drains,
    excuses,
    honest,
    leases,
    numbers,
    order,
    queues,
    transactions,
    unwanted,
)
from aiorocketmq_audit.generator.plants.registry import KINDS, Kind

__all__ = [
    "KINDS",
    "Kind",
    "answers",
    "content",
    "drains",
    "excuses",
    "honest",
    "leases",
    "numbers",
    "order",
    "queues",
    "transactions",
    "unwanted",
]
