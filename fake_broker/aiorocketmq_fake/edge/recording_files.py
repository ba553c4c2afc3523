"""Files of a recording: rows in, Parquet files out, on one thread of their own (docs/reference/recording.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
from aiorocketmq.recording_format import FileSeries, arrow_schema
from pyarrow import fs

__all__ = ["Row", "SeriesFiles"]

logger = logging.getLogger("aiorocketmq_fake.recording")

ItemT = TypeVar("ItemT")

Row: TypeAlias = Mapping[str, object]
"""Columns that have a value; the others are null."""

# Rows that may wait for a slow disk; beyond that rows are dropped, which shows as gaps in their numbers.
MOST_WAITING = 200_000

SCHEMA = arrow_schema()


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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._waiting = 0
        self._failed: OSError | pa.ArrowException | None = None
        self._rows: list[Row] = []
        self._files = FileSeries(
            fs.LocalFileSystem(),
            str(folder.absolute()),
            recorder,
            rows_per_file=rows_per_file,
            seconds_per_file=seconds_per_file,
        )

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
            if self._failed is None:
                self._files.look(len(self._rows), self._batch)

        self._thread.submit(self._guarded, work)

    def finish(self) -> None:
        """Complete the last file and wait for it; raise the error of the disk, if any."""

        def work() -> None:
            if self._rows and self._failed is None:
                self._files.write(self._batch())
            self._files.complete()

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

    def _batch(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, []
        return batch_of(rows)
