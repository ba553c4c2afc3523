"""The hook that records what clients did and saw, for the audits (docs/reference/recording.md).

    async with Producer("localhost:8081", hooks=[Recorder("runs/")]) as producer: ...

One Recorder may serve many clients. A recording begins with the first event of any of them and is complete
when the last of them has stopped; `close()` waits until it is on the disk.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aiorocketmq._recording_account import Account, Begin, End, Fact, LeftOut, Rows, has_stopped
from aiorocketmq.errors import UsageError
from aiorocketmq.hooks import ClientEvent, DeliverEvent, Event, Hook, SendEvent

if TYPE_CHECKING:
    from aiorocketmq._recording_files import RecordingFiles

FACTS_PER_BLOCK = 512
BYTES_PER_BLOCK = 4 << 20
"""Facts keep the bodies of their messages alive until they are written: they are handed over by count or by size."""

TICKS = 10
"""How many times in the life of a file it is looked whether that has ended, where no fact comes that would tell."""

MOST_WAITING = 200_000
"""Facts that may wait for a disk slower than the program; beyond that some are left out, and the gap is told."""

MOST_BYTES_WAITING = 64 << 20
"""Bytes of bodies that may wait with them."""


class Recorder(Hook):
    """Writes every fact of its clients to Parquet files in `folder`.

    `folder` is a path, or an address such as `s3://bucket/runs` that pyarrow or fsspec knows; `filesystem`, an object
    of either, is asked for the path instead. Files bear their final names when they are complete.

    `run_id` names the run (default: the folder's name); recorders of one run, in whatever process, must agree on
    it. `clock` returns Unix seconds and replaces the machine's clock; give it the fake broker's when that one is
    moved by hand. A file is completed after `rows_per_file` rows or `seconds_per_file` seconds: a process that dies
    loses what came after the last completed one, and the audit will know.

    Recording costs the event loop about a microsecond a fact; all else happens on threads. When the disk is too slow,
    facts are left out and the gap is visible; never more than 200,000 facts or 64 MiB of bodies wait. Raises UsageError
    when pyarrow is missing, or nothing knows the address."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        case_id: str = "",
        clock: Callable[[], float] | None = None,
        rows_per_file: int = 100_000,
        seconds_per_file: float = 60.0,
        filesystem: object | None = None,
    ) -> None:
        if rows_per_file < 1 or not seconds_per_file > 0:
            raise ValueError("rows_per_file and seconds_per_file must be positive")
        self._files_type = _files_type()
        from aiorocketmq._recording_place import name_of, place

        self._place = place(folder, filesystem)
        self.folder = Path(folder)
        self.run_id = name_of(folder) if run_id is None else run_id
        self.case_id = case_id
        self._clock = clock
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._series: _Series | None = None
        self._ended: list[RecordingFiles] = []

    def observe(self, event: Event) -> None:
        """Note one fact. Called by the clients, on their event loop."""
        if self._series is None:
            if type(event) is ClientEvent and not event.running:
                return
            self._series = self._begin()
        self._series.note(event)
        if not self._series.clients:
            self._end()

    def close(self) -> None:
        """Complete the recording and wait for the disk; OSError when it could not be written. May be called twice.

        Blocks for the time of the last write: call it after the clients have stopped, or in a thread."""
        self._end()
        with ExitStack() as every_one:
            for files in self._ended:
                every_one.callback(files.finish, wait=True)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> _Series:
        boot = secrets.token_hex(4)
        name = f"client-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}-{boot}"
        constant = {"run_id": self.run_id, "case_id": self.case_id, "observer": "client"}
        constant |= {"recorder": name, "boot": boot}
        files = self._files_type(
            *self._place, constant, rows_per_file=self._rows_per_file, seconds_per_file=self._seconds_per_file
        )
        # A program that ends without stopping its clients still leaves a complete recording.
        atexit.register(self.close)
        return _Series(files, self._clock, tick=self._seconds_per_file / TICKS)

    def _end(self) -> None:
        series, self._series = self._series, None
        if series is not None:
            atexit.unregister(self.close)
            series.end()
            self._ended.append(series.files)


class _Series:
    """One recorder in the sense of the contract: stamps facts, and hands them to the thread that writes them."""

    def __init__(self, files: RecordingFiles, clock: Callable[[], float] | None, *, tick: float) -> None:
        self.files = files
        self.clients: set[str] = set()
        """Clients that have not stopped."""
        self._clock = clock
        self._account = Account()
        # The event loop adds on one side, the thread takes from the other; neither needs a lock for that.
        self._facts: deque[Fact] = deque()
        self._added = 0
        self._bytes_added = self._bytes_handed_over = self._bytes_taken = 0
        self._left_out = 0
        self._ending = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._look, args=(tick,), name="recording-clock", daemon=True).start()
        cfg = {"version": "1", "writer": f"aiorocketmq {version('aiorocketmq')}"}
        cfg["clock"] = "real" if clock is None else "manual"
        self._add(Begin(cfg))

    def note(self, event: Event) -> None:
        """Take down one event."""
        self.clients.add(event.client.client_id)
        self._add(event)
        if type(event) is ClientEvent and has_stopped(event):
            self.clients.remove(event.client.client_id)

    def end(self) -> None:
        """Write the last row and let the files be completed."""
        with self._ending:
            self._ended.set()
            self._put(End())
            self._hand_over()
            self.files.finish(wait=False)

    def _look(self, tick: float) -> None:
        """Hand over what has come, however little it is, so that a quiet program's files are completed in time."""
        while not self._ended.wait(tick):
            with self._ending:
                if not self._ended.is_set():
                    self.files.write(self._rows)

    def _add(self, what: Event | Begin) -> None:
        waiting = self._bytes_added - self._bytes_taken
        if len(self._facts) >= MOST_WAITING or waiting >= MOST_BYTES_WAITING or self.files.has_failed:
            self._left_out += 1
            return
        self._put(what)
        self._bytes_added += _body_size(what)
        if self._added >= FACTS_PER_BLOCK or self._bytes_added - self._bytes_handed_over >= BYTES_PER_BLOCK:
            self._hand_over()

    def _put(self, what: Event | Begin | End) -> None:
        if self._left_out:
            self._facts.append(self._stamped(LeftOut(self._left_out)))
            self._added += 1
            self._left_out = 0
        self._facts.append(self._stamped(what))
        self._added += 1

    def _stamped(self, what: Event | Begin | LeftOut | End) -> Fact:
        if self._clock is None:
            return time.time_ns(), time.monotonic_ns(), None, what
        wall_ns = round(self._clock() * 1e6) * 1000
        return wall_ns, wall_ns, time.time_ns(), what

    def _hand_over(self) -> None:
        self._added = 0
        self._bytes_handed_over = self._bytes_added
        self.files.write(self._rows)

    def _rows(self) -> Rows:
        """The next block as rows; runs on the thread, once for each block at least."""
        waiting = self._facts
        facts = [waiting.popleft() for _ in range(min(len(waiting), FACTS_PER_BLOCK))]
        self._bytes_taken += sum([_body_size(fact[3]) for fact in facts])
        return self._account.take(facts)


def _body_size(what: object) -> int:
    return len(what.message.body) if type(what) is SendEvent or type(what) is DeliverEvent else 0


def _files_type() -> type[RecordingFiles]:
    try:
        from aiorocketmq._recording_files import RecordingFiles
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise UsageError("Recorder needs pyarrow: run pip install 'aiorocketmq[recording]'.") from missing
    return RecordingFiles
