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
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aiorocketmq._recording_drains import Drains, Moment
from aiorocketmq._recording_rows import Cells, Fact, kind_of, operation_id, row_of
from aiorocketmq.errors import UsageError
from aiorocketmq.hooks import ClientEvent, DeliverEvent, Event, Hook, Phase, ReceiveEvent, SendEvent

if TYPE_CHECKING:
    from aiorocketmq._recording_files import RecordingFiles

FACTS_PER_BLOCK = 512
BYTES_PER_BLOCK = 4 << 20
"""Facts keep the bodies of their messages alive until they are written: they are handed over by count or by size."""

TICKS = 10
"""How many times in the life of a file it is looked whether that has ended, where no fact comes that would tell."""

OPEN_CALLS = 65_536
"""How many calls are remembered for their completions; polls stay after theirs, for the deliveries they brought."""


class Recorder(Hook):
    """Writes every fact of its clients to Parquet files in `folder`.

    `folder` is a path, or an address such as `s3://bucket/runs` that pyarrow or fsspec knows; `filesystem`, an object
    of either, is asked for the path instead. Files bear their final names when they are complete.

    `run_id` names the run (default: the folder's name); recorders of one run, in whatever process, must agree on
    it. `clock` returns Unix seconds and replaces the machine's clock; give it the fake broker's when that one is
    moved by hand. A file is completed after `rows_per_file` rows or `seconds_per_file` seconds: a process that dies
    loses what came after the last completed one, and the audit will know.

    Recording costs the event loop a few microseconds a fact; all else happens on threads. When the disk is too slow,
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
        files = self._files_type(
            *self._place, name, rows_per_file=self._rows_per_file, seconds_per_file=self._seconds_per_file
        )
        constant: Cells = {"run_id": self.run_id, "case_id": self.case_id, "observer": "client"}
        # A program that ends without stopping its clients still leaves a complete recording.
        atexit.register(self.close)
        constant |= {"recorder": name, "boot": boot}
        return _Series(files, constant, self._clock, tick=self._seconds_per_file / TICKS)

    def _end(self) -> None:
        series, self._series = self._series, None
        if series is not None:
            atexit.unregister(self.close)
            series.end()
            self._ended.append(series.files)


class _Series:
    """One recorder in the sense of the contract: numbers facts, stamps them, and joins calls with their ends."""

    def __init__(
        self, files: RecordingFiles, constant: Cells, clock: Callable[[], float] | None, *, tick: float
    ) -> None:
        self.files = files
        self.clients: dict[str, int] = {}
        """Clients that have not stopped, with their incarnation."""
        self._constant = constant
        self._clock = clock
        self._epochs: dict[str, int] = {}
        self._calls: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._answer: tuple[str | None, tuple[int, int, int | None]] = (None, (0, 0, None))
        self._drains = Drains()
        self._seq = 0
        self._block: list[Fact] = []
        self._bytes = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._look, args=(tick,), name="recording-clock", daemon=True).start()
        cfg = {"version": "1", "writer": f"aiorocketmq {version('aiorocketmq')}"}
        cfg["clock"] = "real" if clock is None else "manual"
        self._add("recorder.start", self._now(), own={"cfg": cfg})

    def note(self, event: Event) -> None:
        """Take down one event."""
        client = event.client.client_id
        if client not in self.clients:
            self._epochs[client] = self.clients[client] = self._epochs.get(client, 0) + 1
        kind = kind_of(event)
        if kind is not None:
            seq, now = self._seq, self._stamp(kind, event)
            drained = self._drains.note(event, Moment(now[1] / 1e9, now[0], seq))
            if drained is not None:
                own = {"group": drained.group, "topic": drained.topic}
                self._add("drain.ok", now, invoked=drained.asked[1:], own=own)
        if type(event) is ClientEvent and _has_stopped(event):
            del self.clients[client]

    def end(self) -> None:
        """Write the last row and let the files be completed."""
        self._ended.set()
        self._add("recorder.end", self._now())
        with self._lock:
            self._hand_over()
            self.files.finish(wait=False)

    def _look(self, tick: float) -> None:
        """Hand over what has come, however little it is, so that a quiet program's files are completed in time."""
        while not self._ended.wait(tick):
            with self._lock:
                if not self._ended.is_set():
                    self._hand_over()

    def _stamp(self, kind: str, event: Event) -> tuple[int, int, int | None]:
        """Take down a fact of that kind; returns its time."""
        operation = operation_id(event)
        now = self._now()
        invoked: tuple[int, int] | None = None
        if type(event) is DeliverEvent:
            # All messages of one answer share one time, so that their order is that of their places.
            if operation is not None and self._answer[0] == operation:
                now = self._answer[1]
            self._answer = (operation, now)
            invoked = self._calls.get(operation or "")
        elif operation is not None and event.phase is Phase.INVOKE:
            self._calls[operation] = (now[0], self._seq)
            if len(self._calls) > OPEN_CALLS:
                self._calls.popitem(last=False)
        elif operation is not None:
            # A poll is forgotten later: some clients tell its end before what it brought.
            keep = type(event) is ReceiveEvent
            invoked = self._calls.get(operation) if keep else self._calls.pop(operation, None)
        self._add(kind, now, event=event, invoked=invoked)
        if type(event) is SendEvent or type(event) is DeliverEvent:
            self._bytes += len(event.message.body)
        if len(self._block) >= FACTS_PER_BLOCK or self._bytes >= BYTES_PER_BLOCK:
            with self._lock:
                self._hand_over()
        return now

    def _add(
        self,
        kind: str,
        now: tuple[int, int, int | None],
        *,
        event: Event | None = None,
        invoked: tuple[int, int] | None = None,
        own: Mapping[str, object] | None = None,
    ) -> None:
        seq, self._seq = self._seq, self._seq + 1
        if self.files.is_full and kind != "recorder.end":
            return
        invoked_us, invoked_seq = invoked or (None, None)
        epoch = None if event is None else self.clients[event.client.client_id]
        with self._lock:
            self._block.append(Fact(seq, kind, *now, epoch, invoked_us, invoked_seq, event, own))

    def _hand_over(self) -> None:
        """Called with the lock held: a fact that is being added is in this block or in the next one."""
        block, size, self._block, self._bytes = self._block, self._bytes, [], 0
        constant = self._constant
        self.files.write(block, lambda fact: constant | row_of(fact), size=size)

    def _now(self) -> tuple[int, int, int | None]:
        """Wall clock in microseconds, monotonic clock in nanoseconds, and the machine's clock where that is another."""
        if self._clock is None:
            return time.time_ns() // 1000, time.monotonic_ns(), None
        wall_us = round(self._clock() * 1e6)
        return wall_us, wall_us * 1000, time.time_ns() // 1000


def _has_stopped(event: ClientEvent) -> bool:
    if event.running:
        return event.phase is Phase.FAIL
    return event.phase is not Phase.INVOKE


def _files_type() -> type[RecordingFiles]:
    try:
        from aiorocketmq._recording_files import RecordingFiles
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise UsageError("Recorder needs pyarrow: run pip install 'aiorocketmq[recording]'.") from missing
    return RecordingFiles
