"""The thread on which a recorder's facts are written down, and the move to a process of its own once there are many."""

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

from aiorocketmq._recording.facts import ACKED, ACKING, DELIVERED, Fact, packed
from aiorocketmq._recording.files import Destination
from aiorocketmq._recording.place import is_shared
from aiorocketmq._recording.scribe import Scribe

if TYPE_CHECKING:
    from aiorocketmq._recording.process import ScribeProcess

BUSY = 4_096
"""Rows within `BUSY_SECONDS` from which on a process of its own is worth its start, half a second of a core."""

BUSY_SECONDS = 4.0

logger = logging.getLogger(__name__)

_WITH_MANY = frozenset({DELIVERED, ACKING, ACKED})


class Pace:
    """Whether many rows come; `now` in seconds of any clock that never goes back."""

    def __init__(self) -> None:
        self._since = 0.0
        self._rows = 0

    def is_busy(self, rows: int, now: float) -> bool:
        """Whether they are many, with these."""
        if now - self._since > BUSY_SECONDS:
            self._since, self._rows = now, 0
        self._rows += rows
        return self._rows >= BUSY


class Writer:
    """Writes facts down. `write` and `finish` return at once; the work is done in order on one thread.

    With `may_move`, a process of its own goes on with it once there is much to write."""

    def __init__(self, destination: Destination, *, may_move: bool) -> None:
        self._folder = destination.folder
        self._scribe: Scribe | None = Scribe(destination)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._may_move = may_move and can_move(destination)
        self._pace = Pace()
        self._process: ScribeProcess | None = None
        """None until it is started; it has begun when the scribe is None."""
        self._is_finishing = False
        self._failed: Exception | None = None

    @property
    def has_failed(self) -> bool:
        """Nothing can be written any more."""
        return self._failed is not None

    @property
    def is_elsewhere(self) -> bool:
        """Whether another process writes, to which facts go packed."""
        return self._scribe is None

    def write(self, due: Callable[[], tuple[Sequence[bytes], Sequence[Fact]]]) -> None:
        """Write down what `due` gives, on the thread, and look whether it is time to complete a file: blocks of facts
        that are packed, where another process writes, and facts that follow them."""
        self._do(lambda: self._write(*due()))

    def fail(self, error: Exception) -> None:
        """Stop here, because of a fact that cannot be written down."""
        self._do(partial(_raise, error))

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

    def _write(self, blocks: Sequence[bytes], facts: Sequence[Fact]) -> None:
        if self._failed is not None:
            return
        if self._scribe is None:
            assert self._process is not None
            for block in blocks:
                self._process.send(block)
            if facts or not blocks:
                self._process.send(packed(facts))
            return
        self._scribe.take(facts)
        if self._may_move:
            try:
                self._move(self._scribe, facts)
            except (OSError, ImportError, TypeError, PicklingError) as error:
                logger.info("the recording in %s stays in this process: %s", self._folder, error)
                self._may_move = False

    def _move(self, scribe: Scribe, facts: Sequence[Fact]) -> None:
        """Start a process where it is worth it, and let it go on from here when it is ready."""
        if self._process is None:
            if self._pace.is_busy(rows_of(facts), time.monotonic()):
                self._process = importlib.import_module("aiorocketmq._recording.process").ScribeProcess()
        elif self._process.is_ready():
            self._process.send(scribe.successor())
            self._scribe = None

    def _close(self) -> None:
        if self._scribe is not None:
            if self._process is not None:
                self._process.abandon()
            (self._scribe.close if self._failed is None else self._scribe.stop)()
        elif self._process is not None:
            self._process.close()


def _raise(error: Exception) -> None:
    raise error


def rows_of(facts: Sequence[Fact]) -> int:
    """How many rows, about, come of facts."""
    return sum([len(fact[-1]) if fact[0] in _WITH_MANY else 1 for fact in facts])


def can_move(destination: Destination) -> bool:
    """Whether another process can write there, and one can be started."""
    is_plain = os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)
    return is_plain and is_shared(destination.filesystem)
