"""Columns of a recording: rows as Arrow record batches (docs/reference/recording.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aiorocketmq._recording.rows import PLACED, Cells, Shape, Sheet
from aiorocketmq.recording_format import arrow_schema

SCHEMA = arrow_schema()


def batch_of(sheet: Sheet, constant: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows as columns, in the order of their numbers; `constant` columns have one value for all rows."""
    messages = _columns(PLACED, sheet.messages)
    parts = [_part(shape, some, constant, messages) for shape, some in sheet.rows.items() if some]
    if len(parts) == 1:
        return parts[0]
    whole = pa.Table.from_batches(parts).combine_chunks()
    (batch,) = whole.take(pc.sort_indices(whole["seq"])).to_batches()
    return batch


def _part(
    shape: Shape, rows: Sequence[Cells], constant: Mapping[str, str], messages: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """Return rows of one shape as columns. `RecordBatch.from_pylist` would examine every row for every column."""
    cells = dict(zip(shape.columns, zip(*rows, strict=True), strict=True))
    count = len(rows)
    places = pa.array(cells["message"], pa.int32()) if shape.placed else None
    columns = []
    for field in SCHEMA:
        name = field.name
        if name in constant:
            columns.append(pa.repeat(pa.scalar(constant[name], field.type), count))
        elif name in cells:
            columns.append(pa.array(cells[name], field.type))
        elif name in shape.placed:
            columns.append(messages[name].take(places))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _columns(names: Sequence[str], rows: Sequence[Cells]) -> dict[str, pa.Array]:
    if not rows:
        return {}
    return {
        name: pa.array(cells, SCHEMA.field(name).type)
        for name, cells in zip(names, zip(*rows, strict=True), strict=True)
    }


@dataclass(frozen=True, slots=True)
class Destination:
    """What the files of one recorder have in common. Can be pickled if its file system can."""

    filesystem: Any
    folder: str
    constant: Mapping[str, str]
    """Columns with the same value in all rows; `recorder` is one of them."""
    rows_per_file: int
    seconds_per_file: float
