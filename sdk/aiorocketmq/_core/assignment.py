"""Difference between two assignments of queues."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AssignmentChange(Generic[QueueT]):
    """The queues that are added and dropped."""

    added: tuple[QueueT, ...]
    dropped: tuple[QueueT, ...]


def assignment_change(held: Collection[QueueT], assigned: Collection[QueueT]) -> AssignmentChange[QueueT]:
    """Compare two assignments; order follows the arguments, repeated queues count once (client-behaviour.md 10.1)."""
    new = dict.fromkeys(assigned)
    return AssignmentChange(
        added=tuple(queue for queue in new if queue not in held),
        dropped=tuple(queue for queue in held if queue not in new),
    )
