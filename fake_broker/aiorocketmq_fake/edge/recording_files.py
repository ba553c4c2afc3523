"""Files of a recording: rows in, Parquet files out, on one thread of their own (docs/reference/recording.md).

The client has its own writer: two implementations of the contract, so that an audit of both detects a bug in either.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import parquet

__all__ = ["Row", "SeriesFiles"]

logger = logging.getLogger(__name__)

ItemT = TypeVar("ItemT")

Row: TypeAlias = Mapping[str, object]
"""Columns that have a value; the others are null."""

VERSION = "1"
ROWS_PER_GROUP = 16_384
# Rows that may wait for a slow disk; beyond that rows are dropped, which shows as gaps in their numbers.
MOST_WAITING = 200_000

_TEXT = pa.string()
SCHEMA = pa.schema(
    [
        pa.field("run_id", _TEXT, nullable=False),
        pa.field("case_id", _TEXT, nullable=False),
        pa.field("observer", _TEXT, nullable=False),
        pa.field("recorder", _TEXT, nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("boot", _TEXT, nullable=False),
        pa.field("kind", _TEXT, nullable=False),
        pa.field("phase", _TEXT),
        pa.field("op_id", _TEXT),
        pa.field("t_wall_us", pa.int64(), nullable=False),
        pa.field("t_mono_ns", pa.int64(), nullable=False),
        pa.field("t_real_us", pa.int64()),
        pa.field("invoked_us", pa.int64()),
        pa.field("invoked_seq", pa.int64()),
        pa.field("client_id", _TEXT),
        pa.field("role", _TEXT),
        pa.field("group", _TEXT),
        pa.field("topic", _TEXT),
        pa.field("lite_topic", _TEXT),
        pa.field("broker", _TEXT),
        pa.field("queue", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("message_id", _TEXT),
        pa.field("message_group", _TEXT),
        pa.field("tag", _TEXT),
        pa.field("priority", pa.int32()),
        pa.field("body_sha", _TEXT),
        pa.field("props_sha", _TEXT),
        pa.field("producer", _TEXT),
        pa.field("pseq", pa.int64()),
        pa.field("attempt", pa.int32()),
        pa.field("delivery", _TEXT),
        pa.field("handle", _TEXT),
        pa.field("prev_handle", _TEXT),
        pa.field("batch", _TEXT),
        pa.field("batch_pos", pa.int32()),
        pa.field("receive_attempt", _TEXT),
        pa.field("filter", _TEXT),
        pa.field("invisible_ms", pa.int64()),
        pa.field("auto_renew", pa.bool_()),
        pa.field("reason", _TEXT),
        pa.field("due_us", pa.int64()),
        pa.field("born_us", pa.int64()),
        pa.field("store_us", pa.int64()),
        pa.field("tx_id", _TEXT),
        pa.field("resolution", _TEXT),
        pa.field("source", _TEXT),
        pa.field("code", pa.int32()),
        pa.field("commit_offset", pa.int64()),
        pa.field("cfg", pa.map_(_TEXT, _TEXT)),
    ],
    metadata={"aiorocketmq.recording.version": VERSION},
)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as columns.

    `RecordBatch.from_pylist` reads every row for every column, which takes twenty times as long for sparse rows.
    """
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


class SeriesFiles:
    """The files of one recorder. `write` and `finish` return at once; the work is done in order on one thread."""

    def __init__(self, folder: Path, recorder: str, *, rows_per_file: int, seconds_per_file: float) -> None:
        self._folder = folder
        self._recorder = recorder
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._waiting = 0
        self._failed: OSError | pa.ArrowException | None = None
        self._rows: list[Row] = []
        self._file: _OpenFile | None = None
        self._began: float | None = None
        self._files = 0

    @property
    def is_full(self) -> bool:
        """Whether further rows are dropped: too many wait, or the disk has failed."""
        return self._waiting >= MOST_WAITING or self._failed is not None

    def write(self, items: Sequence[ItemT], rows: Callable[[ItemT], Row]) -> None:
        """Enqueue events; `rows` converts each to a row, on the thread."""
        self._waiting += len(items)

        def work() -> None:
            self._waiting -= len(items)
            self._rows.extend(rows(item) for item in items)
            if self._rows and self._began is None:
                self._began = time.monotonic()
            # The age is that of the first row, not of the file: a few rows must not stay in memory for ever.
            is_old = self._began is not None and time.monotonic() - self._began >= self._seconds_per_file
            if len(self._rows) >= ROWS_PER_GROUP or is_old:
                self._flush()
            if is_old or (self._file is not None and self._file.rows >= self._rows_per_file):
                self._complete()

        self._thread.submit(self._guarded, work)

    def finish(self) -> None:
        """Complete the last file and wait for it; raise the error of the disk, if any."""

        def work() -> None:
            self._flush()
            self._complete()

        self._thread.submit(self._guarded, work)
        self._thread.shutdown()
        if self._failed is not None:
            raise self._failed

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, pa.ArrowException) as error:
            if self._failed is None:
                logger.error("recording in %s stopped: %s", self._folder, error)
            self._failed = error

    def _flush(self) -> None:
        if not self._rows or self._failed is not None:
            return
        if self._file is None:
            self._file = _OpenFile(self._folder / f"{self._recorder}-{self._files:05}.parquet")
            self._files += 1
        self._file.append(self._rows)
        self._rows = []

    def _complete(self) -> None:
        self._began = None
        if self._file is not None:
            self._file.complete()
            self._file = None


class _OpenFile:
    """A file that gets its final name when it is complete."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.open")
        self._writer = parquet.ParquetWriter(self._unfinished, SCHEMA, compression="zstd")
        self.rows = 0

    def append(self, rows: list[Row]) -> None:
        self._writer.write_batch(batch_of(rows))
        self.rows += len(rows)

    def complete(self) -> None:
        self._writer.close()
        self._unfinished.rename(self._path)
