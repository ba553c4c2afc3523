"""Injects faults: scenarios are played within a recording's time, and written as additional recorders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
from aiorocketmq.recording_format import VERSION, arrow_schema
from pyarrow import parquet

from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.generator.faults import KINDS, ExpectedFinding, rows_of
from aiorocketmq_audit.generator.faults.scenario import Row
from aiorocketmq_audit.generator.shape import Shape

LIST = "_planted.json"
"""The list of injected faults, in the folder of the recording; audits ignore names with a leading underscore."""

_SECOND = 1_000_000


def chosen(texts: Sequence[str]) -> dict[str, int]:
    """Return how often each kind is injected, from `KIND[:COUNT]` texts.

    A kind may be the first part of names, or `all`: these exclude kinds that would exempt others (`Kind.alone`).

    Raises UsageError for an unknown kind, or an invalid count.
    """
    counts: dict[str, int] = {}
    for text in texts:
        name, colon, number = text.partition(":")
        parts = [kind_name for kind_name, kind in KINDS.items() if not kind.alone]
        matches = [kind_name for kind_name in parts if name in ("all", kind_name.partition(".")[0])]
        matches = [name] if name in KINDS else matches
        if not matches:
            families = ", ".join(dict.fromkeys(kind_name.partition(".")[0] for kind_name in KINDS))
            near = ", ".join(get_close_matches(name, KINDS)) or f"one of {families}"
            raise UsageError(f"there is no kind of fault {name!r}: use all, or {near}.")
        if colon and not (number.isdecimal() and int(number) > 0):
            raise UsageError(f"--plant {text} has no count: use KIND:COUNT, for example {matches[0]}:3.")
        for match in matches:
            counts[match] = counts.get(match, 0) + (int(number) if colon else 1)
    return counts


def require_scenarios(shape: Shape) -> None:
    """Raise UsageError for a shape without the groups or observers that scenarios require."""
    if shape.groups < 2 or not shape.ordered_groups or set(shape.observers) != {"broker", "client"}:
        raise UsageError(
            "--plant needs a shape with groups=2 or more, ordered_groups=1 or more, and both observers."
        )


def plant(
    folder: Path, kinds: Mapping[str, int], shape: Shape, run: str, span_us: tuple[int, int], seed: int
) -> tuple[tuple[ExpectedFinding, ...], int]:
    """Write scenarios of `kinds` that begin within `span_us`; return and list the expected findings, and count rows."""
    chance = np.random.default_rng([seed, 1])
    planted: list[ExpectedFinding] = []
    rows: dict[str, list[Row]] = {"broker": [], "client": []}
    for number, name in enumerate(name for name, count in kinds.items() for _ in range(count)):
        start_us = int(chance.integers(*span_us))
        played, expected = rows_of(name, number=number, start_us=start_us, shape=shape)
        planted += expected
        rows[KINDS[name].observer] += played
    written = sum(
        _write(folder, run, observer, events, span_us) for observer, events in rows.items() if events
    )
    (folder / LIST).write_text(
        json.dumps([asdict(each) for each in planted], indent=1) + "\n", encoding="utf-8"
    )
    return tuple(planted), written


def numbered(events: Sequence[Row], constant: Row, span_us: tuple[int, int]) -> list[Row]:
    """Return the rows of one recorder for these events: complete, in the order of time, between start and end."""
    order = sorted(events, key=itemgetter("t_wall_us"))
    times = [row["t_wall_us"] for row in order]
    begin: Row = {"kind": "recorder.start", "t_wall_us": min([span_us[0], *times])}
    begin["cfg"] = {"version": str(VERSION)}
    rows = [begin, *order, {"kind": "recorder.end", "t_wall_us": max([span_us[1], *times]) + _SECOND}]
    calls = {row["op_id"]: seq for seq, row in enumerate(rows) if row.get("phase") == "invoke"}

    def whole(seq: int, row: Row) -> Row:
        # The call of a delivery is that of its poll.
        name = row.get("batch" if row["kind"] == "deliver" else "op_id")
        call = calls.get(name) if row.get("phase") != "invoke" else None
        own = {"seq": seq, "t_mono_ns": row["t_wall_us"] * 1000, "invoked_seq": call}
        return dict.fromkeys(arrow_schema().names) | constant | row | own

    return [whole(seq, row) for seq, row in enumerate(rows)]


def _write(folder: Path, run: str, observer: str, events: list[Row], span_us: tuple[int, int]) -> int:
    """Write one recorder of the observer, which recorded all scenarios."""
    name = f"planted-{observer}-{run}"
    constant: Row = {"run_id": run, "case_id": "", "recorder": name, "boot": "planted", "observer": observer}
    rows = numbered(events, constant, span_us)
    table = pa.Table.from_pylist(rows, arrow_schema())
    parquet.write_table(table, folder / f"{name}-00000.parquet", compression="zstd")
    return len(rows)
