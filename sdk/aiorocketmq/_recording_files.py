"""Files of a recording: rows in, Parquet files out, on one thread of their own (docs/reference/recording.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import parquet

VERSION = "1"
"""Version of the recording contract that is written."""

ROWS_PER_GROUP = 16_384
"""Rows gathered before they are compressed and handed to the file."""

MOST_WAITING = 200_000
"""Rows that may wait for a disk slower than the program; beyond that rows are lost, and their numbers show it."""

MOST_BYTES_WAITING = 64 << 20
"""Bytes of bodies that may wait with them."""

PLAIN = ("op_id", "message_id", "delivery", "handle", "prev_handle", "receive_attempt", "tx_id", "batch")
"""Columns of names that hardly occur twice: a dictionary of them would only be tried and given up."""

DELTAS = ("seq", "t_wall_us", "t_mono_ns", "invoked_us", "invoked_seq", "offset", "born_us", "store_us")
"""Columns of numbers that grow: their differences take a fraction of the space."""

Row: TypeAlias = Mapping[str, object]
"""Columns that have a value; the others are null."""

FactT = TypeVar("FactT")

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


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as columns. `RecordBatch.from_pylist` looks into every row for every column, which takes twenty times as
    long for rows that have few."""
    cells: dict[str, list[object]] = {}
    for place, row in enumerate(rows):
        for name, value in row.items():
            if value is not None:
                if name not in cells:
                    cells[name] = [None] * len(rows)
                cells[name][place] = value
    columns = [
        pa.array(cells[field.name], field.type) if field.name in cells else pa.nulls(len(rows), field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class RecordingFiles:
    """The files of one recorder. `write` and `finish` return at once; the work is done in order on one thread."""

    def __init__(
        self, filesystem: Any, folder: str, recorder: str, *, rows_per_file: int, seconds_per_file: float
    ) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._recorder = recorder
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._waiting = 0
        self._bytes_waiting = 0
        self._is_finishing = False
        self._failed: OSError | pa.ArrowException | None = None
        self._gathered: list[Row] = []
        self._stream: Any = None
        self._writer: parquet.ParquetWriter | None = None
        self._path = folder
        self._files = 0
        self._rows = 0
        self._began: float | None = None

    @property
    def is_full(self) -> bool:
        """So much waits that further rows must be left out, or the disk has failed."""
        return (
            self._waiting >= MOST_WAITING
            or self._bytes_waiting >= MOST_BYTES_WAITING
            or self._failed is not None
        )

    def write(self, facts: Sequence[FactT], row: Callable[[FactT], Row], *, size: int = 0) -> None:
        """Hand over facts that keep `size` bytes alive; `row` makes a row of each, on the thread, where digests
        cost nobody time. No facts: look whether it is time to complete a file."""
        self._waiting += len(facts)
        self._bytes_waiting += size

        def work() -> None:
            self._waiting -= len(facts)
            self._bytes_waiting -= size
            self._write([row(fact) for fact in facts])

        self._do(work)

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
        except (OSError, pa.ArrowException) as error:
            if self._failed is None:
                logger.error("the recording in %s stops here: %s", self._folder, error)
            self._failed = error

    def _write(self, rows: Sequence[Row]) -> None:
        if rows and self._began is None:
            self._began = time.monotonic()
        self._gathered.extend(rows)
        # The age is that of the first row, not of the file: few rows wait in memory, and must not wait for ever.
        is_old = self._began is not None and time.monotonic() - self._began >= self._seconds_per_file
        if len(self._gathered) >= ROWS_PER_GROUP or is_old:
            self._flush()
        if self._rows >= self._rows_per_file or is_old:
            self._complete()

    def _flush(self) -> None:
        if not self._gathered or self._failed is not None:
            return
        if self._writer is None:
            self._open()
        assert self._writer is not None
        self._writer.write_batch(batch_of(self._gathered))
        self._rows += len(self._gathered)
        self._gathered = []

    def _open(self) -> None:
        self._filesystem.create_dir(self._folder, recursive=True)
        self._path = f"{self._folder}/{self._recorder}-{self._files:05}.parquet"
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
