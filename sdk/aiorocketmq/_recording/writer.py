"""Thread that writes a recorder's records, and the move to a process of its own under load."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pickle import PicklingError
from typing import TYPE_CHECKING

from aiorocketmq._recording.columns import Destination
from aiorocketmq._recording.filesystems import is_shared
from aiorocketmq._recording.pipeline import Pipeline
from aiorocketmq._recording.records import ACKED, ACKING, DELIVERED, Record, packed

if TYPE_CHECKING:
    from aiorocketmq._recording.process import WriterProcess

BUSY = 4_096
"""Rows within `BUSY_SECONDS` from which a process of its own pays off, which costs half a second of a core."""

BUSY_SECONDS = 4.0

logger = logging.getLogger("aiorocketmq.recording")

_WITH_MANY = frozenset({DELIVERED, ACKING, ACKED})


class Pace:
    """Measures the rate of rows; `now` in seconds of any clock that never decreases."""

    def __init__(self) -> None:
        self._since = 0.0
        self._rows = 0

    def is_busy(self, rows: int, now: float) -> bool:
        """Whether the rate is high, with these rows."""
        if now - self._since > BUSY_SECONDS:
            self._since, self._rows = now, 0
        self._rows += rows
        return self._rows >= BUSY


class Writer:
    """Writes records. `write` and `finish` return at once; the work is done in order on one thread.

    With `may_move`, a process of its own continues once the rate is high."""

    def __init__(self, destination: Destination, *, may_move: bool) -> None:
        self._folder = destination.folder
        self._pipeline: Pipeline | None = Pipeline(destination)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._may_move = may_move and can_move(destination)
        self._pace = Pace()
        self._process: WriterProcess | None = None
        """None until it is started; it has taken over when the pipeline is None."""
        self._is_finishing = False
        self._failed: Exception | None = None

    @property
    def has_failed(self) -> bool:
        """Whether an error has ended the recording."""
        return self._failed is not None

    @property
    def is_elsewhere(self) -> bool:
        """Whether another process writes, which gets packed records."""
        return self._pipeline is None

    def write(self, due: Callable[[], tuple[Sequence[bytes], Sequence[Record]]]) -> None:
        """Write what `due` returns, on the thread, and check the age of the file: packed blocks for another process,
        and then records."""
        self._do(lambda: self._write(*due()))

    def fail(self, error: Exception) -> None:
        """End the recording, because a record could not be written."""
        self._do(partial(_raise, error))

    def finish(self, *, wait: bool) -> None:
        """Complete the last file; with `wait`, return when that is done, and raise an error of the disk."""
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
            # The interpreter is shutting down and has joined the thread: the rest is done here.
            self._guarded(work)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # Whatever the error, rows are missing now: later rows must not look complete.
            if self._failed is None:
                logger.error("the recording in %s ends with an error: %s", self._folder, error)
                self._failed = error

    def _write(self, blocks: Sequence[bytes], records: Sequence[Record]) -> None:
        if self._failed is not None:
            return
        if self._pipeline is None:
            assert self._process is not None
            for block in blocks:
                self._process.send(block)
            if records or not blocks:
                self._process.send(packed(records))
            return
        self._pipeline.take(records)
        if self._may_move:
            try:
                self._move(self._pipeline, records)
            except (OSError, ImportError, TypeError, PicklingError) as error:
                logger.info("the recording in %s stays in this process: %s", self._folder, error)
                self._may_move = False

    def _move(self, pipeline: Pipeline, records: Sequence[Record]) -> None:
        """Start a process if it pays off, and let it continue when it is ready."""
        if self._process is None:
            if self._pace.is_busy(rows_of(records), time.monotonic()):
                self._process = importlib.import_module("aiorocketmq._recording.process").WriterProcess()
        elif self._process.is_ready():
            self._process.send(pipeline.successor())
            self._pipeline = None

    def _close(self) -> None:
        if self._pipeline is not None:
            if self._process is not None:
                self._process.abandon()
            (self._pipeline.close if self._failed is None else self._pipeline.stop)()
        elif self._process is not None:
            self._process.close()


def _raise(error: Exception) -> None:
    raise error


def rows_of(records: Sequence[Record]) -> int:
    """The approximate number of rows of records."""
    return sum([len(record[-1]) if record[0] in _WITH_MANY else 1 for record in records])


def can_move(destination: Destination) -> bool:
    """Whether another process can be started, and can write there."""
    is_plain = os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)
    return is_plain and is_shared(destination.filesystem)
