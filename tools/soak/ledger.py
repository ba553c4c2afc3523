"""The books of a soak: what was promised, what was done with it, and why anything was done twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiorocketmq_fake.core.values.events import Event, LeaseChanged, LeaseEnded, Resurrected, Stored, StoredAs

FIRST_COPIES = (StoredAs.SENT, StoredAs.DUE, StoredAs.COMMITTED)


@dataclass(frozen=True, slots=True)
class Balance:
    """How the books stand at the end."""

    promised: int
    """Messages that the broker had confirmed and that were to be delivered."""
    handled: int
    """Handlings that ended well, over all groups."""
    lost: tuple[tuple[str, str], ...]
    """Group and message id of what was promised to a group, and neither handled by it nor read as its dead letter."""
    unexplained: tuple[tuple[str, str], ...]
    """Group and message id of what was handled once more without any event that would be the reason."""
    withdrawn: tuple[tuple[str, str], ...]
    """Group and message id of what was rolled back or recalled, and handled all the same."""
    buried: int = 0
    """Messages that were read as dead letters."""
    repeated: dict[str, int] = field(default_factory=dict)
    """Handlings beyond the first, by their reason."""

    @property
    def is_kept(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.unexplained or self.withdrawn)


class Ledger:
    """Records what happens, from both sides; `groups` are those that get each topic."""

    def __init__(
        self, groups: dict[str, tuple[str, ...]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._promised: dict[str, str] = {}
        self._withdrawn: set[str] = set()
        self._copies: Counter[str] = Counter()
        self._handled: dict[str, Counter[str]] = defaultdict(Counter)
        self._buried: dict[str, set[str]] = defaultdict(set)
        self._reasons: dict[tuple[str, str], str] = {}
        self._repeated: Counter[str] = Counter()
        self._unexplained: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        self._timing = False
        self._last_work: dict[str, float] = {}
        self.longest_waits: dict[str, float] = {}
        """Longest time in seconds without a confirmed send to one topic, or without a handling of one group, between
        `start_timing` and `stop_timing`."""

    def start_timing(self, topics: Iterable[str]) -> None:
        """Measure waits from now on: of sends to `topics`, and of handlings by their groups."""
        self._timing = True
        for topic in topics:
            self._worked(f"send to {topic}")
            for group in self._groups.get(topic, ()):
                self._worked(f"handle for {group}")

    def stop_timing(self) -> None:
        """Measure no more waits, as nothing more is sent."""
        for work in tuple(self._last_work):
            self._worked(work)
        self._timing = False

    def _worked(self, work: str) -> None:
        if self._timing:
            now = self._clock()
            waited = now - self._last_work.get(work, now)
            self.longest_waits[work] = max(self.longest_waits.get(work, 0.0), waited)
            self._last_work[work] = now

    def promised(self, topic: str, message_id: str) -> None:
        """The broker has confirmed a message; every group of its topic must get it."""
        self._worked(f"send to {topic}")
        self._promised[message_id] = topic

    def withdrawn(self, message_id: str) -> None:
        """A message was rolled back, or recalled in time; nobody may get it."""
        self._withdrawn.add(message_id)

    def buried(self, group: str, message_id: str) -> None:
        """A message was read as a dead letter of `group`."""
        self._news.set()
        self._buried[group].add(message_id)

    def handled(self, group: str, message_id: str) -> None:
        """A group has done its work on a message."""
        self._news.set()
        self._worked(f"handle for {group}")
        seen = self._handled[group]
        seen[message_id] += 1
        if seen[message_id] == 1:
            self._reasons.pop((group, message_id), None)
            return
        reason = self._reasons.pop((group, message_id), None)
        if reason is None and self._copies[message_id] >= seen[message_id]:
            reason = "stored more than once"
        if reason is None:
            self._unexplained.append((group, message_id))
        else:
            self._repeated[reason] += 1

    def watch(self, events: Iterable[Event]) -> None:
        """Take down what the broker did."""
        for event in events:
            if isinstance(event, Stored) and event.reason in FIRST_COPIES:
                self._copies[event.message.content.message_id] += 1
            elif isinstance(event, LeaseEnded):
                self._reasons[event.group, event.message.content.message_id] = (
                    f"lease over: {event.reason.value}"
                )
            elif isinstance(event, LeaseChanged) and event.invisible < 1.0:
                self._reasons[event.group, event.message.content.message_id] = "given back"
            elif isinstance(event, Resurrected):
                self._reasons[event.group, event.message.content.message_id] = "a change with a spent handle"

    async def something_handled(self) -> None:
        """Wait for the next handling or dead letter."""
        self._news.clear()
        await self._news.wait()

    def missing(self) -> list[tuple[str, str]]:
        """Group and message id of what is still to be handled or given up."""
        return [
            (group, message_id)
            for message_id, topic in self._promised.items()
            for group in self._groups.get(topic, ())
            if message_id not in self._handled[group] and message_id not in self._buried[group]
        ]

    def balance(self) -> Balance:
        """How the books stand."""
        return Balance(
            promised=len(self._promised),
            handled=sum(sum(seen.values()) for seen in self._handled.values()),
            lost=tuple(self.missing()),
            unexplained=tuple(self._unexplained),
            withdrawn=tuple(
                (group, message_id)
                for group, seen in self._handled.items()
                for message_id in self._withdrawn & set(seen)
            ),
            buried=sum(map(len, self._buried.values())),
            repeated=dict(sorted(self._repeated.items())),
        )
