"""Files of a recording: rows in, Parquet files out, on one thread of their own (docs/reference/recording.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import parquet

VERSION = "1"
"""Version of the recording contract that is written."""

ROWS_PER_GROUP = 16_384
"""Rows gathered before they are compressed and handed to the file."""

MOST_WAITING = 200_000
"""Rows that may wait for a disk slower than the program; beyond that rows are lost, and their numbers show it."""

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


class RecordingFiles:
    """The files of one recorder. `write` and `finish` return at once; the work is done in order on one thread."""

    def __init__(self, folder: Path, recorder: str, *, rows_per_file: int, seconds_per_file: float) -> None:
        self._folder = folder
        self._recorder = recorder
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._waiting = 0
        self._is_finishing = False
        self._failed: OSError | pa.ArrowException | None = None
        self._gathered: list[Row] = []
        self._writer: parquet.ParquetWriter | None = None
        self._path = folder
        self._files = 0
        self._rows = 0
        self._opened = 0.0

    @property
    def is_full(self) -> bool:
        """So many rows wait that further ones must be left out, or the disk has failed."""
        return self._waiting >= MOST_WAITING or self._failed is not None

    def write(self, facts: Sequence[FactT], row: Callable[[FactT], Row]) -> None:
        """Hand over facts; `row` makes a row of each, on the thread, where digests cost nobody time."""
        self._waiting += len(facts)

        def work() -> None:
            self._waiting -= len(facts)
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
        self._gathered.extend(rows)
        is_old = self._writer is not None and time.monotonic() - self._opened >= self._seconds_per_file
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
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._gathered, SCHEMA))
        self._rows += len(self._gathered)
        self._gathered = []

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"{self._recorder}-{self._files:05}.parquet"
        self._writer = parquet.ParquetWriter(f"{self._path}.open", SCHEMA, compression="zstd")
        self._opened = time.monotonic()
        self._rows = 0

    def _complete(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            Path(f"{self._path}.open").rename(self._path)
            self._files += 1

    def _close(self) -> None:
        self._flush()
        self._complete()
