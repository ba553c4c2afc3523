"""What a question over numbers consists of: what it takes of events, what it exchanges, and how it counts one share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import Layout, Rows
from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Numbers
from aiorocketmq_audit.kernels.texts import Hashes

ACCOUNT = ("run_id", "case_id", "observer")

FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers by key, for looking up what is known of the whole recording."""

    keys: Hashes
    """In order."""
    values: Numbers

    @classmethod
    def by(cls, keys: Hashes, values: Numbers) -> Table:
        """The same numbers, put in order."""
        order = np.argsort(keys)
        return cls(keys[order], values[order])

    def of(self, keys: Hashes, missing: int) -> Numbers:
        """The number of each key."""
        if not len(self.keys):
            return np.full(len(keys), missing, np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.values[places], missing)


@dataclass(frozen=True, slots=True)
class Windows:
    """From where to where groups have read queues, or message groups of them, by one filter each."""

    places: Table
    """By queue, group and, where it is read by itself, message group: which of the following."""
    lowest: Numbers
    highest: Numbers
    began: Numbers
    """When the group began to read the queue; FOREVER where that tells nothing of this message group."""
    wanted: Numbers
    """Which of the filters."""
    filters: tuple[str, ...]
    readers: tuple[tuple[int, bool], ...]
    """Groups by name, and whether they read each message group by itself."""


@dataclass(frozen=True, slots=True)
class Drains:
    """Groups that were drained of a topic, by the one filter that they had."""

    places: Table
    """By topic and group: which of the following."""
    primed: Numbers
    """Since when the group had asked."""
    drained_at: Numbers
    wanted: Numbers
    """Which of the filters."""
    filters: tuple[str, ...]
    readers: tuple[int, ...]
    """Groups by name."""


@dataclass(frozen=True, slots=True)
class Polls:
    """Answered polls, in the order of what they asked for."""

    poll: Hashes
    """The topic and the group, of an account."""
    queue: Numbers
    """NONE for all of them."""
    begun: Numbers
    ended: Numbers

    def among(self, places: Hashes) -> NDArray[np.int32]:
        """Of each topic and group, where its polls begin; -1 where it has none."""
        if not len(self.poll):
            return np.full(len(places), -1, np.int32)
        found = np.minimum(np.searchsorted(self.poll, places), len(self.poll) - 1)
        return np.where(self.poll[found] == places, found, -1).astype(np.int32)

    def cover(self, first: NDArray[np.int32], queue: Numbers, free: Numbers, bound: Numbers) -> Mask:
        """Whether a poll was open from when a message was `free` up to the `bound`; `first` is what `among` says."""
        last = np.searchsorted(self.poll, self.poll[first], "right") if len(self.poll) else first
        found = np.zeros(len(first), np.bool_)
        for row in np.flatnonzero(first >= 0):
            mine = slice(first[row], last[row])
            here = (self.queue[mine] == NONE) | (self.queue[mine] == queue[row])
            found[row] = (here & (self.begun[mine] <= free[row]) & (self.ended[mine] >= bound[row])).any()
        return found


@dataclass(frozen=True, slots=True)
class Settings:
    """What the recording says of groups, one place for each, and a last one for groups of which it says nothing; NONE
    for what it does not say."""

    places: Table
    """By run, case and group."""
    ordered: Numbers
    """1 or 0; NONE where nobody knows."""
    told_by_broker: Mask
    max_attempts: Numbers
    steps: tuple[tuple[int, ...], ...]
    """Of each group the waits in milliseconds."""
    early: Numbers
    late: Numbers
    apart: Numbers
    """How far clocks may be apart, in microseconds."""

    def of(self, events: Events) -> Numbers:
        """The place of each event's group; -1, the last one, where nothing is said of it."""
        return events.derived(
            "place of settings", lambda all_: self.places.of(all_.together("run_id", "case_id", "group"), -1)
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """What must be known of the whole recording before its events are judged."""

    lost_at: Table
    """By account and group: when the first poll began of whose answer nothing is known."""
    began: Table
    """By account: when its first recorder began."""
    left_from: Table
    """By queue: the lowest offset that the broker has not deleted."""
    drained: Table
    """By account, topic and group: when the group was drained last."""
    committed: Table | None
    """By transaction: when it was committed; None where there are too many of them."""
    polls: Polls | None
    """None where there are too many of them."""
    windows: Windows | None
    """None where there are too many of them."""
    drains: Drains | None
    """None where nobody was drained."""


Counts = Mapping[str, tuple[int, int]]
"""By what was judged: how many facts, and how many of them look wrong."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a question answers of one share."""

    counts: Counts
    cells: Rows | None = None
    borders: Rows | None = None
    sought: Hashes | None = None
    """Messages that must be looked at closely, by the hashes of their ids."""


@dataclass(frozen=True, slots=True)
class Question:
    """One of the questions that are answered key by key."""

    layouts: tuple[Layout, ...]
    """What is exchanged: one or several tables, by one key."""
    rows: Callable[[Events, Any], tuple[Rows, ...]]
    """What some events give to each of these tables, by what is known of all of them."""
    answer: Callable[..., Told]
    """Answer for one share: of each table the whole keys that are in it."""


def counting(
    *,
    layout: Layout,
    rows: Callable[[Events, Survey], Rows],
    answer: Callable[[Rows], Counts],
) -> Question:
    """A question that exchanges one table, and counts."""
    return Question((layout,), partial(_one_table, rows), partial(_told, answer))


def _one_table(rows: Callable[[Events, Survey], Rows], events: Events, survey: Survey) -> tuple[Rows, ...]:
    return (rows(events, survey),)


def _told(answer: Callable[[Rows], Counts], rows: Rows) -> Told:
    return Told(answer(rows))


def chosen(where: NDArray[np.bool_], **columns: NDArray[Any]) -> Rows:
    """Of these columns, the rows where this is true."""
    return {name: column[where] for name, column in columns.items()}
