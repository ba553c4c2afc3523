"""Faults that can be planted into a recording, by kind."""

from aiorocketmq_audit.generator.plants import content, excuses, honest, leases, numbers, order, others
from aiorocketmq_audit.generator.plants.registry import KINDS, Kind

__all__ = ["KINDS", "Kind", "content", "excuses", "honest", "leases", "numbers", "order", "others"]
