"""What a history does: its topics, groups and consumers, and its steps, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

READERS = "-readers"
"""Appended to a group's name: the group that reads its dead letters."""

MESSAGE_GROUPS = ("x", "y", "z")
"""Also the names of lite topics."""
CLASSIC = frozenset(
    {
        *("classic send", "classic pull", "commit offset", "ask offset", "ask ends"),
        *("join members", "leave members", "ask members", "lock", "unlock"),
    }
)
"""The kinds of steps of clients of the classic protocol."""

BACK = 8
"""Pulls begin less than so many messages behind the end of the last one, or at the beginning."""

Value: TypeAlias = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic."""

    type: str
    queues: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A consumer group of one topic."""

    topic: int
    ordered: bool
    max_attempts: int
    steps: tuple[float, ...] = ()
    """Its own retry intervals."""
    late: bool = False
    """It is created by a step, after messages were sent."""
    is_lite: bool = False
    """Its clients subscribe to lite topics of the topic."""


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """A consumer, by the numbers of its group and its kind."""

    group: int
    renews: bool
    """A push consumer whose leases the server renews."""
    filter: str
    late: bool = False
    """It joins by a step."""
    names: int = 7
    """The lite topics that it subscribes to, a bit each, if its topic has any."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step; its values select among what is there when it is done, so that any steps may be left out."""

    number: int
    kind: str
    values: dict[str, Value] = field(default_factory=dict)

    def integer(self, name: str) -> int:
        """Return an integer value."""
        return int(self.values[name] or 0)

    def behind(self, offset: int) -> int:
        """Return where a pull begins: a few messages behind an offset, or at the beginning."""
        back = self.integer("back")
        return max(0, offset - back) if back < BACK else 0

    def real(self, name: str) -> float:
        """Return a number of seconds."""
        return float(self.values[name] or 0.0)

    def text(self, name: str) -> str:
        """Return a text."""
        return str(self.values[name] or "")


@dataclass(frozen=True, slots=True)
class Plan:
    """One history to execute; a function of a seed and a number."""

    seed: int
    number: int
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    steps: tuple[Step, ...]

    @property
    def is_classic(self) -> bool:
        """Whether it has clients of the classic protocol."""
        return any(step.kind in CLASSIC for step in self.steps)

    @property
    def needs(self) -> tuple[str, ...]:
        """The abilities of a target that have to be switched on for it."""
        has_lite_topics = any(topic.type == "LITE" for topic in self.topics)
        return ("remoting",) * self.is_classic + ("type.lite",) * has_lite_topics
