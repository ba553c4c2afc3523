"""Files of a recording: rows in, Parquet files out, on one thread of their own (docs/reference/recording.md)."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from aiorocketmq._recording_account import Rows
from aiorocketmq._recording_rows import Cells, Shape

VERSION = "1"
"""Version of the recording contract that is written."""

ROWS_PER_GROUP = 16_384
"""Rows gathered before they are compressed and handed to the file."""

PLAIN = ("op_id", "message_id", "delivery", "handle", "prev_handle", "receive_attempt", "tx_id", "batch")
"""Columns of names that hardly occur twice: a dictionary of them would only be tried and given up."""

DELTAS = ("seq", "t_wall_us", "t_mono_ns", "invoked_us", "invoked_seq", "offset", "born_us", "store_us")
"""Columns of numbers that grow: their differences take a fraction of the space."""

logger = logging.getLogger(__name__)

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
}
SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name not in _REQUIRED) for name, kind in _TYPES.items()],
    metadata={"aiorocketmq.recording.version": VERSION},
)

ENCODING = {
    "compression": "zstd",
    # Rows are numbered as they come: within a recorder that is the order of time, by which readers skip groups.
    "sorting_columns": [parquet.SortingColumn(SCHEMA.get_field_index("seq"))],
    "use_dictionary": [name for name in SCHEMA.names if name not in (*PLAIN, *DELTAS)],
    "column_encoding": dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
}
"""How files are written."""


def batch_of(rows: Rows, constant: Mapping[str, str]) -> pa.RecordBatch:
    """Rows as columns, in the order of their numbers; `constant` stands in all of them."""
    parts = [_part(shape, some, constant) for shape, some in rows.items()]
    if len(parts) == 1:
        return parts[0]
    whole = pa.Table.from_batches(parts).combine_chunks()
    (batch,) = whole.take(pc.sort_indices(whole["seq"])).to_batches()
    return batch


def _part(shape: Shape, rows: Sequence[Cells], constant: Mapping[str, str]) -> pa.RecordBatch:
    """Rows of one shape as columns. `RecordBatch.from_pylist` looks into every row for every column instead."""
    cells = dict(zip(shape.columns, zip(*rows, strict=True), strict=True))
    count = len(rows)
    columns = []
    for field in SCHEMA:
        if field.name in constant:
            columns.append(pa.repeat(pa.scalar(constant[field.name], field.type), count))
        elif field.name in cells:
            columns.append(pa.array(cells[field.name], field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class RecordingFiles:
    """The files of one recorder. `write` and `finish` return at once; the work is done in order on one thread."""

    def __init__(
        self,
        filesystem: Any,
        folder: str,
        constant: Mapping[str, str],
        *,
        rows_per_file: int,
        seconds_per_file: float,
    ) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._constant = constant
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._is_finishing = False
        self._failed: Exception | None = None
        self._gathered: Rows = defaultdict(list)
        self._waiting = 0
        self._stream: Any = None
        self._writer: parquet.ParquetWriter | None = None
        self._path = folder
        self._files = 0
        self._rows = 0
        self._began: float | None = None

    @property
    def has_failed(self) -> bool:
        """Nothing can be written any more."""
        return self._failed is not None

    def write(self, rows: Callable[[], Rows]) -> None:
        """Write what `rows` makes, on the thread, and look whether it is time to complete a file."""
        self._do(lambda: self._write(rows()))

    def finish(self, *, wait: bool) -> None:
        """Complete the last file; with `wait`, return when that is done, and raise what went wrong with the disk."""
        if not self._is_finishing:
            self._is_finishing = True
            self._do(self._close)
        self._thread.shutdown(wait=wait)
        if wait and self._failed is not None:
            raise self._failed

    def _do(self, work: Callable[[], None]) -> None:
        try:
            self._thread.submit(self._guarded, work)
        except RuntimeError:
            # The interpreter is going down and has joined the thread: what is left is done here.
            self._guarded(work)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Whatever it was, rows are missing now: what was to follow must not look as if it were all.
            if self._failed is None:
                logger.error("the recording in %s stops here: %s", self._folder, error)
            self._failed = error

    def _write(self, rows: Rows) -> None:
        if rows and self._began is None:
            self._began = time.monotonic()
        for shape, some in rows.items():
            self._gathered[shape] += some
            self._waiting += len(some)
        # The age is that of the first row, not of the file: few rows wait in memory, and must not wait for ever.
        is_old = self._began is not None and time.monotonic() - self._began >= self._seconds_per_file
        if self._waiting >= ROWS_PER_GROUP or is_old:
            self._flush()
        if self._rows >= self._rows_per_file or is_old:
            self._complete()

    def _flush(self) -> None:
        if not self._gathered or self._failed is not None:
            return
        if self._writer is None:
            self._open()
        assert self._writer is not None
        self._writer.write_batch(batch_of(self._gathered, self._constant))
        self._rows += self._waiting
        self._waiting = 0
        self._gathered = defaultdict(list)

    def _open(self) -> None:
        self._filesystem.create_dir(self._folder, recursive=True)
        self._path = f"{self._folder}/{self._constant['recorder']}-{self._files:05}.parquet"
        self._stream = self._filesystem.open_output_stream(f"{self._path}.open")
        self._writer = parquet.ParquetWriter(self._stream, SCHEMA, **ENCODING)
        self._rows = 0

    def _complete(self) -> None:
        self._began = None
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._writer = self._stream = None
            self._filesystem.move(f"{self._path}.open", self._path)
            self._files += 1
            self._rows = 0

    def _close(self) -> None:
        self._flush()
        self._complete()
