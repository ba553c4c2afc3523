"""Rows under construction: one array of integers per column, NONE for null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, Ints]
Cells: TypeAlias = Mapping[str, Ints | int | str]
"""Columns of some rows; a scalar applies to all of them."""

NONE = -1

_KINDS = """send receive deliver handle.start handle.end ack change forward dlq.deliver expire client.start client.stop
    client.crash config fault clock.sample recorder.start recorder.end drain.ok"""
_FIELDS = """recorder at rank invoked kind phase op_id client_id role group topic broker queue offset message_id
    message_group tag body_sha props_sha producer pseq attempt delivery handle prev_handle batch batch_pos filter
    invisible_ms auto_renew reason due_us born_us store_us server_deliver_us code result cfg fault clk"""

WORDS = {
    "kind": tuple(_KINDS.split()),
    "phase": ("invoke", "ok", "fail", "info"),
    "role": ("producer", "push"),
    "reason": ("retry", "extend"),
    "result": ("success", "failure"),
}
"""Texts of columns that are the same in all recordings; rows refer to them by index."""

FIELDS = tuple(_FIELDS.split())
"""`at` and `invoked` are server times in microseconds, `rank` orders rows of one instant; others are columns."""

_CODES = {column: {word: code for code, word in enumerate(words)} for column, words in WORDS.items()}


class Draft:
    """Collects rows of many kinds into one table."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Cells]] = []

    def add(self, count: int, *parts: Cells, **more: Ints | int | str) -> None:
        """Add `count` rows; the last of duplicate columns applies, missing ones are empty."""
        if count:
            self._parts.append((count, cells(*parts, **more)))

    def some(self, which: Bools, *parts: Cells, **more: Ints | int | str) -> None:
        """Add the rows selected by the mask `which`."""
        every = cells(*parts, **more)
        self.add(
            int(which.sum()),
            {
                name: values[which] if isinstance(values, np.ndarray) else values
                for name, values in every.items()
            },
        )

    def table(self) -> Columns:
        """Return all rows so far."""
        total = sum(count for count, _ in self._parts)
        table = {name: np.full(total, NONE, np.int64) for name in FIELDS}
        start = 0
        for count, columns in self._parts:
            for name, values in columns.items():
                code = _CODES[name][values] if isinstance(values, str) else values
                table[name][start : start + count] = code
            start += count
        return table


def cells(*parts: Cells, **more: Ints | int | str) -> dict[str, Ints | int | str]:
    """Return merged columns; the last of duplicate columns applies."""
    together: dict[str, Ints | int | str] = {}
    for part in (*parts, more):
        together |= part
    return together


def taken(columns: Columns, which: Ints | Bools) -> Columns:
    """Return some of the rows, by index or by a mask."""
    return {name: values[which] for name, values in columns.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Return the concatenation of tables."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
