"""`figures.cells` over numbers: deliveries by group, attempt, cause and lateness, of a share and of all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Row

from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import NONE
from aiorocketmq_audit.kernels.question import FOREVER
from aiorocketmq_audit.kernels.suspicion import CAUSES
from aiorocketmq_audit.kernels.texts import mixed

_CELL = ("by_broker", "who", "cell_attempt", "cause", "bucket", "asked")

_COUNTED = (
    *("with_hold", "redelivered", "doubled", "mistimed", "misnumbered", "numbered", "hurried", "scheduled"),
    *("unwanted", "buried", "by_tag", "dead", "first", "ordered_first", "unknown_order"),
)

_SUMMED, _MOST, _FAR = ("asked_us", "seen_us"), ("asked_most", "seen_most"), ("recorder", "seq")


def cells(found: Mapping[str, NDArray[Any]]) -> Rows:
    """One row for each cell of these deliveries."""
    wait, seen = found["wait"], found["seen_after"]
    values = {name: found[name] for name in (*_CELL, *_COUNTED)} | {
        "n": np.ones(len(wait), np.int64),
        "asked_us": np.where(wait == NONE, 0, wait),
        "seen_us": np.where(seen == NONE, 0, seen),
        "asked_most": wait,
        "seen_most": seen,
        "seen_least": np.where(seen == NONE, FOREVER, seen),
        "far_number": found["number"],
        **{f"far_{name}": found[name] for name in _FAR},
    }
    return _folded(values)


def merged(parts: Sequence[Rows]) -> Rows:
    """The cells of several shares as those of the whole."""
    return _folded({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _folded(values: Rows) -> Rows:
    runs = Runs(mixed(*(values[name].astype(np.int64, copy=False) for name in _CELL)))
    far = runs.where_most(values["far_number"])
    return {
        **{name: runs.first(values[name]) for name in _CELL},
        **{name: runs.sum(values[name].astype(np.int64, copy=False)) for name in ("n", *_COUNTED, *_SUMMED)},
        **{name: runs.most(values[name]) for name in _MOST},
        "seen_least": runs.least(values["seen_least"]),
        **{f"far_{name}": values[f"far_{name}"][far] for name in ("number", *_FAR)},
    }


def rows(cells: Rows, groups: Mapping[int, str]) -> list[Row]:
    """The cells as `figures.figures` takes them, with the names of their groups."""
    columns = {name: _plain(column) for name, column in cells.items() if name != "cause"}
    columns["cause"] = [CAUSES[code] for code in cells["cause"].tolist()]
    columns["group"] = [groups.get(key) for key in cells["who"].tolist()]
    names = tuple(columns)
    return [Row(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def _plain(column: NDArray[Any]) -> list[Any]:
    """As Spark has them: signed, and None for what is not told."""
    signed = column.view(np.int64) if column.dtype == np.uint64 else column
    values: list[Any] = signed.tolist()
    if signed.dtype != np.int64:
        return values
    return [None if value in (NONE, FOREVER) else value for value in values]
