"""Pipeline of one recorder: records become rows, rows become files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from aiorocketmq._recording.files import Destination, RecordingFiles
from aiorocketmq._recording.records import Record
from aiorocketmq._recording.row_builder import RowBuilder


class Pipeline:
    """Builds rows and writes files in the calling thread."""

    def __init__(
        self, destination: Destination, builder: RowBuilder | None = None, *, first: int = 0
    ) -> None:
        self._destination = destination
        self._builder = RowBuilder() if builder is None else builder
        self._files = RecordingFiles(destination, first=first)

    def take(self, records: Sequence[Record]) -> None:
        """Write the next records, in order; without any, check the age of the file."""
        self._builder.take(records, self._files.sheet)
        self._files.look()

    def close(self) -> None:
        """Complete the last file."""
        self._files.close()

    def stop(self) -> None:
        """Complete the last file without the remaining rows, after an error."""
        self._files.stop()

    def successor(self) -> bytes:
        """Complete the current file, and pickle the state for another process; raises what pickling does."""
        self._files.close()
        return pickle.dumps((self._destination, self._builder, self._files.count))

    @classmethod
    def unpacked(cls, packed: bytes) -> Pipeline:
        """Return the pipeline that continues from `packed`."""
        destination, builder, first = pickle.loads(packed)
        return cls(destination, builder, first=first)
