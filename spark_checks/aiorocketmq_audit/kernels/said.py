"""What a recording says of its groups: the rows of `reading.settings`, without Spark."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aiorocketmq_audit.kernels.events import NONE, Numbers, Piece, Reader
from aiorocketmq_audit.kernels.question import Settings, Table
from aiorocketmq_audit.kernels.texts import Hashes, hashes, mixed
from aiorocketmq_audit.recording.narrowing import Narrowing
from aiorocketmq_audit.recording.reading import EARLY_MS, LATE_MS

COLUMNS = ("run_id", "case_id", "group", "observer", "t_wall_us", "cfg")

Said = Mapping[str, Any]

_GROUP = ("run_id", "case_id", "group")
_NUMBER = re.compile(r"[\x00-\x20]*[+-]?\d+[\x00-\x20]*")


def said(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """What pieces of a recording say: their `config` rows."""
    reader, rows = Reader(), list[dict[str, Any]]()
    for piece in pieces:
        events = reader.read(piece)
        which = np.flatnonzero(events.one_of("kind", "config"))
        if len(which):
            rows += [row for row in events.rows(COLUMNS, which) if row["group"] is not None]
    return rows


def settings(rows: Iterable[Said], narrowing: Narrowing) -> list[dict[str, Any]]:
    """One row per run, case and group, as `reading.settings` and `narrowing` make them. Raises ValueError for steps
    that are no numbers."""
    told: dict[tuple[Any, ...], list[Said]] = defaultdict(list)
    for row in rows:
        told[tuple(row[name] for name in _GROUP)].append(row)
    return [dict(zip(_GROUP, key, strict=True)) | _of_group(mine, narrowing) for key, mine in told.items()]


def _of_group(rows: Sequence[Said], narrowing: Narrowing) -> dict[str, Any]:
    latest: dict[str, tuple[int, str]] = {}
    ordered: set[str] = set()
    for row in rows:
        for name, value in row["cfg"] or ():
            if value is None:
                continue
            if name == "ordered":
                ordered.add(value)
            if name not in latest or latest[name][0] < row["t_wall_us"]:
                latest[name] = row["t_wall_us"], value
    values = {name: value for name, (_, value) in latest.items()}
    early_ms = narrowing.early_ms
    if early_ms is None:
        early_ms = _number(values.get("early_ms"), 63, EARLY_MS)
    return {
        "ordered": ordered == {"true"} if len(ordered) == 1 else None,
        "max_attempts": _number(values.get("max_attempts"), 31, None),
        "steps_ms": [int(step) for step in values["steps_ms"].split(",")] if "steps_ms" in values else None,
        "locks_queue": values.get("order_grain") == "queue",
        "told_by_broker": any(row["observer"] == "broker" for row in rows),
        "early_us": early_ms * 1000,
        "late_us": _number(values.get("late_ms"), 63, LATE_MS) * 1000,
        "apart_us": 2 * narrowing.skew_us,
    }


def _number(text: str | None, bits: int, missing: Any) -> Any:
    if text is None or not _NUMBER.fullmatch(text):
        return missing
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else missing


def table(rows: Sequence[Said]) -> Settings:
    """The same as questions look it up, with the usual tolerances for groups of which nothing is said."""
    nobody: dict[str, int] = {"early_us": EARLY_MS * 1000, "late_us": LATE_MS * 1000, "apart_us": 0}

    def numbers(name: str) -> Numbers:
        values = [*(row[name] for row in rows), nobody.get(name)]
        return np.array([NONE if value is None else int(value) for value in values], np.int64)

    return Settings(
        places=Table.by(_keys(rows), np.arange(len(rows))),
        ordered=numbers("ordered"),
        told_by_broker=np.array([*(row["told_by_broker"] for row in rows), False], np.bool_),
        max_attempts=numbers("max_attempts"),
        steps=tuple(tuple(row["steps_ms"] or ()) for row in rows),
        early=numbers("early_us"),
        late=numbers("late_us"),
        apart=numbers("apart_us"),
    )


def _keys(rows: Sequence[Said]) -> Hashes:
    return mixed(*(hashes(pa.array([row[name] for row in rows], pa.string())) for name in _GROUP))
