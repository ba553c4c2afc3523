"""Pipeline of one recorder: records become rows, rows become files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa

from aiorocketmq._recording.columns import Destination, batch_of
from aiorocketmq._recording.records import Record
from aiorocketmq._recording.row_builder import RowBuilder
from aiorocketmq._recording.rows import Sheet
from aiorocketmq.recording_format import FileSeries


class Pipeline:
    """Builds rows and writes files in the calling thread."""

    def __init__(
        self, destination: Destination, builder: RowBuilder | None = None, *, first: int = 0
    ) -> None:
        self._destination = destination
        self._builder = RowBuilder() if builder is None else builder
        self._sheet = Sheet()
        """Rows that wait for a full row group."""
        self._files = FileSeries(
            destination.filesystem,
            destination.folder,
            destination.constant["recorder"],
            rows_per_file=destination.rows_per_file,
            seconds_per_file=destination.seconds_per_file,
            first=first,
        )

    def take(self, records: Sequence[Record]) -> None:
        """Write the next records, in order; without any, check the age of the file."""
        self._builder.take(records, self._sheet)
        self._files.look(self._sheet.count, self._batch)

    def close(self) -> None:
        """Write the remaining rows, and complete the last file."""
        if self._sheet.count:
            self._files.write(self._batch())
        self._files.complete()

    def stop(self) -> None:
        """Complete the last file without the remaining rows, after an error."""
        self._files.complete()

    def successor(self) -> bytes:
        """Complete the current file, and pickle the state for another process; raises what pickling does."""
        self.close()
        return pickle.dumps((self._destination, self._builder, self._files.count))

    @classmethod
    def unpacked(cls, packed: bytes) -> Pipeline:
        """Return the pipeline that continues from `packed`."""
        destination, builder, first = pickle.loads(packed)
        return cls(destination, builder, first=first)

    def _batch(self) -> pa.RecordBatch:
        sheet, self._sheet = self._sheet, Sheet()
        return batch_of(sheet, self._destination.constant)
