"""Hook that records client events for the audits (docs/reference/recording.md).

    async with Producer("localhost:8081", hooks=[Recorder("runs/")]) as producer: ...

One Recorder may serve many clients. A recording begins with the first event of any of them and is complete when the
last of them has stopped; `close()` waits until it is written to the disk."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import monotonic_ns, time_ns
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Literal

from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.records import Record, packed, plain
from aiorocketmq._recording.rows import by_topic, has_stopped, stored
from aiorocketmq._session.events import AckEnd, Acking, Answer, Sent, Tap
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.hooks import (
    AssignEvent,
    ClientEvent,
    ClientIdentity,
    DeliverEvent,
    Event,
    Hook,
    Phase,
    SendEvent,
    SettingsEvent,
)
from aiorocketmq.message import ReceivedMessage, SendReceipt
from aiorocketmq.recording_format import VERSION

if TYPE_CHECKING:
    from aiorocketmq._recording.writer import Writer

__all__ = ["Recorder"]


RECORDS_PER_BLOCK = 512
BYTES_PER_BLOCK = 4 << 20
"""Records reference the bodies of their messages until they are written: they are passed on by count or by size."""

BYTES_PACKED_HERE = 1 << 20
"""Blocks with larger bodies are packed by the thread: it hashes them while the event loop continues."""

BLOCKS_AT_ONCE = 8
"""Blocks packed on the event loop before the thread is woken for them."""

TICKS = 10
"""How many times in the life of a file its age is checked if no record arrives."""

MOST_WAITING = 200_000
"""Records that may wait for a slow disk; further ones are left out, and the gap is recorded."""

MOST_BYTES_WAITING = 64 << 20
"""Bytes of bodies that may wait with them."""


class Recorder(Hook):
    """Hook that writes every event of its clients to Parquet files in `folder`.

    `folder` is a path, or an address such as `s3://bucket/runs` that pyarrow or fsspec knows; with `filesystem`, an
    object of either, it is a path in that. Files get their final names when they are complete.

    `run_id` names the run (default: the folder's name); recorders of one run, in whatever process, must use the same.
    `case_id` is a column of all rows. `clock` returns Unix seconds and replaces the machine's clock; pass the fake
    broker's if that one is moved by hand. A file is completed after `rows_per_file` rows (at least 1) or
    `seconds_per_file` seconds (above 0): a process that dies loses what came after the last completed one, which the
    audit detects.

    Recording costs the event loop about a microsecond an event. The rest is done on a thread; at more than 1,000 rows a
    second, by a process of its own, which works while half a core is idle and may be 1 GiB behind, in an unnamed
    temporary file. What it has received is written even if this process is killed. `own_process=False` disables it, as
    do file systems of fsspec, and systems other than POSIX. If the disk is too slow, events are left out and the gap is
    recorded; at most 200,000 events or 64 MiB of bodies wait in memory.

    `order_grain` is what ordered groups of the recorded server lock, which servers do not declare to clients: Apache's
    lock a whole `queue`, and redeliver acked messages of it behind one that is not (E5), any number of times under one
    attempt number. Without it the audit reports that as a violation.

    Raises UsageError if pyarrow is missing or the address is unknown, ValueError for values out of range."""

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
        own_process: bool = True,
        order_grain: Literal["message_group", "queue"] | None = None,
    ) -> None:
        if order_grain not in (None, "message_group", "queue"):
            raise ValueError(f"order_grain must be 'message_group' or 'queue', got {order_grain!r}")
        if rows_per_file < 1 or not seconds_per_file > 0:
            raise ValueError(
                f"rows_per_file and seconds_per_file must be positive, got {rows_per_file} and {seconds_per_file}"
            )
        self._writing = _writing()
        from aiorocketmq._recording.filesystems import name_of, place

        self._place = place(folder, filesystem)
        self.folder = Path(folder)
        self.run_id = name_of(folder) if run_id is None else run_id
        self.case_id = case_id
        self._clock = clock
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._own_process = own_process
        self._order_grain = order_grain
        self._series: _Series | None = None
        self._ended: list[Writer] = []

    def observe(self, event: Event) -> None:
        """Record one event. Called by the clients, on their event loop."""
        if self._series is None and type(event) is ClientEvent and not event.running:
            return
        if type(event) is SettingsEvent and event.order_grain is None:
            event = replace(event, order_grain=self._order_grain)
        series = self._of(event.client)
        for each in by_topic(event) if type(event) is AssignEvent else (event,):
            series.add((kinds.RAW_EVENT, *series.now(), each), size=_body_size(each))
        if type(event) is ClientEvent and has_stopped(event):
            series.remove_client(event.client)
            if not series.clients:
                self._end()

    def note_fault(self, kind: str, *, target: str = "", state: str = "") -> None:
        """Record that a server is disturbed: a row of kind `fault` (recording.md).

        Clients cannot distinguish a restart from a broken network, so the program that restarts a server under test
        reports it. For the kinds `restart` (orderly) and `crash` the audit permits what a server may forget or repeat
        then (E4); others are for readers. `target` names what was disturbed. `state` is `start` or `stop` for a fault
        that lasts: record both, with the same kind and target. Call it on the clients' event loop. Raises ValueError
        for an empty kind, or another state."""
        if not kind:
            raise ValueError("a fault needs a kind, such as 'restart' or 'crash'")
        if state not in ("", "start", "stop"):
            raise ValueError(f"the state of a fault is 'start', 'stop' or nothing, not {state!r}")
        fault = {"kind": kind} | {
            name: value for name, value in (("target", target), ("state", state)) if value
        }
        if self._series is None:
            self._series = self._begin()
        self._series.add((kinds.FAULT, *self._series.now(), fault))

    # A tap: see `Emitter`. Nothing here may take long, since it is called for every message.

    def _tap(self) -> Tap | None:
        # A subclass that overrides `observe` gets events instead.
        return _Tap(self) if type(self).observe is Recorder.observe else None

    def _of(self, client: ClientIdentity) -> _Series:
        series = self._series
        if series is None:
            series = self._series = self._begin()
        if client.client_id not in series.clients:
            series.add_client(client)
        return series

    def close(self) -> None:
        """Complete the recording and wait for the disk. May be called twice.

        Blocks for the time of the last write: call it after the clients have stopped, or in a thread. Raises OSError if
        the recording could not be written."""
        self._end()
        with ExitStack() as every_one:
            for writer in self._ended:
                every_one.callback(writer.finish, wait=True)

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
        destination = self._writing.Destination(
            *self._place,
            constant,
            rows_per_file=self._rows_per_file,
            seconds_per_file=self._seconds_per_file,
        )
        writer = self._writing.Writer(destination, may_move=self._own_process)
        # A program that ends without stopping its clients still leaves a complete recording.
        atexit.register(self.close)
        return _Series(writer, self._clock, tick=self._seconds_per_file / TICKS)

    def _end(self) -> None:
        series, self._series = self._series, None
        if series is not None:
            atexit.unregister(self.close)
            series.end()
            self._ended.append(series.writer)


class _Tap:
    """Receives the high-frequency events of clients for a recorder."""

    __slots__ = ("_of",)

    def __init__(self, recorder: Recorder) -> None:
        self._of = recorder._of

    def introduced(self, client: ClientIdentity, serial: int, message: ReceivedMessage) -> None:
        series = self._of(client)
        # No row: it is not counted, and never left out, as later records refer to it.
        series.put((kinds.RAW_MESSAGE, *series.now(), serial, message))

    def delivered(
        self, client: ClientIdentity, answer: Answer, first: int, messages: Sequence[ReceivedMessage]
    ) -> None:
        series = self._of(client)
        wires = [message._wire for message in messages]
        size = sum([len(message.body) for message in messages])
        record = (kinds.RAW_DELIVERED, *series.now(), client.client_id, answer, first, messages, wires)
        series.add(record, count=len(messages), size=size)

    def handling(self, client: ClientIdentity, operation: int, serial: int, attempt: int) -> None:
        series = self._of(client)
        series.add_one((kinds.HANDLING, *series.now(), client.client_id, operation, serial, attempt))

    def handled(
        self, client: ClientIdentity, operation: int, serial: int, attempt: int, is_success: bool
    ) -> None:
        series = self._of(client)
        series.add_one(
            (kinds.HANDLED, *series.now(), client.client_id, operation, serial, attempt, is_success)
        )

    def acking(self, client: ClientIdentity, acking: Acking) -> None:
        series = self._of(client)
        record = (kinds.ACKING, *series.now(), client.client_id, acking.first, acking.entries)
        series.add(record, count=len(acking.entries))

    def acked(self, client: ClientIdentity, acking: Acking, ends: Sequence[AckEnd] | None) -> None:
        series = self._of(client)
        codes = None
        if ends is not None:
            codes = [(phase.value, None if error is None else error.code) for phase, error in ends]
        record = (kinds.ACKED, *series.now(), client.client_id, codes, acking.first, acking.entries)
        series.add(record, count=len(acking.entries))

    def sending(self, client: ClientIdentity, sent: Sent) -> None:
        series = self._of(client)
        series.add((kinds.RAW_SENDING, *series.now(), client.client_id, sent), size=len(sent.message.body))

    def sent(
        self,
        client: ClientIdentity,
        sent: Sent,
        phase: Phase,
        error: RocketMQError | None,
        receipt: SendReceipt | None,
    ) -> None:
        series = self._of(client)
        code = None if error is None else error.code
        end = (phase._value_, code, stored(receipt, is_half=sent.is_half))
        series.add((kinds.SENT, *series.now(), client.client_id, sent.operation, *end))


class _Series:
    """One recorder in the sense of the contract: adds times to records, and passes them to the thread that writes
    them."""

    def __init__(self, writer: Writer, clock: Callable[[], float] | None, *, tick: float) -> None:
        self.writer = writer
        self.clients: set[str] = set()
        """Clients that have not stopped."""
        self._clock = clock
        # The event loop appends on one side, the thread pops on the other; neither needs a lock for that.
        self._records: deque[Record] = deque()
        self._begun = self._granted = self._taken = 0
        """Records; an answer counts as many as it has messages."""
        self._room = 0
        """Rows until the next block is passed on; 0 while records are left out."""
        self._grant(RECORDS_PER_BLOCK)
        self._bytes_added = self._bytes_passed_on = self._bytes_taken = 0
        self._left_out = 0
        self._packed: list[bytes] = []
        self._taking = threading.Lock()
        """Held while records or packed blocks are taken."""
        self._ending = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._tick, args=(tick,), name="recording-clock", daemon=True).start()
        cfg = {"version": f"{VERSION}", "writer": f"aiorocketmq {version('aiorocketmq')}"}
        cfg["clock"] = "real" if clock is None else "manual"
        self.add((kinds.BEGIN, *self.now(), cfg))

    def now(self) -> tuple[int, int, int | None]:
        """The current time as the first fields of a record."""
        if self._clock is None:
            return time_ns(), monotonic_ns(), None
        wall_ns = round(self._clock() * 1e6) * 1000
        return wall_ns, wall_ns, time_ns()

    def add_client(self, client: ClientIdentity) -> None:
        """Record a client that is new, or had stopped."""
        self.clients.add(client.client_id)
        self.put((kinds.CLIENT, *self.now(), client.client_id, client.role.value, client.group))

    def remove_client(self, client: ClientIdentity) -> None:
        """It has stopped."""
        self.clients.discard(client.client_id)

    def add(self, record: Record, *, count: int = 1, size: int = 0) -> None:
        """Add a record of `count` rows and `size` bytes of bodies, or leave it out if too much waits."""
        waiting = self._bytes_added - self._bytes_taken
        if (
            self._added - self._taken >= MOST_WAITING
            or waiting >= MOST_BYTES_WAITING
            or self.writer.has_failed
        ):
            self._left_out += count
            self._grant(0)
            return
        if self._left_out:
            self._record_gap()
            self._grant(RECORDS_PER_BLOCK)
        self.put(record)
        self._bytes_added += size
        self._room -= count
        if self._room <= 0 or self._bytes_added - self._bytes_passed_on >= BYTES_PER_BLOCK:
            self._pass_on()

    def add_one(self, record: Record) -> None:
        """Do the same for one row without a body, in half the time: the limit is checked once per block."""
        if self._room > 1:
            self._room -= 1
            self._records.append(record)
        else:
            self.add(record)

    def put(self, record: Record) -> None:
        """Add a record that must not be left out."""
        self._records.append(record)

    def end(self) -> None:
        """Write the last row and let the files be completed."""
        with self._ending:
            self._ended.set()
            if self._left_out:
                self._record_gap()
            self.put((kinds.END, *self.now()))
            self.writer.write(self._due)
            self.writer.finish(wait=False)

    @property
    def _added(self) -> int:
        """Rows that were not left out."""
        return self._begun + self._granted - self._room

    def _grant(self, rows: int) -> None:
        self._begun = self._added
        self._granted = self._room = rows

    def _record_gap(self) -> None:
        self.put((kinds.LEFT_OUT, *self.now(), self._left_out))
        self._left_out = 0

    def _tick(self, tick: float) -> None:
        """Pass on what has arrived, however little it is, so that files of a quiet program are completed in time."""
        while not self._ended.wait(tick):
            with self._ending:
                if not self._ended.is_set():
                    self.writer.write(self._due)

    def _pass_on(self) -> None:
        size = self._bytes_added - self._bytes_passed_on
        self._grant(RECORDS_PER_BLOCK)
        self._bytes_passed_on = self._bytes_added
        if not (self.writer.is_elsewhere and size <= BYTES_PACKED_HERE and self._pack()):
            self.writer.write(self._due)

    def _pack(self) -> bool:
        """Pack a block for another process here, unless the thread is about to: that is cheaper than packing on the
        thread, since the two would wait for each other. False if packed blocks must be passed on, or the thread is
        behind: what it has not taken counts as waiting."""
        if len(self._packed) >= 2 * BLOCKS_AT_ONCE or len(self._records) > 2 * RECORDS_PER_BLOCK:
            return False
        if not self._taking.acquire(blocking=False):
            return False
        try:
            records = list(self._records)
            self._records.clear()
            self._taken, self._bytes_taken = self._added, self._bytes_added
            self._packed.append(packed(plain(records)))
        except Exception as error:  # as if it had occurred on the thread
            self.writer.fail(error)
        finally:
            self._taking.release()
        return len(self._packed) < BLOCKS_AT_ONCE

    def _due(self) -> tuple[list[bytes], list[Record]]:
        """Return all packed blocks, and the next records; runs on the thread, at least once for each block."""
        with self._taking:
            blocks, self._packed = self._packed, []
            return blocks, self._block()

    def _block(self) -> list[Record]:
        """Return the next records as plain values."""
        waiting = self._records
        records = []
        rows = size = 0
        while waiting and rows < RECORDS_PER_BLOCK:
            record = waiting.popleft()
            records.append(record)
            weigh = _WEIGHTS.get(record[0])
            if weigh is None:
                rows += 1
            else:
                its_rows, its_size = weigh(record)
                rows += its_rows
                size += its_size
        self._taken += rows
        self._bytes_taken += size
        return plain(records)


_NO_ROW = 0, 0

_WEIGHTS: dict[int, Callable[[Record], tuple[int, int]]] = {
    kinds.CLIENT: lambda record: _NO_ROW,
    kinds.RAW_MESSAGE: lambda record: _NO_ROW,
    kinds.LEFT_OUT: lambda record: _NO_ROW,
    kinds.END: lambda record: _NO_ROW,
    kinds.ACKING: lambda record: (len(record[-1]), 0),
    kinds.ACKED: lambda record: (len(record[-1]), 0),
    kinds.RAW_DELIVERED: lambda record: (len(record[-2]), sum([len(each.body) for each in record[-2]])),
    kinds.RAW_SENDING: lambda record: (1, len(record[-1].message.body)),
    kinds.RAW_EVENT: lambda record: (1, _body_size(record[-1])),
}
"""Rows and bytes of bodies that records were counted as when they were added; others are one row."""


def _body_size(event: Event) -> int:
    return len(event.message.body) if isinstance(event, (SendEvent, DeliverEvent)) else 0


def _writing() -> ModuleType:
    try:
        return import_module("aiorocketmq._recording.writer")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise UsageError("Recorder needs pyarrow: run pip install 'aiorocketmq[recording]'.") from missing
