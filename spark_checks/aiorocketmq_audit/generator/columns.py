"""Rows under construction: one array of integers per column, -1 where a row has no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, Ints]

NONE = -1

FIELDS = (
    *(
        "recorder",
        "at",
        "rank",
        "kind",
        "phase",
        "op",
        "invoked",
        "client",
        "role",
        "group",
        "topic",
        "broker",
    ),
    *(
        "queue",
        "offset",
        "message",
        "message_group",
        "tag",
        "body",
        "attempt",
        "delivery",
        "handle",
        "before",
    ),
    *("batch", "position", "asking", "hold", "renew", "reason", "due", "born", "store", "answered", "filter"),
    *("code", "result", "cfg", "fault", "sample", "tx", "resolution", "source", "commit", "props", "pseq"),
    *("producer", "priority"),
)
"""`at` and `invoked` are server times in microseconds; numbers of names (kind, client …) point into lists of texts."""


Cells: TypeAlias = dict[str, Ints | int]
"""Columns of some rows; a single number stands in all of them."""


class Draft:
    """Collects rows of many kinds and makes one table of them."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Cells]] = []

    def add(self, count: int, *parts: Mapping[str, Ints | int], **more: Ints | int) -> None:
        """Add `count` rows; of columns that are named twice the last counts, one that is not named is empty."""
        if count:
            self._parts.append((count, cells(*parts, **more)))

    def some(self, which: Bools, *parts: Mapping[str, Ints | int], **more: Ints | int) -> None:
        """Add those rows only that `which` marks."""
        every = cells(*parts, **more)
        chosen = {
            name: values if isinstance(values, int) else values[which] for name, values in every.items()
        }
        self.add(int(which.sum()), chosen)

    def table(self) -> Columns:
        """All rows so far."""
        total = sum(count for count, _ in self._parts)
        made = {name: np.full(total, NONE, np.int64) for name in FIELDS}
        start = 0
        for count, columns in self._parts:
            for name, values in columns.items():
                made[name][start : start + count] = values
            start += count
        return made


def cells(*parts: Mapping[str, Ints | int], **more: Ints | int) -> Cells:
    """Columns put together; of those that are named twice the last counts."""
    together: Cells = {}
    for part in (*parts, more):
        together |= part
    return together


def length(columns: Columns) -> int:
    """How many rows there are."""
    return len(columns["at"])


def taken(columns: Columns, which: Ints | Bools) -> Columns:
    """Some of the rows, by place or by a mask."""
    return {name: values[which] for name, values in columns.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Tables one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def scrambled(numbers: Ints, salt: int) -> NDArray[np.uint64]:
    """Numbers that look random and are different for different ones (splitmix64): what handles and digests are."""
    mixed = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
