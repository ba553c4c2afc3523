"""Which queues a consumer takes up and drops when the server's assignment of a topic changes."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

QueueT = TypeVar("QueueT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AssignmentChange(Generic[QueueT]):
    """The difference between what is held and what the server assigned."""

    added: tuple[QueueT, ...]
    dropped: tuple[QueueT, ...]


def assignment_change(held: Collection[QueueT], assigned: Collection[QueueT]) -> AssignmentChange[QueueT]:
    """Compare; order follows the arguments, repeated queues count once (client-behaviour.md 10.1)."""
    wanted = dict.fromkeys(assigned)
    return AssignmentChange(
        added=tuple(queue for queue in wanted if queue not in held),
        dropped=tuple(queue for queue in held if queue not in wanted),
    )
