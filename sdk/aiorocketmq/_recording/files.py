"""Files of a recording: rows in, Parquet files out (docs/reference/recording.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from aiorocketmq._recording.rows import PLACED, Cells, Shape, Sheet

VERSION = "1"
"""Version of the recording contract that is written."""

ROWS_PER_GROUP = 16_384
"""Rows that are collected before they are compressed and written to the file."""

PLAIN = ("op_id", "message_id", "delivery", "handle", "prev_handle", "receive_attempt", "tx_id", "batch")
"""Columns whose values hardly ever repeat: dictionaries of them would be built in vain."""

DELTAS = ("seq", "t_wall_us", "t_mono_ns", "invoked_us", "invoked_seq", "offset", "born_us", "store_us")
"""Columns of growing numbers: differences take a fraction of the space."""

_QUEUES = pa.list_(pa.struct([("broker", pa.string()), ("queue", pa.int32())]))
_REQUIRED = ("run_id", "case_id", "observer", "recorder", "seq", "boot", "kind", "t_wall_us", "t_mono_ns")
_TYPES: dict[str, pa.DataType] = {
    "run_id": pa.string(),
    "case_id": pa.string(),
    "observer": pa.string(),
    "recorder": pa.string(),
    "seq": pa.int64(),
    "boot": pa.string(),
    "kind": pa.string(),
    "phase": pa.string(),
    "op_id": pa.string(),
    "t_wall_us": pa.int64(),
    "t_mono_ns": pa.int64(),
    "t_real_us": pa.int64(),
    "invoked_us": pa.int64(),
    "invoked_seq": pa.int64(),
    "client_id": pa.string(),
    "epoch": pa.int32(),
    "role": pa.string(),
    "group": pa.string(),
    "topic": pa.string(),
    "lite_topic": pa.string(),
    "broker": pa.string(),
    "queue": pa.int32(),
    "offset": pa.int64(),
    "message_id": pa.string(),
    "message_group": pa.string(),
    "tag": pa.string(),
    "priority": pa.int32(),
    "body_sha": pa.string(),
    "props_sha": pa.string(),
    "producer": pa.string(),
    "pseq": pa.int64(),
    "attempt": pa.int32(),
    "delivery": pa.string(),
    "handle": pa.string(),
    "prev_handle": pa.string(),
    "batch": pa.string(),
    "batch_pos": pa.int32(),
    "receive_attempt": pa.string(),
    "filter": pa.string(),
    "invisible_ms": pa.int64(),
    "auto_renew": pa.bool_(),
    "reason": pa.string(),
    "due_us": pa.int64(),
    "born_us": pa.int64(),
    "store_us": pa.int64(),
    "server_deliver_us": pa.int64(),
    "tx_id": pa.string(),
    "resolution": pa.string(),
    "source": pa.string(),
    "code": pa.int32(),
    "result": pa.string(),
    "generation": pa.int64(),
    "queues": _QUEUES,
    "commit_offset": pa.int64(),
    "cfg": pa.map_(pa.string(), pa.string()),
    "fault": pa.map_(pa.string(), pa.string()),
}
SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name not in _REQUIRED) for name, kind in _TYPES.items()],
    metadata={"aiorocketmq.recording.version": VERSION},
)

ENCODING = {
    "compression": "zstd",
    # Rows are numbered in order of arrival: within a recorder that is the order of time, by which readers skip groups.
    "sorting_columns": [parquet.SortingColumn(SCHEMA.get_field_index("seq"))],
    "use_dictionary": [name for name in SCHEMA.names if name not in (*PLAIN, *DELTAS)],
    "column_encoding": dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
}
"""How files are written."""


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
        name: pa.array(cells, _TYPES[name])
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


class RecordingFiles:
    """Writes sheets into the files of a destination, numbered from `first`."""

    def __init__(self, destination: Destination, *, first: int = 0) -> None:
        self._destination = destination
        self.sheet = Sheet()
        """Rows that wait for a full row group; `look` writes them in time."""
        self.count = first
        """Files that are complete."""
        self._stream: Any = None
        self._writer: parquet.ParquetWriter | None = None
        self._path = ""
        self._rows = 0
        self._began: float | None = None

    def look(self) -> None:
        """Write a full row group, and complete the file if it is large or old enough."""
        waiting = self.sheet.count
        if waiting and self._began is None:
            self._began = time.monotonic()
        # The age is that of the first row, not of the file: few rows wait in memory, but not forever.
        is_old = (
            self._began is not None and time.monotonic() - self._began >= self._destination.seconds_per_file
        )
        if waiting >= ROWS_PER_GROUP or is_old:
            self._flush()
        if self._rows >= self._destination.rows_per_file or is_old:
            self._complete()

    def close(self) -> None:
        """Write the remaining rows, and complete the last file."""
        self._flush()
        self._complete()

    def stop(self) -> None:
        """Complete the last file without the remaining rows."""
        self._complete()

    def _flush(self) -> None:
        sheet, self.sheet = self.sheet, Sheet()
        if not sheet.count:
            return
        if self._writer is None:
            self._open()
        assert self._writer is not None
        self._writer.write_batch(batch_of(sheet, self._destination.constant))
        self._rows += sheet.count

    def _open(self) -> None:
        destination = self._destination
        destination.filesystem.create_dir(destination.folder, recursive=True)
        self._path = f"{destination.folder}/{destination.constant['recorder']}-{self.count:05}.parquet"
        self._stream = destination.filesystem.open_output_stream(f"{self._path}.open")
        self._writer = parquet.ParquetWriter(self._stream, SCHEMA, **ENCODING)
        self._rows = 0

    def _complete(self) -> None:
        self._began = None
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._writer = self._stream = None
            self._destination.filesystem.move(f"{self._path}.open", self._path)
            self.count += 1
            self._rows = 0
